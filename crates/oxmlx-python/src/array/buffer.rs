//! The buffer protocol, both ways, and DLPack: zero-copy views of arrays for numpy and others, and reading of
//! other objects' memory.
//!
//! The only unsafe code of the binding. A view that is handed out keeps the memory alive by itself, and since
//! it can be written to, the memory is marked so that the engine never reuses it for results.

use super::{PyArray, host};
use crate::error::OrRaise;
use oxmlx::runtime::memory::Buffer;
use oxmlx::{Array, Dtype, Layout, ops};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// What a handed-out view needs to stay valid; freed when the view is released.
struct Export {
    shape: Vec<isize>,
    strides: Vec<isize>,
    _memory: Buffer,
}

/// The format letter of an element type, as the struct module and numpy name it.
fn format(dtype: Dtype) -> &'static CStr {
    match dtype {
        Dtype::Bool => c"?",
        Dtype::Uint8 => c"B",
        Dtype::Uint16 => c"H",
        Dtype::Uint32 => c"I",
        Dtype::Uint64 => c"Q",
        Dtype::Int8 => c"b",
        Dtype::Int16 => c"h",
        Dtype::Int32 => c"i",
        Dtype::Int64 => c"q",
        Dtype::Float16 => c"e",
        Dtype::Float32 => c"f",
        Dtype::Float64 => c"d",
        Dtype::Bfloat16 => c"bfloat16",
        Dtype::Complex64 => c"Zf",
    }
}

/// Contents in which every element has a place of its own, so that writing one writes no other; `array` holds
/// them from now on, so that it sees what is written.
fn exportable(array: &PyArray, py: Python<'_>) -> PyResult<(Dtype, Buffer, Layout)> {
    let a = array.get();
    if a.known_scalar().is_some() {
        let bytes = a.to_bytes().or_raise()?;
        array.set(Array::from_bytes(&bytes, &[], a.dtype()).or_raise()?);
    } else {
        let (_, layout) = host(py, &a)?;
        if layout.shape.iter().zip(&layout.strides).any(|(&n, &s)| n > 1 && s == 0) {
            let own = ops::contiguous(&a).or_raise()?;
            host(py, &own)?;
            array.set(own);
        }
    }
    let a = array.get();
    let (buffer, layout) = host(py, &a)?;
    Ok((a.dtype(), buffer, layout))
}

#[pymethods]
impl PyArray {
    // SAFETY: called by the interpreter with a view to fill in, as the slot's contract has it.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        // SAFETY: not null; a failure must leave no object in the view.
        unsafe { (*view).obj = null_mut() };
        let (dtype, memory, layout) = exportable(slf.get(), slf.py())?;
        if flags & ffi::PyBUF_STRIDES != ffi::PyBUF_STRIDES && !layout.is_contiguous() {
            return Err(PyBufferError::new_err("the array is not contiguous, the consumer wants no strides"));
        }
        slf.get().get().mark_escaped();
        let size = dtype.size();
        let first = memory.address().0 + layout.offset * size;
        let export = Box::new(Export {
            shape: layout.shape.iter().map(|&n| n as isize).collect(),
            strides: layout.strides.iter().map(|&s| s * size as isize).collect(),
            _memory: memory,
        });
        let wants = |flag: c_int| flags & flag == flag;
        // SAFETY: the view is valid for writes; all pointers go to the export, whose vectors do not move and
        // which lives until `__releasebuffer__`, or to static strings. Consumers do not write shape, strides
        // or format, although the C type says that they could.
        unsafe {
            let v = &mut *view;
            v.buf = first as *mut c_void;
            v.len = (layout.size() * size) as isize;
            v.itemsize = size as isize;
            v.readonly = 0;
            v.ndim = export.shape.len() as c_int;
            v.format = if wants(ffi::PyBUF_FORMAT) { format(dtype).as_ptr().cast_mut() } else { null_mut() };
            v.shape = if wants(ffi::PyBUF_ND) { export.shape.as_ptr().cast_mut() } else { null_mut() };
            v.strides =
                if wants(ffi::PyBUF_STRIDES) { export.strides.as_ptr().cast_mut() } else { null_mut() };
            v.suboffsets = null_mut();
            v.internal = Box::into_raw(export).cast();
            v.obj = slf.into_ptr();
        }
        Ok(())
    }

    // SAFETY: called by the interpreter, once for every view that `__getbuffer__` filled in.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `internal` is the box that `__getbuffer__` put there, and the view is gone after this.
        drop(unsafe { Box::from_raw((*view).internal.cast::<Export>()) });
    }
}

/// DLPack's description of memory, version 0: the layout that its C header fixes.
#[repr(C)]
struct Managed {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// What `Managed::context` points to.
struct Shared {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _memory: Buffer,
}

const CAPSULE: &CStr = c"dltensor";

/// DLPack's device number of host memory.
const DL_CPU: i32 = 1;

/// DLPack's number for the kind of an element type.
fn dl_code(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Bool => 6,
        Dtype::Bfloat16 => 4,
        Dtype::Complex64 => 5,
        d if d.is_floating() => 2,
        d if d.is_unsigned() => 1,
        _ => 0,
    }
}

// SAFETY: called once, by whoever owns the tensor, with a pointer that `dlpack` made.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both boxes were made by `dlpack`, and nobody has the tensor any more.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Shared>()));
    }
}

// SAFETY: called by the interpreter with a capsule that `dlpack` made.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: a consumer renames the capsule when it takes the tensor over; under the first name it is ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, CAPSULE.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, CAPSULE.as_ptr()).cast());
        }
    }
}

