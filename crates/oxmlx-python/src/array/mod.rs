//! The array class: a cell that holds one of the engine's arrays.
//!
//! Arrays of the engine never change, Python's do: `x += 1` and `x[0] = 1` must keep the object. So the object
//! is a cell, and what is "in place" in Python puts another array into it. Nothing is computed here.

pub mod assign;
pub mod at;
pub mod buffer;
pub mod convert;
pub mod dunder;
pub mod index;
pub mod methods;
pub mod print;

use crate::args;
use crate::dtype::{self, PyDtype};
use crate::error::{OrRaise, raise};
use oxmlx::runtime::memory::Buffer;
use oxmlx::{Array, Layout, Scalar, Shape, ops};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// An n-dimensional array, computed when its contents are needed.
///
/// `array(val, dtype=None)` takes numbers, nested lists and tuples of them, arrays, numpy arrays and other
/// buffers, which are copied. ValueError for ragged lists and types that are no numbers.
#[pyclass(name = "array", subclass, frozen, weakref, module = "oxmlx.core")]
pub struct PyArray {
    cell: Mutex<Array>,
}

impl PyArray {
    /// A Python array that holds `a`.
    #[inline]
    pub fn new(a: Array) -> PyArray {
        PyArray { cell: Mutex::new(a) }
    }

    /// What it holds now; sharing, not copying.
    #[inline]
    pub fn get(&self) -> Array {
        self.cell.lock().clone()
    }

    /// Holds another array from now on.
    #[inline]
    pub fn set(&self, a: Array) {
        // The old array is dropped outside the lock: it may free a long chain.
        let old = std::mem::replace(&mut *self.cell.lock(), a);
        drop(old);
    }
}

impl From<Array> for PyArray {
    fn from(a: Array) -> PyArray {
        PyArray::new(a)
    }
}

/// A new Python object that holds `a`.
#[inline]
pub fn wrap(py: Python<'_>, a: Array) -> PyResult<Py<PyArray>> {
    Py::new(py, PyArray::new(a))
}

/// The evaluated contents; other Python threads run meanwhile.
pub fn host(py: Python<'_>, a: &Array) -> PyResult<(Buffer, Layout)> {
    if a.is_evaluated() { a.host().or_raise() } else { py.detach(|| a.host()).or_raise() }
}

/// The only element; other Python threads run meanwhile.
pub fn item(py: Python<'_>, a: &Array) -> PyResult<Scalar> {
    if a.known_scalar().is_some() || a.is_evaluated() {
        return a.item().or_raise();
    }
    py.detach(|| a.item()).or_raise()
}

/// Adds the array class, its helpers and the printing options to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyArray>()?;
    m.add_class::<at::ArrayAt>()?;
    m.add_class::<dunder::ArrayIterator>()?;
    print::add_to(m)
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (val, dtype=None))]
    fn py_new(val: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<PyArray> {
        Ok(PyArray::new(convert::from_python(val, args::dtype_arg(dtype)?)?))
    }

    /// Everything is done when the object is made; subclasses may call this with anything.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __init__(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>) {}

    /// Lengths of the axes, as a tuple.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        // Copied, since making a tuple may run other Python code, which may want this array.
        let shape: Shape = self.cell.lock().shape().into();
        PyTuple::new(py, shape)
    }

    /// Type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        let d = self.cell.lock().dtype();
        dtype::object(py, d)
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.cell.lock().ndim()
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.cell.lock().size()
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.cell.lock().nbytes()
    }

    /// Bytes of an element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.cell.lock().dtype().size()
    }

    /// The axes reversed.
    #[getter]
    #[pyo3(name = "T")]
    fn reversed(&self) -> PyResult<PyArray> {
        ops::transpose(&self.get(), None).map(PyArray::new).map_err(raise)
    }

    /// The last two axes exchanged. ValueError below two axes.
    #[getter]
    #[pyo3(name = "mT")]
    fn matrix_transposed(&self) -> PyResult<PyArray> {
        let a = self.get();
        if a.ndim() < 2 {
            let message = format!("mT needs 2 dimensions at least, the array has {}.", a.ndim());
            return Err(pyo3::exceptions::PyValueError::new_err(message));
        }
        ops::swapaxes(&a, -2, -1).map(PyArray::new).map_err(raise)
    }

    /// The real part; the array itself for real types.
    #[getter]
    fn real(&self) -> PyResult<PyArray> {
        ops::real(&self.get()).map(PyArray::new).map_err(raise)
    }

    /// The imaginary part; zeros for real types.
    #[getter]
    fn imag(&self) -> PyResult<PyArray> {
        ops::imag(&self.get()).map(PyArray::new).map_err(raise)
    }

    /// `x.at[index].add(v)` and the like: updates that count every occurrence of an index, as a new array.
    #[getter]
    fn at(&self) -> at::ArrayAt {
        at::ArrayAt::new(self.get())
    }
}
