//! Arrays from nothing.

use crate::args::{array_like, dtype_arg, shape_arg};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::{Dtype, ops};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

type Any<'py> = Bound<'py, PyAny>;

fn number(obj: &Any<'_>) -> PyResult<(f64, bool)> {
    if obj.cast::<PyBool>().is_ok() {
        return Err(PyValueError::new_err("[arange] bool is not a type that a range can have."));
    }
    let is_int = obj.cast::<PyInt>().is_ok();
    let value = obj.extract::<f64>().map_err(|_| {
        PyTypeError::new_err("arange(): incompatible function arguments. Bounds and step must be numbers.")
    })?;
    Ok((value, is_int))
}

/// Values from `start` (0 by default) up to but without `stop`, `step` apart: int32 for integer arguments,
/// else float32.
#[pyfunction]
#[pyo3(signature = (start=None, stop=None, step=None, dtype=None, *, stream=None))]
fn arange(
    start: Option<&Any<'_>>,
    stop: Option<&Any<'_>>,
    step: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    // arange(5) counts up to its only argument; arange(5, None, 2) has a step besides.
    let (start, stop) = match (start, stop) {
        (Some(only), None) => (None, Some(only)),
        (start, stop) => (start, stop),
    };
    let stop = stop
        .ok_or_else(|| PyTypeError::new_err("arange(): incompatible function arguments. stop is missing."))?;
    let or = |v: Option<&Any<'_>>, default: f64| v.map_or(Ok((default, true)), number);
    let ((a, ai), (b, bi), (s, si)) = (or(start, 0.0)?, number(stop)?, or(step, 1.0)?);
    let inferred = if ai && bi && si { Dtype::Int32 } else { Dtype::Float32 };
    let dtype = dtype_arg(dtype)?.unwrap_or(inferred);
    ops::arange(a, b, s, dtype).or_raise().map(PyArray::new)
}

/// `num` evenly spaced values from `start` to `stop`; without `endpoint`, `stop` is left out.
#[pyfunction]
#[pyo3(signature = (start, stop, num=Some(50), endpoint=true, dtype=None, stream=None))]
fn linspace(
    start: f64,
    stop: f64,
    num: Option<i64>,
    endpoint: bool,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let n = num.unwrap_or(50);
    let last = if endpoint || n < 1 { stop } else { start + (stop - start) * (n - 1) as f64 / n as f64 };
    ops::linspace(start, last, n, dtype_arg(dtype)?.unwrap_or(Dtype::Float32)).or_raise().map(PyArray::new)
}

/// An array of `shape` with `vals`, a number or an array that broadcasts.
#[pyfunction]
#[pyo3(signature = (shape, vals, dtype=None, *, stream=None))]
fn full(
    shape: &Any<'_>,
    vals: &Any<'_>,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let dtype = dtype_arg(dtype)?;
    let value = match dtype.map(|d| crate::args::weak(vals, d)).transpose()?.flatten() {
        Some(v) => v,
        None => array_like(vals)?,
    };
    let dtype = dtype.unwrap_or(value.dtype());
    ops::full(&shape_arg(shape)?, &value, dtype).or_raise().map(PyArray::new)
}

/// An array like `a` with `vals`.
#[pyfunction]
#[pyo3(signature = (a, /, vals, dtype=None, *, stream=None))]
fn full_like(
    a: &Any<'_>,
    vals: &Any<'_>,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    let dtype = dtype_arg(dtype)?.unwrap_or(a.dtype());
    ops::full(a.shape(), &array_like(vals)?, dtype).or_raise().map(PyArray::new)
}

/// Zeros of a shape, float32 by default.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn zeros(shape: &Any<'_>, dtype: Option<&Any<'_>>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::zeros(&shape_arg(shape)?, dtype_arg(dtype)?.unwrap_or(Dtype::Float32)).or_raise().map(PyArray::new)
}

/// Ones of a shape, float32 by default.
#[pyfunction]
#[pyo3(signature = (shape, dtype=None, *, stream=None))]
fn ones(shape: &Any<'_>, dtype: Option<&Any<'_>>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::ones(&shape_arg(shape)?, dtype_arg(dtype)?.unwrap_or(Dtype::Float32)).or_raise().map(PyArray::new)
}

/// Zeros in the shape and dtype of `a`.
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn zeros_like(a: &Any<'_>, dtype: Option<&Any<'_>>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    ops::zeros(a.shape(), dtype_arg(dtype)?.unwrap_or(a.dtype())).or_raise().map(PyArray::new)
}

/// Ones in the shape and dtype of `a`.
#[pyfunction]
#[pyo3(signature = (a, /, dtype=None, *, stream=None))]
fn ones_like(a: &Any<'_>, dtype: Option<&Any<'_>>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    ops::ones(a.shape(), dtype_arg(dtype)?.unwrap_or(a.dtype())).or_raise().map(PyArray::new)
}

fn side(n: i64, what: &str) -> PyResult<usize> {
    usize::try_from(n)
        .map_err(|_| PyValueError::new_err(format!("[{what}] negative dimensions are not allowed.")))
}

/// An `n` by `m` matrix (square by default) with ones on the k-th diagonal.
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn eye(
    n: i64,
    m: Option<i64>,
    k: i64,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (rows, columns) = (side(n, "eye")?, side(m.unwrap_or(n), "eye")?);
    ops::eye(rows, columns, k, dtype_arg(dtype)?.unwrap_or(Dtype::Float32)).or_raise().map(PyArray::new)
}

/// The `n` by `n` matrix with ones on its diagonal.
#[pyfunction]
#[pyo3(signature = (n, dtype=None, *, stream=None))]
fn identity(n: i64, dtype: Option<&Any<'_>>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    eye(n, None, 0, dtype, stream)
}

/// An `n` by `m` matrix with ones at and below the k-th diagonal.
#[pyfunction]
#[pyo3(signature = (n, m=None, k=0, dtype=None, *, stream=None))]
fn tri(
    n: i64,
    m: Option<i64>,
    k: i64,
    dtype: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (rows, columns) = (side(n, "tri")?, side(m.unwrap_or(n), "tri")?);
    ops::tri(rows, columns, k, dtype_arg(dtype)?.unwrap_or(Dtype::Float32)).or_raise().map(PyArray::new)
}

/// The part at and below the k-th diagonal of each matrix; zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn tril(x: &Any<'_>, k: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::tril(&array_like(x)?, k).or_raise().map(PyArray::new)
}

/// The part at and above the k-th diagonal of each matrix; zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (x, k=0, *, stream=None))]
fn triu(x: &Any<'_>, k: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::triu(&array_like(x)?, k).or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(arange, m)?)?;
    m.add_function(wrap_pyfunction!(linspace, m)?)?;
    m.add_function(wrap_pyfunction!(full, m)?)?;
    m.add_function(wrap_pyfunction!(full_like, m)?)?;
    m.add_function(wrap_pyfunction!(zeros, m)?)?;
    m.add_function(wrap_pyfunction!(ones, m)?)?;
    m.add_function(wrap_pyfunction!(zeros_like, m)?)?;
    m.add_function(wrap_pyfunction!(ones_like, m)?)?;
    m.add_function(wrap_pyfunction!(eye, m)?)?;
    m.add_function(wrap_pyfunction!(identity, m)?)?;
    m.add_function(wrap_pyfunction!(tri, m)?)?;
    m.add_function(wrap_pyfunction!(tril, m)?)?;
    m.add_function(wrap_pyfunction!(triu, m)?)
}
