//! Python values into arrays and arrays into Python values.

use super::buffer::{Source, gives_buffer};
use super::{PyArray, host, item, wrap};
use crate::args::{Number, number};
use crate::error::OrRaise;
use oxmlx::read::element;
use oxmlx::{Array, Dtype, Layout, Scalar, ops};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyList, PyString, PyTuple};

/// Imports larger than this let other Python threads run meanwhile.
const RELEASE_FROM: usize = 1 << 20;

/// Lists nested deeper than this are taken for lists that contain themselves.
const MAX_DEPTH: usize = 64;

/// The refusal of a type that makes no array.
pub fn invalid_type(obj: &Bound<'_, PyAny>) -> PyErr {
    match obj.get_type().name() {
        Ok(name) => PyValueError::new_err(format!("Invalid type {name} received in array initialization.")),
        Err(e) => e,
    }
}

fn is_sequence(obj: &Bound<'_, PyAny>) -> bool {
    obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>()
}

/// What an object's `__mlx_array__` returns, if it has one.
pub fn protocol(obj: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let Some(method) = obj.getattr_opt(intern!(obj.py(), "__mlx_array__"))? else { return Ok(None) };
    let made = method.call0()?;
    match made.cast::<PyArray>() {
        Ok(a) => Ok(Some(a.get().get())),
        Err(_) => Err(PyTypeError::new_err("__mlx_array__ did not return an array")),
    }
}

/// Whether an object is another library's array or scalar.
pub fn is_foreign(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    if is_sequence(obj) || obj.is_instance_of::<PyString>() {
        return Ok(false);
    }
    Ok(gives_buffer(obj) || obj.hasattr(intern!(obj.py(), "__dlpack__"))?)
}

/// The constructor: any value, cast to `dtype` if that is given.
///
/// # Errors
/// TypeError for None, ValueError for ragged lists and types that are no numbers.
pub fn from_python(val: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    let cast = |a: Array| match dtype {
        Some(d) => ops::astype(&a, d).or_raise(),
        None => Ok(a),
    };
    if let Ok(a) = val.cast::<PyArray>() {
        return cast(a.get().get());
    }
    if let Some(n) = number(val)? {
        return Ok(Array::scalar(n.to_scalar(dtype.unwrap_or(n.dtype()))));
    }
    if is_sequence(val) {
        return from_sequence(val, dtype);
    }
    if val.is_none() {
        return Err(PyTypeError::new_err(
            "incompatible function arguments: array() needs a value, not None.",
        ));
    }
    if let Some(a) = protocol(val)? {
        return cast(a);
    }
    if is_foreign(val)? {
        return foreign(val, dtype);
    }
    Err(invalid_type(val))
}

/// A list of lists being read: the numbers so far and the shape that the first elements had.
#[derive(Default)]
struct Nested {
    numbers: Vec<Number>,
    shape: Vec<usize>,
    /// Depth at which numbers are; known after the first.
    depth: Option<usize>,
}

