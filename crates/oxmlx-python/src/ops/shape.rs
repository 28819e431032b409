//! Shapes, joins and cuts.

use crate::args::{Axes, IntList, array_like, pair, shape_arg};
use crate::array::PyArray;
use crate::error::OrRaise;
use crate::stream::StreamArg;
use oxmlx::{Array, ops};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type Any<'py> = Bound<'py, PyAny>;

fn done(a: oxmlx::Result<Array>) -> PyResult<PyArray> {
    a.or_raise().map(PyArray::new)
}

fn list(arrays: &Any<'_>) -> PyResult<Vec<Array>> {
    arrays.try_iter()?.map(|a| a.and_then(|a| array_like(&a))).collect()
}

fn arrays_out(all: oxmlx::Result<Vec<Array>>) -> PyResult<Vec<PyArray>> {
    Ok(all.or_raise()?.into_iter().map(PyArray::new).collect())
}

/// The same elements under another shape; one length may be -1.
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn reshape(a: &Any<'_>, shape: IntList, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::reshape(&array_like(a)?, &shape.0))
}

/// Axes `start_axis` to `end_axis` made one.
#[pyfunction]
#[pyo3(signature = (a, /, start_axis=0, end_axis=-1, *, stream=None))]
fn flatten(a: &Any<'_>, start_axis: i64, end_axis: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::flatten(&array_like(a)?, start_axis, end_axis))
}

/// One axis cut into several lengths, one of which may be -1.
#[pyfunction]
#[pyo3(signature = (a, /, axis, shape, *, stream=None))]
fn unflatten(a: &Any<'_>, axis: i64, shape: IntList, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::unflatten(&array_like(a)?, axis, &shape.0))
}

/// Axes in another order; reversed by default.
#[pyfunction]
#[pyo3(signature = (a, /, axes=None, *, stream=None))]
fn transpose(a: &Any<'_>, axes: Option<IntList>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::transpose(&array_like(a)?, axes.as_ref().map(|l| l.0.as_slice())))
}

/// Two axes exchanged.
#[pyfunction]
#[pyo3(signature = (a, /, axis1, axis2, *, stream=None))]
fn swapaxes(a: &Any<'_>, axis1: i64, axis2: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::swapaxes(&array_like(a)?, axis1, axis2))
}

/// One axis moved to another place.
#[pyfunction]
#[pyo3(signature = (a, /, source, destination, *, stream=None))]
fn moveaxis(a: &Any<'_>, source: i64, destination: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::moveaxis(&array_like(a)?, source, destination))
}

/// Axes of length 1 dropped: the given ones, or all.
#[pyfunction]
#[pyo3(signature = (a, /, axis=Axes(None), *, stream=None))]
fn squeeze(a: &Any<'_>, axis: Axes, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::squeeze(&array_like(a)?, axis.0.as_deref()))
}

/// Axes of length 1 put in.
#[pyfunction]
#[pyo3(signature = (a, /, axis, *, stream=None))]
fn expand_dims(a: &Any<'_>, axis: IntList, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::expand_dims(&array_like(a)?, &axis.0))
}

/// Lengths of 1 and missing leading axes stretched to a shape.
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream=None))]
fn broadcast_to(a: &Any<'_>, shape: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::broadcast_to(&array_like(a)?, &shape_arg(shape)?))
}

/// Arrays broadcast to their common shape.
#[pyfunction]
#[pyo3(signature = (*arrays, stream=None))]
fn broadcast_arrays(arrays: &Bound<'_, PyTuple>, stream: Option<StreamArg>) -> PyResult<Vec<PyArray>> {
    let _scope = stream.and_then(|s| s.enter());
    arrays_out(ops::broadcast_arrays(&list(arrays.as_any())?))
}

/// The shape that shapes broadcast to.
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(py: Python<'py>, shapes: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let mut out = oxmlx::Shape::new();
    for s in shapes.iter() {
        out = oxmlx::broadcast_shapes(&out, &shape_arg(&s)?).or_raise()?;
    }
    PyTuple::new(py, out)
}

/// Arrays joined along an axis; with `axis=None` they are flattened first.
#[pyfunction]
#[pyo3(signature = (arrays, /, axis=Some(0), *, stream=None))]
fn concatenate(arrays: &Any<'_>, axis: Option<i64>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let all = list(arrays)?;
    match axis {
        Some(axis) => done(ops::concatenate(&all, axis)),
        None => {
            let flat: Vec<Array> =
                all.iter().map(|a| ops::flatten(a, 0, -1)).collect::<oxmlx::Result<_>>().or_raise()?;
            done(ops::concatenate(&flat, 0))
        }
    }
}

/// Arrays of one shape as slices of a new axis.
#[pyfunction]
#[pyo3(signature = (arrays, /, axis=0, *, stream=None))]
fn stack(arrays: &Any<'_>, axis: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::stack(&list(arrays)?, axis))
}

