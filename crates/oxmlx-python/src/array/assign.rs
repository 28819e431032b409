//! Writing parts of arrays: the plan of a subscript, carried out with values.
//!
//! Every write makes a new array of the engine; the Python object then holds that one. Values may have leading
//! axes of length 1 too many, broadcast, and are cast to the array's dtype.

use super::convert;
use super::index::{Axis, Item, Plan, items};
use crate::args::{self, Operand};
use crate::error::OrRaise;
use oxmlx::primitive::ScatterMode;
use oxmlx::{Array, Dtype, Shape, format_shape, ops};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use smallvec::SmallVec;

/// How a value is combined with what is there.
#[derive(Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Update {
    Assign,
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
}

/// The value of an assignment in the array's dtype.
///
/// # Errors
/// TypeError for None, ValueError for lists and ints that do not fit.
pub fn value(obj: &Bound<'_, PyAny>, dtype: Dtype) -> PyResult<Array> {
    match args::operand(obj)? {
        Some(Operand::Number(n)) => n.fitting(dtype),
        Some(Operand::Array(a) | Operand::Foreign(a)) => ops::astype(&a, dtype).or_raise(),
        None if obj.is_none() => {
            Err(PyTypeError::new_err("incompatible function arguments: cannot assign None."))
        }
        None => Err(convert::invalid_type(obj)),
    }
}

fn mismatch(value: &[usize], shape: &[usize]) -> PyErr {
    let (from, to) = (format_shape(value), format_shape(shape));
    PyValueError::new_err(format!("Cannot broadcast array of shape {from} into shape {to}."))
}

fn reshaped(a: &Array, shape: &[usize]) -> PyResult<Array> {
    let shape: SmallVec<[i64; 6]> = shape.iter().map(|&n| n as i64).collect();
    ops::reshape(a, &shape).or_raise()
}

/// `v` with exactly as many axes as `shape`, to which it broadcasts.
fn fit(v: &Array, shape: &[usize]) -> PyResult<Array> {
    let have = v.shape();
    let extra = have.len().saturating_sub(shape.len());
    let fits = have[..extra].iter().all(|&n| n == 1)
        && have[extra..].iter().rev().zip(shape.iter().rev()).all(|(&x, &n)| x == 1 || x == n);
    if !fits {
        return Err(mismatch(have, shape));
    }
    let mut full: Shape = smallvec::smallvec![1; shape.len() + extra - have.len()];
    full.extend_from_slice(&have[extra..]);
    reshaped(v, &full)
}

/// The value in the order of axes that the engine's writes have: index axes, then the window's others.
fn aligned(v: &Array, plan: &Plan) -> PyResult<Array> {
    if v.ndim() == 0 {
        return Ok(v.clone());
    }
    let index = plan.index_shape()?;
    let v = fit(v, &plan.shape(&index))?;
    // Where each axis of the result went: new axes have length 1 and are left out.
    let (mut front, mut rest, mut at) = (Vec::new(), Vec::new(), 0i64);
    let mut lengths: Shape = Shape::new();
    for axis in &plan.out {
        match axis {
            Axis::New => {
                at += 1;
                continue;
            }
            Axis::Index => {
                front.extend((at..at + index.len() as i64).map(|i| i as usize));
                at += index.len() as i64;
            }
            Axis::Of(i) => {
                rest.push((*i, at as usize));
                at += 1;
            }
        }
    }
    let kept: Vec<usize> = front.iter().copied().chain(rest.iter().map(|r| r.1)).collect();
    let mut order: Vec<i64> = kept.iter().map(|&i| i as i64).collect();
    order.extend((0..v.ndim() as i64).filter(|i| !kept.contains(&(*i as usize))));
    let moved = if order.is_sorted() { v } else { ops::transpose(&v, Some(&order)).or_raise()? };
    lengths.extend(front.iter().enumerate().map(|(i, _)| moved.shape()[i]));
    let mut of = rest.iter().enumerate().map(|(i, r)| (r.0, moved.shape()[front.len() + i])).peekable();
    for axis in (0..plan.window.len()).filter(|a| !plan.axes.contains(a)) {
        let length = of.next_if(|o| o.0 == axis).map_or(1, |o| o.1);
        lengths.push(length);
    }
    reshaped(&moved, &lengths)
}

/// The window with an update in it.
fn combine(window: &Array, v: &Array, update: Update) -> oxmlx::Result<Array> {
    match update {
        Update::Assign => Ok(v.clone()),
        Update::Add => ops::add(window, v),
        Update::Subtract => ops::subtract(window, v),
        Update::Multiply => ops::multiply(window, v),
        Update::Divide => ops::divide(window, v),
        Update::Maximum => ops::maximum(window, v),
        Update::Minimum => ops::minimum(window, v),
    }
}

