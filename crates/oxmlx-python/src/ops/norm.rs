//! Softmax and the normalisations of `mx.fast`.

use crate::args::{Axes, array_like};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::{Array, ops};
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

/// exp(a) / sum(exp(a)) over axes, or over all elements. Half types are computed in float32 always, so that
/// `precise` changes nothing.
#[pyfunction]
#[pyo3(signature = (a, /, axis=Axes(None), *, precise=false, stream=None))]
fn softmax(a: &Any<'_>, axis: Axes, precise: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let _ = precise;
    ops::softmax(&array_like(a)?, axis.0.as_deref()).or_raise().map(PyArray::new)
}

fn optional(a: Option<&Any<'_>>) -> PyResult<Option<Array>> {
    a.filter(|a| !a.is_none()).map(array_like).transpose()
}

/// Layer normalisation over the last axis: (x - mean) / sqrt(variance + eps) * weight + bias
/// (Ba, Kiros, Hinton 2016, arXiv:1607.06450).
#[pyfunction]
#[pyo3(signature = (x, weight, bias, eps, *, stream=None))]
fn layer_norm(
    x: &Any<'_>,
    weight: Option<&Any<'_>>,
    bias: Option<&Any<'_>>,
    eps: f64,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (w, b) = (optional(weight)?, optional(bias)?);
    ops::layer_norm(&array_like(x)?, w.as_ref(), b.as_ref(), eps).or_raise().map(PyArray::new)
}

/// Root-mean-square normalisation over the last axis: x / sqrt(mean(x^2) + eps) * weight
/// (Zhang, Sennrich 2019, arXiv:1910.07467).
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream=None))]
fn rms_norm(x: &Any<'_>, weight: Option<&Any<'_>>, eps: f64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let w = optional(weight)?;
    ops::rms_norm(&array_like(x)?, w.as_ref(), eps).or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(softmax, m)?)
}

/// Adds the family's part of `mx.fast`.
pub fn register_fast(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(layer_norm, m)?)?;
    m.add_function(wrap_pyfunction!(rms_norm, m)?)
}
