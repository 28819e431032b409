//! The submodule `random`.

use crate::args::{array_like, dtype_arg, shape_arg};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::ops::{self, random};
use oxmlx::{Array, Dtype};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

/// The global key as a sequence of one: usable as compile's inputs and outputs.
#[pyclass(module = "mlx.core.random", name = "_RandomState", frozen, weakref)]
pub struct RandomState;

#[pymethods]
impl RandomState {
    fn __len__(&self) -> usize {
        1
    }

    fn __getitem__(&self, i: i64) -> PyResult<PyArray> {
        if i != 0 && i != -1 {
            return Err(PyIndexError::new_err("the random state holds one key"));
        }
        random::state().or_raise().map(PyArray::new)
    }

    fn __setitem__(&self, i: i64, key: &Any<'_>) -> PyResult<()> {
        if i != 0 && i != -1 {
            return Err(PyIndexError::new_err("the random state holds one key"));
        }
        random::set_state(array_like(key)?).or_raise()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Any<'py>> {
        let list = pyo3::types::PyList::new(py, [Bound::new(py, self.__getitem__(0)?)?])?;
        Ok(list.try_iter()?.into_any())
    }
}

fn key_of(key: Option<&Any<'_>>) -> PyResult<Array> {
    let given = key.filter(|k| !k.is_none()).map(array_like).transpose()?;
    random::next_key(given.as_ref()).or_raise()
}

/// A bound or parameter: a number, or an array that broadcasts.
fn bound(v: Option<&Any<'_>>, default: f64) -> PyResult<Array> {
    match v.filter(|v| !v.is_none()) {
        Some(v) => array_like(v),
        None => Ok(Array::from_f64(default, Dtype::Float32)),
    }
}

/// The given shape, or what the parameters broadcast to.
fn shape_or(shape: Option<&Any<'_>>, parameters: &[&Array]) -> PyResult<Vec<usize>> {
    if let Some(s) = shape.filter(|s| !s.is_none()) {
        return shape_arg(s);
    }
    let mut out = oxmlx::Shape::new();
    for p in parameters {
        out = oxmlx::broadcast_shapes(&out, p.shape()).or_raise()?;
    }
    Ok(out.to_vec())
}

fn seed_arg(seed: &Any<'_>) -> PyResult<u64> {
    seed.extract::<u64>()
        .map_err(|_| PyTypeError::new_err("The seed must be an integer from 0 to 2**64 - 1."))
}

/// Seeds the global key.
#[pyfunction]
fn seed(seed: &Any<'_>) -> PyResult<()> {
    random::seed(seed_arg(seed)?).or_raise()
}

/// The key of a seed.
#[pyfunction]
fn key(seed: &Any<'_>) -> PyResult<PyArray> {
    random::key(seed_arg(seed)?).or_raise().map(PyArray::new)
}

/// `num` independent keys from one, as rows.
#[pyfunction]
#[pyo3(signature = (key, num=2, stream=None))]
fn split(key: &Any<'_>, num: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    random::split(&array_like(key)?, num).or_raise().map(PyArray::new)
}

/// Uniform values in `[low, high)`; the bounds broadcast to the shape.
#[pyfunction]
#[pyo3(signature = (low=None, high=None, shape=None, dtype=None, key=None, stream=None))]
fn uniform(
    low: Option<&Any<'_>>,
    high: Option<&Any<'_>>,
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (low, high) = (bound(low, 0.0)?, bound(high, 1.0)?);
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Float32);
    let shape = shape_or(shape, &[&low, &high])?;
    random::uniform(&low, &high, &shape, dtype, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Normal values with mean `loc` and standard deviation `scale` (numbers or arrays that broadcast).
#[pyfunction]
#[pyo3(signature = (shape=None, dtype=None, loc=None, scale=None, key=None, stream=None))]
fn normal(
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    loc: Option<&Any<'_>>,
    scale: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Float32);
    let given = |v: Option<&Any<'_>>| v.filter(|v| !v.is_none()).map(array_like).transpose();
    let (loc, scale) = (given(loc)?, given(scale)?);
    let shape = match shape.filter(|s| !s.is_none()) {
        Some(s) => shape_arg(s)?,
        None => Vec::new(),
    };
    random::normal(&shape, dtype, loc.as_ref(), scale.as_ref(), &key_of(key)?).or_raise().map(PyArray::new)
}