impl Nested {
    /// Reads one level; false if there are arrays inside, which need another way.
    fn read(&mut self, seq: &Bound<'_, PyAny>, axis: usize) -> PyResult<bool> {
        if axis >= MAX_DEPTH {
            return Err(PyValueError::new_err("Initialization encountered too many dimensions."));
        }
        let n = seq.len()?;
        match self.shape.get(axis) {
            None if self.depth.is_some() => {
                return Err(PyValueError::new_err("Initialization encountered extra dimension."));
            }
            None => self.shape.push(n),
            Some(&m) if m != n => return Err(ragged()),
            Some(_) => {}
        }
        if n == 0 {
            self.depth.get_or_insert(axis + 1);
        }
        if let Ok(list) = seq.cast::<PyList>() {
            for value in list.iter() {
                if !self.value(&value, axis + 1)? {
                    return Ok(false);
                }
            }
        } else {
            for value in seq.try_iter()? {
                if !self.value(&value?, axis + 1)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn value(&mut self, value: &Bound<'_, PyAny>, axis: usize) -> PyResult<bool> {
        if let Some(n) = number(value)? {
            if *self.depth.get_or_insert(axis) != axis || self.shape.len() != axis {
                return Err(ragged());
            }
            self.numbers.push(n);
            return Ok(true);
        }
        if is_sequence(value) {
            return self.read(value, axis);
        }
        if value.is_instance_of::<PyArray>() || value.hasattr(intern!(value.py(), "__mlx_array__"))? {
            return Ok(false);
        }
        Err(invalid_type(value))
    }

    fn dtype(&self) -> Dtype {
        let all = self.numbers.iter().map(|n| n.dtype());
        all.reduce(Dtype::promote).unwrap_or(Dtype::Float32)
    }
}

fn ragged() -> PyErr {
    PyValueError::new_err("Initialization encountered non-uniform length.")
}

fn from_sequence(seq: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    let mut nested = Nested::default();
    if !nested.read(seq, 0)? {
        let parts = seq.try_iter()?.map(|v| from_python(&v?, dtype)).collect::<PyResult<Vec<_>>>()?;
        return ops::stack(&parts, 0).or_raise();
    }
    let dtype = dtype.unwrap_or_else(|| nested.dtype());
    let size = dtype.size();
    Array::from_fill(&nested.shape, dtype, |out| {
        for (place, n) in out.chunks_exact_mut(size).zip(&nested.numbers) {
            place.copy_from_slice(&n.to_scalar(dtype).bits.to_le_bytes()[..size]);
        }
    })
    .or_raise()
}

/// How another library's elements are stored.
#[derive(Clone, Copy, PartialEq)]
enum Stored {
    /// As one of our types.
    As(Dtype),
    /// Pairs of float64, which become complex64.
    Complex128,
}

impl Stored {
    fn of(format: &str, item_size: usize) -> Option<Stored> {
        use Dtype::*;
        let code = format.trim_start_matches(['@', '=', '<', '>', '!']);
        let by_size = |all: [Dtype; 4]| all.into_iter().find(|d| d.size() == item_size);
        let dtype = match code {
            "?" => Bool,
            "b" | "h" | "i" | "l" | "q" | "n" => by_size([Int8, Int16, Int32, Int64])?,
            "B" | "H" | "I" | "L" | "Q" | "N" => by_size([Uint8, Uint16, Uint32, Uint64])?,
            "c" | "s" if item_size == 1 => Uint8,
            "e" => Float16,
            "f" => Float32,
            "d" => Float64,
            "bfloat16" => Bfloat16,
            "Zf" => Complex64,
            "Zd" => return Some(Stored::Complex128),
            _ => return None,
        };
        (dtype.size() == item_size).then_some(Stored::As(dtype))
    }
}

/// Another library's array or scalar, copied. float64 and complex128 become float32 and complex64 unless
/// `dtype` says otherwise.
///
/// # Errors
/// RuntimeError for element types that are no numbers.
pub fn foreign(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    let py = obj.py();
    if let Some(bits) = bfloat16_bits(obj)? {
        let a = read_source(py, &Source::open(&bits)?, Stored::As(Dtype::Bfloat16), Some(Dtype::Bfloat16))?;
        return dtype.map_or(Ok(a.clone()), |d| ops::astype(&a, d).or_raise());
    }
    let source = if gives_buffer(obj) {
        Source::open(obj).map_err(|_| no_numbers(obj))?
    } else {
        let array = py.import(intern!(py, "numpy"))?.call_method1(intern!(py, "from_dlpack"), (obj,))?;
        Source::open(&array)?
    };
    let stored = Stored::of(&source.format(), source.item_size()).ok_or_else(|| no_numbers(obj))?;
    let a = read_source(py, &source, stored, dtype)?;
    match dtype {
        Some(d) => ops::astype(&a, d).or_raise(),
        None => Ok(a),
    }
}

fn no_numbers(obj: &Bound<'_, PyAny>) -> PyErr {
    let name = obj.get_type().name().map_or_else(|_| "?".into(), |n| n.to_string());
    PyRuntimeError::new_err(format!(
        "std::bad_cast: the elements of this {name} are no numbers that arrays hold."
    ))
}

/// numpy has no bfloat16 of its own: arrays of the usual extension type give their bits as uint16.
fn bfloat16_bits<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = obj.py();
    let Some(dtype) = obj.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let Some(name) = dtype.getattr_opt(intern!(py, "name"))? else { return Ok(None) };
    if name.cast::<PyString>().is_ok_and(|n| n == "bfloat16") && obj.hasattr(intern!(py, "view"))? {
        return obj.call_method1(intern!(py, "view"), ("uint16",)).map(Some);
    }
    Ok(None)
}

fn read_source(py: Python<'_>, source: &Source, stored: Stored, wanted: Option<Dtype>) -> PyResult<Array> {
    let (shape, strides) = (source.shape(), source.strides());
    let item_size = source.item_size();
    let (bytes, first) = source.bytes();
    let swapped = source.format().starts_with(['>', '!']);
    let narrow = wanted.is_none_or(|d| d == Dtype::Float32);
    let copy = move || -> oxmlx::Result<Array> {
        let from = Strided { bytes, shape: &shape, strides: &strides, item_size };
        // What needs work on its elements goes through a dense copy first.
        let dense = |unit: usize| {
            let mut all = vec![0u8; shape.iter().product::<usize>() * item_size];
            from.copy(first, 0, &mut all);
            if swapped {
                all.chunks_exact_mut(unit).for_each(|c| c.reverse());
            }
            all
        };
        match stored {
            Stored::Complex128 => Array::from_fill(&shape, Dtype::Complex64, |out| to_f32(&dense(8), out)),
            Stored::As(Dtype::Float64) if narrow => {
                Array::from_fill(&shape, Dtype::Float32, |out| to_f32(&dense(8), out))
            }
            Stored::As(d) if swapped => {
                let unit = if d == Dtype::Complex64 { 4 } else { item_size };
                Array::from_bytes(&dense(unit), &shape, d)
            }
            Stored::As(d) if from.is_dense(0) => {
                let size = shape.iter().product::<usize>() * item_size;
                Array::from_bytes(&bytes[first..first + size], &shape, d)
            }
            Stored::As(d) => Array::from_fill(&shape, d, |out| from.copy(first, 0, out)),
        }
    };
    if bytes.len() >= RELEASE_FROM { py.detach(copy) } else { copy() }.or_raise()
}

fn to_f32(from: &[u8], out: &mut [u8]) {
    let (from, _) = from.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<4>();
    for (v, place) in from.iter().zip(out) {
        *place = (f64::from_ne_bytes(*v) as f32).to_ne_bytes();
    }
}

/// Elements at byte strides.
struct Strided<'a> {
    bytes: &'a [u8],
    shape: &'a [usize],
    strides: &'a [isize],
    item_size: usize,
}

impl Strided<'_> {
    /// Copies the part below `axis` that begins at byte `at` to `out`, row-major.
    fn copy(&self, at: usize, axis: usize, out: &mut [u8]) {
        if out.is_empty() {
            return;
        }
        if self.is_dense(axis) {
            out.copy_from_slice(&self.bytes[at..at + out.len()]);
            return;
        }
        let (n, stride) = (self.shape[axis], self.strides[axis]);
        let place = |i: usize| at.wrapping_add_signed(i as isize * stride);
        if axis + 1 == self.shape.len() {
            return match self.item_size {
                1 => self.row::<1>(place, out),
                2 => self.row::<2>(place, out),
                4 => self.row::<4>(place, out),
                8 => self.row::<8>(place, out),
                size => out
                    .chunks_exact_mut(size)
                    .enumerate()
                    .for_each(|(i, o)| o.copy_from_slice(&self.bytes[place(i)..place(i) + size])),
            };
        }
        let part = out.len() / n;
        for (i, o) in out.chunks_exact_mut(part).enumerate() {
            self.copy(place(i), axis + 1, o);
        }
    }