/// Equal parts (a number) or parts between positions (a list) along an axis.
#[pyfunction]
#[pyo3(signature = (a, /, indices_or_sections, axis=0, *, stream=None))]
fn split(
    a: &Any<'_>,
    indices_or_sections: &Any<'_>,
    axis: i64,
    stream: Option<StreamArg>,
) -> PyResult<Vec<PyArray>> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    arrays_out(match indices_or_sections.extract::<i64>() {
        Ok(n) => ops::split(&a, n, axis),
        Err(_) => ops::split_at(&a, &indices_or_sections.extract::<Vec<i64>>()?, axis),
    })
}

/// Each element `repeats` times, along an axis or of the flattened array.
#[pyfunction]
#[pyo3(signature = (array, repeats, axis=None, *, stream=None))]
fn repeat(array: &Any<'_>, repeats: i64, axis: Option<i64>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::repeat(&array_like(array)?, repeats, axis))
}

/// The whole array repeated along each axis.
#[pyfunction]
#[pyo3(signature = (a, reps, /, *, stream=None))]
fn tile(a: &Any<'_>, reps: IntList, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::tile(&array_like(a)?, &reps.0))
}

/// Elements in row-major order in memory.
#[pyfunction]
#[pyo3(signature = (a, /, allow_col_major=false, *, stream=None))]
fn contiguous(a: &Any<'_>, allow_col_major: bool, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let _ = allow_col_major;
    done(ops::contiguous(&array_like(a)?))
}

/// A constant around the array, or with `mode="edge"` its border: `pad_width` is one number, a pair, or a pair
/// for each axis.
#[pyfunction]
#[pyo3(signature = (a, /, pad_width, mode="constant", constant_values=None, *, stream=None))]
fn pad(
    a: &Any<'_>,
    pad_width: &Any<'_>,
    mode: &str,
    constant_values: Option<&Any<'_>>,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    let n = a.ndim();
    let widths: Vec<(i64, i64)> = if let Ok(w) = pad_width.extract::<i64>() {
        vec![(w, w); n]
    } else if let Ok(pairs) = pad_width.extract::<Vec<(i64, i64)>>() {
        if pairs.len() == 1 { vec![pairs[0]; n] } else { pairs }
    } else {
        match pad_width.extract::<Vec<i64>>()?.as_slice() {
            [w] => vec![(*w, *w); n],
            [l, h] => vec![(*l, *h); n],
            _ => {
                return Err(PyValueError::new_err(
                    "[pad] pad_width must be a number, a pair or a pair for each axis.",
                ));
            }
        }
    };
    if widths.iter().any(|w| w.0 < 0 || w.1 < 0) {
        return Err(PyValueError::new_err("[pad] Negative padding sizes are not allowed."));
    }
    let low: Vec<usize> = widths.iter().map(|w| w.0 as usize).collect();
    let high: Vec<usize> = widths.iter().map(|w| w.1 as usize).collect();
    match mode {
        "constant" => {
            let zero = 0i64.into_pyobject(a_py(pad_width))?.into_any();
            let (_, value) = pair(
                &Bound::new(pad_width.py(), PyArray::new(a.clone()))?.into_any(),
                constant_values.unwrap_or(&zero),
                "pad",
            )?;
            done(ops::pad(&a, &low, &high, &value))
        }
        "edge" => done(edge(&a, &low, &high)),
        other => {
            Err(PyValueError::new_err(format!("[pad] mode must be 'constant' or 'edge', not '{other}'.")))
        }
    }
}

fn a_py<'py>(obj: &Any<'py>) -> Python<'py> {
    obj.py()
}

/// Borders repeated outwards, axis by axis.
fn edge(a: &Array, low: &[usize], high: &[usize]) -> oxmlx::Result<Array> {
    let mut out = a.clone();
    for axis in 0..a.ndim() {
        let n = out.shape()[axis] as i64;
        let piece = |from: i64, times: usize| -> oxmlx::Result<Array> {
            let (mut start, mut stop): (Vec<i64>, Vec<i64>) =
                (vec![0; a.ndim()], out.shape().iter().map(|&n| n as i64).collect());
            (start[axis], stop[axis]) = (from, from + 1);
            ops::repeat(
                &ops::slice(&out, &start, &stop, &vec![1; a.ndim()])?,
                times as i64,
                Some(axis as i64),
            )
        };
        let mut parts = Vec::new();
        if low[axis] > 0 {
            parts.push(piece(0, low[axis])?);
        }
        parts.push(out.clone());
        if high[axis] > 0 {
            parts.push(piece(n - 1, high[axis])?);
        }
        out = ops::concatenate(&parts, axis as i64)?;
    }
    Ok(out)
}