/// True with probability `p`, a number or an array; the shape is p's by default.
#[pyfunction]
#[pyo3(signature = (p=None, shape=None, key=None, stream=None))]
fn bernoulli(
    p: Option<&Any<'_>>,
    shape: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let p = bound(p, 0.5)?;
    let shape = shape_or(shape, &[&p])?;
    random::bernoulli(&p, &shape, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Integers in `[low, high)`; the bounds broadcast to the shape.
#[pyfunction]
#[pyo3(signature = (low, high, shape=None, dtype=None, key=None, stream=None))]
fn randint(
    low: &Any<'_>,
    high: &Any<'_>,
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (low, high) = (array_like(low)?, array_like(high)?);
    let shape = shape_or(shape, &[&low, &high])?;
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Int32);
    random::randint(&low, &high, &shape, dtype, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Standard normal values restricted to `[lower, upper]`.
#[pyfunction]
#[pyo3(signature = (lower, upper, shape=None, dtype=None, key=None, stream=None))]
fn truncated_normal(
    lower: &Any<'_>,
    upper: &Any<'_>,
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (low, high) = (array_like(lower)?, array_like(upper)?);
    let shape = shape_or(shape, &[&low, &high])?;
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Float32);
    random::truncated_normal(&low, &high, &shape, dtype, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Standard Gumbel values.
#[pyfunction]
#[pyo3(signature = (shape=None, dtype=None, key=None, stream=None))]
fn gumbel(
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Float32);
    random::gumbel(&shape_or(shape, &[])?, dtype, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Laplace values with mean `loc` and scale `scale`.
#[pyfunction]
#[pyo3(signature = (shape=None, dtype=None, loc=0.0, scale=1.0, key=None, stream=None))]
fn laplace(
    shape: Option<&Any<'_>>,
    dtype: Option<&Any<'_>>,
    loc: f64,
    scale: f64,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let dtype = dtype_arg(dtype)?.unwrap_or(Dtype::Float32);
    random::laplace(&shape_or(shape, &[])?, dtype, loc, scale, &key_of(key)?).or_raise().map(PyArray::new)
}

/// Positions drawn with probabilities softmax(logits) along an axis; `num_samples` adds a last axis, `shape`
/// sets the shape of the result.
#[pyfunction]
#[pyo3(signature = (logits, axis=-1, shape=None, num_samples=None, key=None, stream=None))]
fn categorical(
    logits: &Any<'_>,
    axis: i64,
    shape: Option<&Any<'_>>,
    num_samples: Option<usize>,
    key: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let logits = array_like(logits)?;
    let Some(shape) = shape.filter(|s| !s.is_none()) else {
        return random::categorical(&logits, axis, num_samples, &key_of(key)?).or_raise().map(PyArray::new);
    };
    let shape = shape_arg(shape)?;
    let key = key_of(key)?;
    let run = || -> oxmlx::Result<Array> {
        let i = oxmlx::normalize_axis("categorical", axis, logits.ndim())?;
        let moved = ops::moveaxis(&logits, i as i64, -1)?;
        let mut full = shape.clone();
        full.push(moved.shape()[moved.ndim() - 1]);
        random::categorical(&ops::broadcast_to(&moved, &full)?, -1, None, &key)
    };
    run().or_raise().map(PyArray::new)
}

/// The submodule.
pub fn module<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
    let m = PyModule::new(py, "random")?;
    m.add_class::<RandomState>()?;
    m.add("state", Bound::new(py, RandomState)?)?;
    m.add_function(wrap_pyfunction!(seed, &m)?)?;
    m.add_function(wrap_pyfunction!(key, &m)?)?;
    m.add_function(wrap_pyfunction!(split, &m)?)?;
    m.add_function(wrap_pyfunction!(uniform, &m)?)?;
    m.add_function(wrap_pyfunction!(normal, &m)?)?;
    m.add_function(wrap_pyfunction!(bernoulli, &m)?)?;
    m.add_function(wrap_pyfunction!(randint, &m)?)?;
    m.add_function(wrap_pyfunction!(truncated_normal, &m)?)?;
    m.add_function(wrap_pyfunction!(gumbel, &m)?)?;
    m.add_function(wrap_pyfunction!(laplace, &m)?)?;
    m.add_function(wrap_pyfunction!(categorical, &m)?)?;
    Ok(m)
}