    /// One row of elements of a size that the compiler knows.
    fn row<const N: usize>(&self, place: impl Fn(usize) -> usize, out: &mut [u8]) {
        for (i, o) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            o.copy_from_slice(&self.bytes[place(i)..place(i) + N]);
        }
    }

    fn is_dense(&self, axis: usize) -> bool {
        let mut step = self.item_size as isize;
        for (&n, &s) in self.shape[axis..].iter().zip(&self.strides[axis..]).rev() {
            if n != 1 && s != step {
                return false;
            }
            step *= n as isize;
        }
        true
    }
}

/// An element as the Python number of its kind.
pub fn scalar_object(py: Python<'_>, s: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match s.dtype {
        Dtype::Bool => s.to_bool().into_pyobject(py)?.to_owned().into_any().unbind(),
        Dtype::Uint64 => s.bits.into_pyobject(py)?.into_any().unbind(),
        Dtype::Complex64 => {
            let c = s.to_complex();
            PyComplex::from_doubles(py, c.re.into(), c.im.into()).into_any().unbind()
        }
        d if d.is_floating() => s.to_f64().into_pyobject(py)?.into_any().unbind(),
        _ => s.to_i64().into_pyobject(py)?.into_any().unbind(),
    })
}

/// The only element as a Python number.
pub fn item_object(py: Python<'_>, a: &Array) -> PyResult<Py<PyAny>> {
    scalar_object(py, item(py, a)?)
}