fn at_least(n: usize, arrays: &Bound<'_, PyTuple>, stream: Option<StreamArg>) -> PyResult<Py<PyAny>> {
    let _scope = stream.and_then(|s| s.enter());
    let py = arrays.py();
    let one = |a: &Any<'_>| -> PyResult<PyArray> {
        let a = array_like(a)?;
        let axes: Vec<i64> = match (n, a.ndim()) {
            (n, d) if d >= n => return Ok(PyArray::new(a)),
            (1, _) => vec![0],
            (2, 0) => vec![0, 1],
            (2, _) => vec![0],
            (_, 0) => vec![0, 1, 2],
            (_, 1) => vec![0, 2],
            _ => vec![2],
        };
        done(ops::expand_dims(&a, &axes))
    };
    if arrays.len() == 1 {
        return Ok(Bound::new(py, one(&arrays.get_item(0)?)?)?.into_any().unbind());
    }
    let all: Vec<PyArray> = arrays.iter().map(|a| one(&a)).collect::<PyResult<_>>()?;
    Ok(all.into_pyobject(py)?.unbind())
}

/// Arrays with one axis at least.
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_1d(arys: &Bound<'_, PyTuple>, stream: Option<StreamArg>) -> PyResult<Py<PyAny>> {
    at_least(1, arys, stream)
}

/// Arrays with two axes at least.
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_2d(arys: &Bound<'_, PyTuple>, stream: Option<StreamArg>) -> PyResult<Py<PyAny>> {
    at_least(2, arys, stream)
}

/// Arrays with three axes at least.
#[pyfunction]
#[pyo3(signature = (*arys, stream=None))]
fn atleast_3d(arys: &Bound<'_, PyTuple>, stream: Option<StreamArg>) -> PyResult<Py<PyAny>> {
    at_least(3, arys, stream)
}

/// The same bytes as elements of another dtype; another element size scales the last axis.
#[pyfunction]
#[pyo3(signature = (a, /, dtype, *, stream=None))]
fn view(a: &Any<'_>, dtype: &Any<'_>, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    let a = array_like(a)?;
    let to = crate::args::dtype_arg(Some(dtype))?.unwrap_or(a.dtype());
    done(ops::bitcast(&a, to))
}

/// Elements moved along axes, or in the flattened array; what leaves at one end enters at the other.
#[pyfunction]
#[pyo3(signature = (a, /, shift, axis=Axes(None), *, stream=None))]
fn roll(a: &Any<'_>, shift: IntList, axis: Axes, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::roll(&array_like(a)?, &shift.0, axis.0.as_deref()))
}

/// The k-th diagonals of the planes of two axes, as the last axis.
#[pyfunction]
#[pyo3(signature = (a, /, offset=0, axis1=0, axis2=1, *, stream=None))]
fn diagonal(
    a: &Any<'_>,
    offset: i64,
    axis1: i64,
    axis2: i64,
    stream: Option<StreamArg>,
) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::diagonal(&array_like(a)?, offset, axis1, axis2))
}

/// A matrix with a vector as its k-th diagonal, or the k-th diagonal of a matrix.
#[pyfunction]
#[pyo3(signature = (a, /, k=0, *, stream=None))]
fn diag(a: &Any<'_>, k: i64, stream: Option<StreamArg>) -> PyResult<PyArray> {
    let _scope = stream.and_then(|s| s.enter());
    done(ops::diag(&array_like(a)?, k))
}

/// Adds the family to the module.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(reshape, m)?)?;
    m.add_function(wrap_pyfunction!(flatten, m)?)?;
    m.add_function(wrap_pyfunction!(unflatten, m)?)?;
    m.add_function(wrap_pyfunction!(transpose, m)?)?;
    m.add("permute_dims", m.getattr("transpose")?)?;
    m.add_function(wrap_pyfunction!(swapaxes, m)?)?;
    m.add_function(wrap_pyfunction!(moveaxis, m)?)?;
    m.add_function(wrap_pyfunction!(squeeze, m)?)?;
    m.add_function(wrap_pyfunction!(expand_dims, m)?)?;
    m.add_function(wrap_pyfunction!(broadcast_to, m)?)?;
    m.add_function(wrap_pyfunction!(broadcast_arrays, m)?)?;
    m.add_function(wrap_pyfunction!(broadcast_shapes, m)?)?;
    m.add_function(wrap_pyfunction!(concatenate, m)?)?;
    m.add("concat", m.getattr("concatenate")?)?;
    m.add_function(wrap_pyfunction!(stack, m)?)?;
    m.add_function(wrap_pyfunction!(split, m)?)?;
    m.add_function(wrap_pyfunction!(repeat, m)?)?;
    m.add_function(wrap_pyfunction!(tile, m)?)?;
    m.add_function(wrap_pyfunction!(contiguous, m)?)?;
    m.add_function(wrap_pyfunction!(pad, m)?)?;
    m.add_function(wrap_pyfunction!(view, m)?)?;
    m.add_function(wrap_pyfunction!(roll, m)?)?;
    m.add_function(wrap_pyfunction!(diagonal, m)?)?;
    m.add_function(wrap_pyfunction!(diag, m)?)?;
    m.add_function(wrap_pyfunction!(atleast_1d, m)?)?;
    m.add_function(wrap_pyfunction!(atleast_2d, m)?)?;
    m.add_function(wrap_pyfunction!(atleast_3d, m)?)
}
