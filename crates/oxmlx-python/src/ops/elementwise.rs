//! Element-wise functions: one a row of the engine's tables, and the few that take other arguments.

use crate::args::{array_like, pair, weak};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::{Dtype, ops};
use pyo3::prelude::*;

type Any<'py> = Bound<'py, PyAny>;

macro_rules! unary_functions {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $derivative:tt;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, /, *, stream=None))]
            fn $name(a: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
                let _scope = stream.and_then(|s| s.enter());
                ops::$name(&array_like(a)?).or_raise().map(PyArray::new)
            }
        )*
        fn register_unary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}
oxmlx::unary_table!(unary_functions);

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $da:tt $db:tt;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (a, b, /, *, stream=None))]
            fn $name(a: &Any<'_>, b: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
                let _scope = stream.and_then(|s| s.enter());
                let (a, b) = pair(a, b, stringify!($name))?;
                ops::$name(&a, &b).or_raise().map(PyArray::new)
            }
        )*
        fn register_binary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}
oxmlx::binary_table!(binary_functions);

/// `x` where the condition is true, else `y`; all three broadcast.
#[pyfunction(name = "where")]
#[pyo3(signature = (condition, x, y, /, *, stream=None))]
fn where_(condition: &Any<'_>, x: &Any<'_>, y: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let c = array_like(condition)?;
    let (x, y) = pair(x, y, "where")?;
    ops::select(&c, &x, &y).or_raise().map(PyArray::new)
}

/// Limits `a` to `[a_min, a_max]`, either of which may be None.
#[pyfunction]
#[pyo3(signature = (a, /, a_min, a_max, *, stream=None))]
fn clip(
    a: &Any<'_>,
    a_min: Option<&Any<'_>>,
    a_max: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    let bound = |b: Option<&Any<'_>>| -> PyResult<Option<oxmlx::Array>> {
        match b {
            None => Ok(None),
            Some(b) => match weak(b, a.dtype())? {
                Some(w) => Ok(Some(w)),
                None => Ok(Some(array_like(b)?)),
            },
        }
    };
    let (low, high) = (bound(a_min)?, bound(a_max)?);
    ops::clip(&a, low.as_ref(), high.as_ref()).or_raise().map(PyArray::new)
}

/// Rounds to `decimals` places, halves to even.
#[pyfunction(name = "round")]
#[pyo3(signature = (a, /, decimals=0, *, stream=None))]
fn round_to(a: &Any<'_>, decimals: i32, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    ops::round_to(&array_like(a)?, decimals).or_raise().map(PyArray::new)
}

/// Quotient and remainder, both floored.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream=None))]
fn divmod(a: &Any<'_>, b: &Any<'_>, stream: Option<StreamArg>) -> PyResult<(PyArray, PyArray)> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "divmod")?;
    let (q, r) = ops::divmod(&a, &b).or_raise()?;
    Ok((PyArray::new(q), PyArray::new(r)))
}

/// Whether `|a - b| <= atol + rtol * |b|`, element by element; equal infinities are close.
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn isclose(
    a: &Any<'_>,
    b: &Any<'_>,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "isclose")?;
    ops::isclose(&a, &b, rtol, atol, equal_nan).or_raise().map(PyArray::new)
}

/// Whether all elements are close (see `isclose`): a 0-d bool array.
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=false, stream=None))]
fn allclose(
    a: &Any<'_>,
    b: &Any<'_>,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "allclose")?;
    let close = ops::isclose(&a, &b, rtol, atol, equal_nan).or_raise()?;
    ops::all(&close, None, false).or_raise().map(PyArray::new)
}

/// Whether two arrays have one shape and equal elements: a 0-d bool array.
#[pyfunction]
#[pyo3(signature = (a, b, /, equal_nan=false, *, stream=None))]
fn array_equal(a: &Any<'_>, b: &Any<'_>, equal_nan: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let (a, b) = pair(a, b, "array_equal")?;
    ops::array_equal(&a, &b, equal_nan).or_raise().map(PyArray::new)
}

/// NaN and infinities replaced: by `nan`, `posinf` and `neginf` (the type's greatest and least by default).
#[pyfunction]
#[pyo3(signature = (a, /, nan=0.0, posinf=None, neginf=None, *, stream=None))]
fn nan_to_num(
    a: &Any<'_>,
    nan: f64,
    posinf: Option<f64>,
    neginf: Option<f64>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    let d = a.dtype();
    if !d.is_floating() {
        return Ok(PyArray::new(a));
    }
    let greatest = match d {
        Dtype::Float16 => 65504.0,
        Dtype::Bfloat16 => oxmlx::bf16::MAX.to_f64(),
        Dtype::Float32 => f32::MAX as f64,
        _ => f64::MAX,
    };
    let value = |v: f64| oxmlx::Array::from_f64(v, d);
    let run = || -> oxmlx::Result<oxmlx::Array> {
        let x = ops::select(&ops::isnan(&a)?, &value(nan), &a)?;
        let x = ops::select(&ops::isposinf(&a)?, &value(posinf.unwrap_or(greatest)), &x)?;
        ops::select(&ops::isneginf(&a)?, &value(neginf.unwrap_or(-greatest)), &x)
    };
    run().or_raise().map(PyArray::new)
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(m)?;
    register_binary(m)?;
    // Replaces the table's one-argument form.
    m.add_function(wrap_pyfunction!(round_to, m)?)?;
    m.add("conj", m.getattr("conjugate")?)?;
    m.add_function(wrap_pyfunction!(where_, m)?)?;
    m.add_function(wrap_pyfunction!(clip, m)?)?;
    m.add_function(wrap_pyfunction!(divmod, m)?)?;
    m.add_function(wrap_pyfunction!(isclose, m)?)?;
    m.add_function(wrap_pyfunction!(allclose, m)?)?;
    m.add_function(wrap_pyfunction!(nan_to_num, m)?)?;
    m.add_function(wrap_pyfunction!(array_equal, m)?)
}
