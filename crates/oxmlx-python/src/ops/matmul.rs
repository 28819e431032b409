//! Matrix products.

use crate::args::{array_like, pair};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops;
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

/// Matrix product over the last two axes; leading axes broadcast. ValueError for integer arrays.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn matmul(a: &Any<'_>, b: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::matmul(&array_like(a)?, &array_like(b)?).or_raise().map(PyArray::new)
}

/// `alpha * (a @ b) + beta * c`.
#[pyfunction]
#[pyo3(signature = (c, a, b, /, alpha=1.0, beta=1.0, *, stream=None))]
fn addmm(
    c: &Any<'_>,
    a: &Any<'_>,
    b: &Any<'_>,
    alpha: f64,
    beta: f64,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::addmm(&array_like(c)?, &array_like(a)?, &array_like(b)?, alpha, beta).or_raise().map(PyArray::new)
}

/// Products of all pairs of elements of two flattened arrays.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn outer(a: &Any<'_>, b: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "outer")?;
    ops::outer(&a, &b).or_raise().map(PyArray::new)
}

/// Sums of products over the last axes.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn inner(a: &Any<'_>, b: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "inner")?;
    ops::inner(&a, &b).or_raise().map(PyArray::new)
}

/// Sums of products over the last `axes` axes of `a` and the first of `b`, or over two lists of axes.
#[pyfunction]
#[pyo3(signature = (a, b, /, axes=None, *, stream=None))]
fn tensordot(
    a: &Any<'_>,
    b: &Any<'_>,
    axes: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = (array_like(a)?, array_like(b)?);
    let count = match axes {
        None => Some(2),
        Some(n) => n.extract::<i64>().ok(),
    };
    let (left, right): (Vec<i64>, Vec<i64>) = match (count, axes) {
        (Some(n), _) => ((a.ndim() as i64 - n..a.ndim() as i64).collect(), (0..n).collect()),
        (None, Some(lists)) => {
            let mut sides: Vec<Vec<i64>> = lists.extract()?;
            match (sides.pop(), sides.pop(), sides.pop()) {
                (Some(b), Some(a), None) => (a, b),
                _ => {
                    return Err(pyo3::exceptions::PyValueError::new_err(
                        "[tensordot] axes must be a number or two lists.",
                    ));
                }
            }
        }
        (None, None) => Default::default(),
    };
    ops::tensordot(&a, &b, &left, &right).or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(matmul, m)?)?;
    m.add_function(wrap_pyfunction!(addmm, m)?)?;
    m.add_function(wrap_pyfunction!(outer, m)?)?;
    m.add_function(wrap_pyfunction!(inner, m)?)?;
    m.add_function(wrap_pyfunction!(tensordot, m)?)
}