/// A DLPack capsule of contents on the host, of which the engine knows that others may write them.
fn dlpack(py: Python<'_>, dtype: Dtype, memory: Buffer, layout: &Layout) -> PyResult<Py<PyAny>> {
    let data = memory.address().0 + layout.offset * dtype.size();
    let mut shared = Box::new(Shared {
        shape: layout.shape.iter().map(|&n| n as i64).collect(),
        strides: layout.strides.iter().map(|&s| s as i64).collect(),
        _memory: memory,
    });
    let managed = Box::into_raw(Box::new(Managed {
        data: data as *mut c_void,
        device_type: DL_CPU,
        device_id: 0,
        ndim: shared.shape.len() as i32,
        code: dl_code(dtype),
        bits: dtype.size() as u8 * 8,
        lanes: 1,
        shape: shared.shape.as_mut_ptr(),
        strides: shared.strides.as_mut_ptr(),
        byte_offset: 0,
        context: Box::into_raw(shared).cast(),
        deleter: Some(delete),
    }));
    // SAFETY: the name is static and the destructor fits the pointer; on failure the tensor is still ours.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), CAPSULE.as_ptr(), Some(drop_capsule));
        if capsule.is_null() {
            delete(managed);
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, capsule).unbind())
    }
}

#[pymethods]
impl PyArray {
    /// DLPack's device: host memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (DL_CPU, 0)
    }

    /// A DLPack capsule of the evaluated contents, without a copy unless one is asked for. BufferError for
    /// devices other than the host.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Bound<'_, PyAny>>,
        max_version: Option<Bound<'_, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let _ = (stream, max_version);
        if dl_device.is_some_and(|d| d.0 != DL_CPU) {
            return Err(PyBufferError::new_err("the array can be exported to the host only"));
        }
        if copy == Some(true) {
            let a = self.get();
            let bytes = py.detach(|| a.to_bytes()).or_raise()?;
            let own = Array::from_bytes(&bytes, a.shape(), a.dtype()).or_raise()?;
            let (memory, layout) = own.host().or_raise()?;
            own.mark_escaped();
            return dlpack(py, a.dtype(), memory, &layout);
        }
        let (dtype, memory, layout) = exportable(self, py)?;
        self.get().mark_escaped();
        dlpack(py, dtype, memory, &layout)
    }
}

/// Memory of another object, held until dropped.
pub struct Source {
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read while threads share it; its memory stays valid until it is released, which
// happens in `drop` with the interpreter attached.
unsafe impl Sync for Source {}

impl Source {
    /// Asks an object for its memory with shape, strides and format.
    ///
    /// # Errors
    /// What the object raises if it does not give it.
    pub fn open(obj: &Bound<'_, PyAny>) -> PyResult<Source> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object and the view are valid; the box keeps the view's address.
        let status = unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), &mut *view, ffi::PyBUF_FULL_RO) };
        if status != 0 {
            return Err(PyErr::fetch(obj.py()));
        }
        let source = Source { view };
        if !source.view.suboffsets.is_null() {
            return Err(PyBufferError::new_err("buffers with suboffsets cannot be read"));
        }
        Ok(source)
    }

    fn numbers(&self, at: *const isize) -> Vec<isize> {
        if at.is_null() || self.view.ndim <= 0 {
            return Vec::new();
        }
        // SAFETY: shape and strides, where given, have `ndim` entries.
        unsafe { std::slice::from_raw_parts(at, self.view.ndim as usize) }.to_vec()
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> Vec<usize> {
        self.numbers(self.view.shape).into_iter().map(|n| n.max(0) as usize).collect()
    }

    /// Bytes between neighbours along each axis.
    pub fn strides(&self) -> Vec<isize> {
        let strides = self.numbers(self.view.strides);
        if strides.is_empty() {
            let unit = oxmlx::contiguous_strides(&self.shape());
            return unit.iter().map(|s| s * self.view.itemsize).collect();
        }
        strides
    }

    /// Bytes of an element.
    pub fn item_size(&self) -> usize {
        self.view.itemsize.max(0) as usize
    }

    /// The format string; `B` where the object gives none.
    pub fn format(&self) -> String {
        if self.view.format.is_null() {
            return "B".into();
        }
        // SAFETY: a format that is given is a C string, valid as long as the view.
        unsafe { CStr::from_ptr(self.view.format) }.to_string_lossy().into_owned()
    }

    /// All bytes that the elements touch, and where the first element begins.
    pub fn bytes(&self) -> (&[u8], usize) {
        let (mut low, mut high) = (0isize, self.view.itemsize);
        for (&n, &s) in self.shape().iter().zip(&self.strides()) {
            if n == 0 {
                return (&[], 0);
            }
            let reach = s * (n as isize - 1);
            if reach < 0 { low += reach } else { high += reach }
        }
        if self.view.buf.is_null() {
            return (&[], 0);
        }
        // SAFETY: a view's elements lie at `buf` plus multiples of the strides, from `low` to `high`; the
        // memory is valid until the view is released. That others write it meanwhile is the user's race, as
        // with numpy.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.view.buf.cast::<u8>().offset(low), (high - low) as usize)
        };
        (bytes, -low as usize)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the view was filled by PyObject_GetBuffer and is released once, on the thread that opened it.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) };
    }
}

/// Whether an object gives out its memory.
pub fn gives_buffer(obj: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is valid.
    unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) != 0 }
}
