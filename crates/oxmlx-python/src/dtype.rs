//! Element types and their abstract categories as Python objects.
//!
//! There is one object per element type for the life of the process, so that `x.dtype` costs a reference and
//! identity equals equality.

use crate::array::PyArray;
use oxmlx::{Category, Dtype};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// The type of an array's elements.
#[pyclass(frozen, name = "Dtype", module = "oxmlx.core")]
pub struct PyDtype(pub Dtype);

#[pymethods]
impl PyDtype {
    /// Bytes per element.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    fn __repr__(&self) -> String {
        format!("mlx.core.{}", self.0.name())
    }

    fn __hash__(&self) -> isize {
        self.0 as isize
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDtype>().is_ok_and(|o| o.get().0 == self.0)
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }
}

/// An abstract kind of element type, such as `floating`.
#[pyclass(frozen, name = "DtypeCategory", module = "oxmlx.core", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyDtypeCategory(pub Category);

#[pymethods]
impl PyDtypeCategory {
    /// The name after the dot of the repr.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn __repr__(&self) -> String {
        format!("DtypeCategory.{}", self.0.name())
    }
}

static OBJECTS: PyOnceLock<Vec<Py<PyDtype>>> = PyOnceLock::new();

/// The one Python object for an element type.
pub fn object(py: Python<'_>, dtype: Dtype) -> PyResult<Py<PyDtype>> {
    let all = OBJECTS.get_or_try_init(py, || {
        Dtype::ALL.iter().map(|&d| Py::new(py, PyDtype(d))).collect::<PyResult<_>>()
    })?;
    Ok(all[dtype as usize].clone_ref(py))
}

/// Range and precision of a floating type; for complex64, of its parts.
#[pyclass(frozen, name = "finfo", module = "oxmlx.core")]
pub struct FInfo(Dtype);

/// Least positive normal number, unit roundoff, largest number and width.
fn limits(dtype: Dtype) -> (f64, f64, f64, u32) {
    match dtype {
        Dtype::Float16 => (6.103515625e-5, 9.765625e-4, 65504.0, 16),
        Dtype::Bfloat16 => (f64::from(f32::MIN_POSITIVE), 7.8125e-3, 3.3895313892515355e38, 16),
        Dtype::Float64 => (f64::MIN_POSITIVE, f64::EPSILON, f64::MAX, 64),
        _ => (f64::from(f32::MIN_POSITIVE), f64::from(f32::EPSILON), f64::from(f32::MAX), 32),
    }
}

#[pymethods]
impl FInfo {
    /// ValueError for types that aren't floating.
    #[new]
    #[pyo3(signature = (dtype, /))]
    fn new(dtype: &Bound<'_, PyAny>) -> PyResult<FInfo> {
        match crate::args::dtype_arg(Some(dtype))? {
            Some(d) if d.is_inexact() => Ok(FInfo(d.to_real())),
            _ => Err(PyValueError::new_err("[finfo] dtype must be a floating type.")),
        }
    }

    #[getter]
    fn min(&self) -> f64 {
        -limits(self.0).2
    }

    #[getter]
    fn max(&self) -> f64 {
        limits(self.0).2
    }

    #[getter]
    fn eps(&self) -> f64 {
        limits(self.0).1
    }

    #[getter]
    fn smallest_normal(&self) -> f64 {
        limits(self.0).0
    }

    #[getter]
    fn bits(&self) -> u32 {
        limits(self.0).3
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.0)
    }

    fn __repr__(&self) -> String {
        let max = crate::array::print::general(limits(self.0).2, 6);
        format!("finfo(min=-{max}, max={max}, dtype={})", self.0)
    }
}

/// Range of an integer type.
#[pyclass(frozen, name = "iinfo", module = "oxmlx.core")]
pub struct IInfo(Dtype);

