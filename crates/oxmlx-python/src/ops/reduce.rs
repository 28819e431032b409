//! Reductions.

use crate::args::{Axes, array_like};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops;
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, /, axis=Axes(None), keepdims=false, *, stream=None))]
            fn $name(a: &Any<'_>, axis: Axes, keepdims: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
                let _scope = stream.and_then(|s| s.enter());
                ops::$name(&array_like(a)?, axis.0.as_deref(), keepdims).or_raise().map(PyArray::new)
            }
        )*
        fn register_plain(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

reductions! {
    /// Sum over axes, or of all elements. Narrow integers give 32-bit ones.
    sum;
    /// Product over axes, or of all elements. Narrow integers give 32-bit ones.
    prod;
    /// Largest element over axes, or of all. ValueError over an empty axis.
    max;
    /// Smallest element over axes, or of all. ValueError over an empty axis.
    min;
    /// Mean over axes, or of all elements; integers give float32.
    mean;
    /// Whether all elements over axes are non-zero.
    all;
    /// Whether any element over axes is non-zero.
    any;
    /// log(sum(exp(a))) over axes, without overflow.
    logsumexp;
}

/// Variance over axes: squared distances from the mean, over n - ddof.
#[pyfunction]
#[pyo3(signature = (a, /, axis=Axes(None), keepdims=false, ddof=0, *, stream=None))]
fn var(a: &Any<'_>, axis: Axes, keepdims: bool, ddof: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::var(&array_like(a)?, axis.0.as_deref(), keepdims, ddof).or_raise().map(PyArray::new)
}

/// Standard deviation over axes: the square root of the variance.
#[pyfunction(name = "std")]
#[pyo3(signature = (a, /, axis=Axes(None), keepdims=false, ddof=0, *, stream=None))]
fn std_(a: &Any<'_>, axis: Axes, keepdims: bool, ddof: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::std(&array_like(a)?, axis.0.as_deref(), keepdims, ddof).or_raise().map(PyArray::new)
}

/// Position of the largest element along an axis, or in the flattened array (uint32); the first of equals.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn argmax(a: &Any<'_>, axis: Option<i64>, keepdims: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::argmax(&array_like(a)?, axis, keepdims).or_raise().map(PyArray::new)
}

/// Position of the smallest element along an axis, or in the flattened array (uint32); the first of equals.
#[pyfunction]
#[pyo3(signature = (a, /, axis=None, keepdims=false, *, stream=None))]
fn argmin(a: &Any<'_>, axis: Option<i64>, keepdims: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::argmin(&array_like(a)?, axis, keepdims).or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_plain(m)?;
    m.add_function(wrap_pyfunction!(var, m)?)?;
    m.add_function(wrap_pyfunction!(std_, m)?)?;
    m.add_function(wrap_pyfunction!(argmax, m)?)?;
    m.add_function(wrap_pyfunction!(argmin, m)?)
}