fn nested_list(
    py: Python<'_>,
    bytes: &[u8],
    dtype: Dtype,
    layout: &Layout,
    axis: usize,
    at: isize,
) -> PyResult<Py<PyAny>> {
    let Some(&n) = layout.shape.get(axis) else {
        return scalar_object(py, element(bytes, at as usize, dtype));
    };
    let step = layout.strides[axis];
    let row = (0..n as isize)
        .map(|i| nested_list(py, bytes, dtype, layout, axis + 1, at + i * step))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, row)?.into_any().unbind())
}

/// Nested lists of Python numbers; a number for 0-d arrays.
pub fn to_list(py: Python<'_>, a: &Array) -> PyResult<Py<PyAny>> {
    let (buffer, layout) = host(py, a)?;
    nested_list(py, buffer.bytes(), a.dtype(), &layout, 0, layout.offset as isize)
}

/// The state that pickles hold: bytes, shape and MLX's dtype number.
pub fn to_state(py: Python<'_>, a: &Array) -> PyResult<Py<PyAny>> {
    let bytes = py.detach(|| a.to_bytes()).or_raise()?;
    let state = (pyo3::types::PyBytes::new(py, &bytes), PyTuple::new(py, a.shape())?, a.dtype() as u8);
    Ok(state.into_pyobject(py)?.into_any().unbind())
}

/// The array of a pickle: ours, or MLX's pair of a numpy array and a dtype number.
pub fn from_state(state: &Bound<'_, PyTuple>) -> PyResult<Array> {
    let dtype = |i: usize| -> PyResult<Dtype> {
        let number: u8 = state.get_item(i)?.extract()?;
        Dtype::from_number(number)
            .ok_or_else(|| PyValueError::new_err(format!("There is no dtype number {number}.")))
    };
    let first = state.get_item(0)?;
    if state.len() == 3 {
        let shape: Vec<usize> = state.get_item(1)?.extract()?;
        let bytes: Vec<u8> = first.cast::<pyo3::types::PyBytes>()?.as_bytes().to_vec();
        return Array::from_bytes(&bytes, &shape, dtype(2)?).or_raise();
    }
    let dtype = dtype(1)?;
    if dtype == Dtype::Bfloat16 {
        return read_source(first.py(), &Source::open(&first)?, Stored::As(dtype), Some(dtype));
    }
    foreign(&first, Some(dtype))
}

/// A list of Python arrays.
pub fn list_of(py: Python<'_>, arrays: Vec<Array>) -> PyResult<Py<PyList>> {
    let all = arrays.into_iter().map(|a| wrap(py, a)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, all)?.unbind())
}