#[pymethods]
impl IInfo {
    /// ValueError for types that aren't integers.
    #[new]
    #[pyo3(signature = (dtype, /))]
    fn new(dtype: &Bound<'_, PyAny>) -> PyResult<IInfo> {
        match crate::args::dtype_arg(Some(dtype))? {
            Some(d) if d.is_integer() => Ok(IInfo(d)),
            _ => Err(PyValueError::new_err("[iinfo] dtype must be an integer type.")),
        }
    }

    #[getter]
    fn min(&self) -> i128 {
        crate::args::int_range(self.0).0
    }

    #[getter]
    fn max(&self) -> i128 {
        crate::args::int_range(self.0).1
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        object(py, self.0)
    }

    fn __repr__(&self) -> String {
        format!("iinfo(min={}, max={}, dtype={})", self.min(), self.max(), self.0)
    }
}

/// The element type of an array or the type itself.
fn dtype_of(obj: &Bound<'_, PyAny>, op: &str) -> PyResult<Dtype> {
    if let Ok(d) = obj.cast::<PyDtype>() {
        return Ok(d.get().0);
    }
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(a.get().get().dtype());
    }
    Err(PyValueError::new_err(format!("[{op}] Inputs must be arrays or dtypes.")))
}

/// The type of `a op b op …` for arrays or dtypes; ValueError for anything else.
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(py: Python<'_>, arrays_and_dtypes: &Bound<'_, PyTuple>) -> PyResult<Py<PyDtype>> {
    if arrays_and_dtypes.is_empty() {
        return Err(PyValueError::new_err("[result_type] At least one array or dtype is required."));
    }
    let mut out = Dtype::Bool;
    for item in arrays_and_dtypes.iter() {
        out = out.promote(dtype_of(&item, "result_type")?);
    }
    object(py, out)
}

/// Whether values of one type can become another without leaving their kind (bool, integer, float, complex).
#[pyfunction]
#[pyo3(signature = (from_, to, /))]
fn can_cast(from_: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
    let from = dtype_of(from_, "can_cast")?;
    let to = to.cast::<PyDtype>().map_err(|_| PyTypeError::new_err("can_cast(): `to` must be a Dtype."))?;
    Ok(from.promote(to.get().0) == to.get().0)
}

/// Whether a type or category is another or lies below it.
#[pyfunction]
#[pyo3(signature = (arg1, arg2, /))]
fn issubdtype(arg1: &Bound<'_, PyAny>, arg2: &Bound<'_, PyAny>) -> PyResult<bool> {
    let refuse = || PyTypeError::new_err("issubdtype(): arguments must be dtypes or dtype categories.");
    let category = |o: &Bound<'_, PyAny>| match (o.cast::<PyDtype>(), o.cast::<PyDtypeCategory>()) {
        (Ok(d), _) => Some((d.get().0.category(), Some(d.get().0))),
        (_, Ok(c)) => Some((c.get().0, None)),
        _ => None,
    };
    let (a, exact_a) = category(arg1).ok_or_else(refuse)?;
    let (b, exact_b) = category(arg2).ok_or_else(refuse)?;
    // Nothing lies below an element type but itself.
    Ok(if exact_b.is_some() { exact_a == exact_b } else { a.is_sub(b) })
}

/// Adds every element type, category and function of this file to a module.
pub fn add_to(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDtype>()?;
    m.add_class::<PyDtypeCategory>()?;
    m.add_class::<FInfo>()?;
    m.add_class::<IInfo>()?;
    for d in Dtype::ALL {
        m.add(if d == Dtype::Bool { "bool_" } else { d.name() }, object(py, d)?)?;
    }
    use Category::*;
    let categories =
        [Generic, Number, Integer, SignedInteger, UnsignedInteger, Inexact, Floating, ComplexFloating];
    for c in categories {
        let object = Py::new(py, PyDtypeCategory(c))?;
        // MLX users reach categories through the class, too.
        m.getattr("DtypeCategory")?.setattr(c.name(), &object)?;
        m.add(c.name(), object)?;
    }
    m.add_function(wrap_pyfunction!(result_type, m)?)?;
    m.add_function(wrap_pyfunction!(can_cast, m)?)?;
    m.add_function(wrap_pyfunction!(issubdtype, m)?)
}