/// The window with an update at positions that are arrays; every occurrence of a position counts.
fn scatter(window: &Array, v: &Array, plan: &Plan, update: Update) -> oxmlx::Result<Array> {
    let (v, mode) = match update {
        Update::Assign => (v.clone(), ScatterMode::Assign),
        Update::Add => (v.clone(), ScatterMode::Sum),
        Update::Subtract => (ops::negative(v)?, ScatterMode::Sum),
        Update::Multiply => (v.clone(), ScatterMode::Prod),
        Update::Divide => (ops::reciprocal(v)?, ScatterMode::Prod),
        Update::Maximum => (v.clone(), ScatterMode::Max),
        Update::Minimum => (v.clone(), ScatterMode::Min),
    };
    ops::scatter(window, &plan.arrays, &v, &plan.axes, mode)
}

/// `a` with `v` combined into what `key` selects.
pub fn write(a: &Array, key: &[Item<'_>], v: &Array, update: Update) -> PyResult<Array> {
    let plan = Plan::new(key, a.shape())?;
    let v = aligned(v, &plan)?;
    let whole = plan.is_whole(a.shape());
    if plan.arrays.is_empty() && update == Update::Assign {
        return ops::slice_update(a, &v, &plan.start, &plan.stop, &plan.step).or_raise();
    }
    let window =
        if whole { a.clone() } else { ops::slice(a, &plan.start, &plan.stop, &plan.step).or_raise()? };
    let new = if plan.arrays.is_empty() {
        combine(&window, &v, update).or_raise()?
    } else {
        scatter(&window, &v, &plan, update).or_raise()?
    };
    if whole && !plan.arrays.is_empty() {
        return Ok(new);
    }
    ops::slice_update(a, &new, &plan.start, &plan.stop, &plan.step).or_raise()
}

/// What `a[key] = value` leaves in `a`.
pub fn assign(py: Python<'_>, a: &Array, key: &Bound<'_, PyAny>, obj: &Bound<'_, PyAny>) -> PyResult<Array> {
    let key = items(key)?;
    let v = value(obj, a.dtype())?;
    if !key.iter().any(|i| matches!(i, Item::Mask(_))) {
        return write(a, &key, &v, Update::Assign);
    }
    let mut others = key.iter().filter(|i| !matches!(i, Item::Mask(_) | Item::Ellipsis));
    match (key.first(), others.next()) {
        (Some(Item::Mask(mask)), None) if key.iter().filter(|i| matches!(i, Item::Mask(_))).count() == 1 => {
            masked(py, a, mask, &v)
        }
        _ => Err(PyValueError::new_err("A boolean mask cannot be combined with other indices.")),
    }
}

/// Writes where a mask over the leading axes is true: values for one position broadcast, values for several
/// are taken in the order of the positions.
fn masked(py: Python<'_>, a: &Array, mask: &Array, v: &Array) -> PyResult<Array> {
    let lead = mask.ndim();
    if lead > a.ndim() || mask.shape() != &a.shape()[..lead] {
        let (m, x) = (format_shape(mask.shape()), format_shape(a.shape()));
        return Err(PyValueError::new_err(format!(
            "[masked_scatter] The boolean mask should have the same shape as the beginning of the indexed array but \
             the mask has shape {m} and the array has shape {x}."
        )));
    }
    let rest = &a.shape()[lead..];
    let extra = v.ndim().saturating_sub(rest.len());
    if v.shape()[..extra].iter().all(|&n| n == 1) {
        let v = fit(v, rest)?;
        let mut wide: Shape = mask.shape().into();
        wide.extend(rest.iter().map(|_| 1));
        return ops::select(&reshaped(mask, &wide)?, &v, a).or_raise();
    }
    let flags = py.detach(|| mask.scalars()).or_raise()?;
    let places: Vec<i32> = (0i32..).zip(&flags).filter(|(_, s)| s.to_bool()).map(|(i, _)| i).collect();
    let given: usize = v.shape()[..extra].iter().product();
    if given < places.len() {
        let message =
            format!("The mask selects {} positions, but there are values for {given}.", places.len());
        return Err(PyValueError::new_err(message));
    }
    let mut values: Shape = smallvec::smallvec![given];
    values.extend_from_slice(&v.shape()[extra..]);
    let values = reshaped(v, &values)?;
    let (begin, step) = (vec![0; values.ndim()], vec![1; values.ndim()]);
    let mut end: Vec<i64> = values.shape().iter().map(|&n| n as i64).collect();
    end[0] = places.len() as i64;
    let values = ops::slice(&values, &begin, &end, &step).or_raise()?;
    let mut flat: Shape = smallvec::smallvec![flags.len()];
    flat.extend_from_slice(rest);
    let bytes: Vec<u8> = places.iter().flat_map(|i| i.to_le_bytes()).collect();
    let places = Array::from_bytes(&bytes, &[places.len()], Dtype::Int32).or_raise()?;
    let new = ops::scatter(&reshaped(a, &flat)?, &[places], &values, &[0], ScatterMode::Assign).or_raise()?;
    reshaped(&new, a.shape())
}
