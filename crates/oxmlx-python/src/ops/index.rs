//! Positions that are arrays.

use crate::args::array_like;
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops;
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

/// Slices of `a` at integer `indices` along an axis, or elements of the flattened array.
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=None, *, stream=None))]
fn take(a: &Any<'_>, indices: &Any<'_>, axis: Option<i64>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, i) = (array_like(a)?, array_like(indices)?);
    match axis {
        Some(axis) => ops::take(&a, &i, axis),
        None => ops::take_flat(&a, &i),
    }
    .or_raise()
    .map(PyArray::new)
}

/// Elements at integer positions along an axis; `indices` has the rank of `a`. Without an axis both are
/// flattened.
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis=None, *, stream=None))]
fn take_along_axis(
    a: &Any<'_>,
    indices: &Any<'_>,
    axis: Option<i64>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, i) = (array_like(a)?, array_like(indices)?);
    match axis {
        Some(axis) => ops::take_along_axis(&a, &i, axis),
        None => ops::flatten(&a, 0, -1)
            .and_then(|a| ops::flatten(&i, 0, -1).and_then(|i| ops::take_along_axis(&a, &i, 0))),
    }
    .or_raise()
    .map(PyArray::new)
}

/// `a` with `values` written at integer positions along an axis (of the flattened array without one).
#[pyfunction]
#[pyo3(signature = (a, /, indices, values, axis=None, *, stream=None))]
fn put_along_axis(
    a: &Any<'_>,
    indices: &Any<'_>,
    values: &Any<'_>,
    axis: Option<i64>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, i, v) = (array_like(a)?, array_like(indices)?, array_like(values)?);
    let run = || -> oxmlx::Result<oxmlx::Array> {
        match axis {
            Some(axis) => ops::put_along_axis(&a, &i, &v, axis),
            None => {
                let shape: Vec<i64> = a.shape().iter().map(|&n| n as i64).collect();
                let values = ops::flatten(&ops::broadcast_to(&v, i.shape())?, 0, -1)?;
                let flat =
                    ops::put_along_axis(&ops::flatten(&a, 0, -1)?, &ops::flatten(&i, 0, -1)?, &values, 0)?;
                ops::reshape(&flat, &shape)
            }
        }
    };
    run().or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(take, m)?)?;
    m.add_function(wrap_pyfunction!(take_along_axis, m)?)?;
    m.add_function(wrap_pyfunction!(put_along_axis, m)?)
}
