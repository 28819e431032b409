//! Windows of an array, read and written; padding.

use crate::array::Array;
use crate::ops;
use crate::primitive::{Op, Params, Primitive, View};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Error, Result, Scalar, Shape, format_shape};
use smallvec::{SmallVec, smallvec};

/// First element, number of elements and step along one axis, as Python's slices mean them.
fn resolve(n: usize, start: i64, stop: i64, step: i64) -> (i64, usize) {
    let n = n as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let wrap = |p: i64| (if p < 0 { p + n } else { p }).clamp(low, high);
    let (start, stop) = (wrap(start), if step < 0 && stop < -n { -1 } else { wrap(stop) });
    let length = if step > 0 { (stop - start + step - 1) / step } else { (start - stop - step - 1) / -step };
    (start, length.max(0) as usize)
}

/// Start of each axis, window shape and steps.
type Window = (SmallVec<[u64; 2]>, Shape, SmallVec<[i32; 4]>);

fn windows(op: &'static str, a: &Array, start: &[i64], stop: &[i64], steps: &[i64]) -> Result<Window> {
    let n = a.ndim();
    if start.len() != n || stop.len() != n || steps.len() != n {
        let message = format!("Invalid number of indices or strides for an array with {n} dimensions.");
        return Err(Error::invalid(op, message));
    }
    let (mut starts, mut shape, mut out): Window = Default::default();
    for i in 0..n {
        let step = i32::try_from(steps[i]).ok().filter(|&s| s != 0 && s != i32::MIN);
        let Some(step) = step else {
            return Err(Error::invalid(op, format!("A slice step of {} is not possible.", steps[i])));
        };
        let (first, length) = resolve(a.shape()[i], start[i], stop[i], steps[i]);
        starts.push(first as u64);
        shape.push(length);
        out.push(step);
    }
    Ok((starts, shape, out))
}

/// Elements `start[i], start[i] + steps[i], …` before `stop[i]` along each axis. Negative positions count from
/// the end; with a negative step, a stop below `-n` means "to the beginning".
pub fn slice(a: &Array, start: &[i64], stop: &[i64], steps: &[i64]) -> Result<Array> {
    let (starts, shape, steps) = windows("slice", a, start, stop, steps)?;
    if shape.as_slice() == a.shape() && steps.iter().all(|&s| s == 1) {
        return Ok(a.clone());
    }
    let op = Primitive::View(View::Slice(steps));
    Ok(Array::apply(op, Params { values: starts }, shape, a.dtype(), smallvec![a.clone()]))
}

/// `a` with `update`, cast and broadcast, in the window that [`slice`] would read.
pub fn slice_update(a: &Array, update: &Array, start: &[i64], stop: &[i64], steps: &[i64]) -> Result<Array> {
    let (starts, shape, steps) = windows("slice_update", a, start, stop, steps)?;
    let update = ops::broadcast_to(&ops::astype(&trim(update, shape.len())?, a.dtype())?, &shape)?;
    if shape.as_slice() == a.shape() && steps.iter().all(|&s| s == 1) {
        return Ok(update);
    }
    if shape.contains(&0) {
        return Ok(a.clone());
    }
    Ok(update_window(a, &update, starts, steps))
}

fn update_window(a: &Array, update: &Array, starts: SmallVec<[u64; 2]>, steps: SmallVec<[i32; 4]>) -> Array {
    let op = Primitive::Op(Op::SliceUpdate { steps });
    let inputs = smallvec![a.clone(), update.clone()];
    Array::apply(op, Params { values: starts }, a.shape().into(), a.dtype(), inputs)
}

/// Without leading axes of length 1 beyond a rank, as assignments allow them.
pub(crate) fn trim(a: &Array, rank: usize) -> Result<Array> {
    if a.ndim() <= rank {
        return Ok(a.clone());
    }
    let extra = a.ndim() - rank;
    if a.shape()[..extra].iter().any(|&n| n != 1) {
        let message =
            format!("Shape {} does not fit an assignment to {rank} dimensions.", format_shape(a.shape()));
        return Err(Error::invalid("broadcast_shapes", message));
    }
    Ok(super::shape::reshape_to(a, a.shape()[extra..].into()))
}

/// `value` around the array: `low[i]` elements before and `high[i]` after axis i.
pub fn pad(a: &Array, low: &[usize], high: &[usize], value: &Array) -> Result<Array> {
    if low.len() != a.ndim() || high.len() != a.ndim() {
        let message = format!("Invalid number of padding sizes passed to pad with dimension {}.", a.ndim());
        return Err(Error::invalid("pad", message));
    }
    let length = |i: usize| low[i].saturating_add(a.shape()[i]).saturating_add(high[i]);
    let shape: Shape = (0..a.ndim()).map(length).collect();
    crate::array::checked_size(&shape, a.dtype())?;
    let base = ops::full(&shape, value, a.dtype())?;
    let start: Vec<i64> = low.iter().map(|&n| n as i64).collect();
    let stop: Vec<i64> = (0..a.ndim()).map(|i| (low[i] + a.shape()[i]) as i64).collect();
    slice_update(&base, a, &start, &stop, &vec![1; a.ndim()])
}

fn zero_like(a: &Array, shape: &[usize]) -> Result<Array> {
    ops::full(shape, &Array::scalar(Scalar::from_i64(0, a.dtype())), a.dtype())
}

/// Cotangents of a slice's operand, and of a slice update's.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let starts = app.params.values.clone();
    Ok(Some(match app.op {
        Primitive::View(View::Slice(steps)) => {
            let zeros = zero_like(g, app.inputs[0].shape())?;
            if app.out.size() == 0 { zeros } else { update_window(&zeros, g, starts, steps.clone()) }
        }
        Primitive::Op(Op::SliceUpdate { steps }) if by == 0 => {
            let zeros = zero_like(g, app.inputs[1].shape())?;
            update_window(g, &zeros, starts, steps.clone())
        }
        Primitive::Op(Op::SliceUpdate { steps }) => {
            read_window(g, starts, steps.clone(), app.inputs[1].shape())
        }
        _ => return Err(app.missing("vjp")),
    }))
}

fn read_window(a: &Array, starts: SmallVec<[u64; 2]>, steps: SmallVec<[i32; 4]>, shape: &[usize]) -> Array {
    let op = Primitive::View(View::Slice(steps));
    Array::apply(op, Params { values: starts }, shape.into(), a.dtype(), smallvec![a.clone()])
}

/// Batched form: the batch axis is a whole window of its own.
pub(crate) fn vmap(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    let mut starts: SmallVec<[u64; 2]> = smallvec![0];
    starts.extend_from_slice(&app.params.values);
    let widen = |steps: &SmallVec<[i32; 4]>| {
        let mut all: SmallVec<[i32; 4]> = smallvec![1];
        all.extend_from_slice(steps);
        all
    };
    match app.op {
        Primitive::Op(Op::SliceUpdate { steps }) => {
            Ok(update_window(&inputs[0].spread(size)?, &inputs[1].spread(size)?, starts, widen(steps)))
        }
        Primitive::View(View::Slice(steps)) => {
            let mut shape: Shape = smallvec![size];
            shape.extend_from_slice(app.out.shape());
            Ok(read_window(&inputs[0].array, starts, widen(steps), &shape))
        }
        _ => Err(Error::unsupported("vmap", "not a slice")),
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn slices_as_python_means_them() {
        assert_eq!(resolve(5, 1, 4, 1), (1, 3));
        assert_eq!(resolve(5, -2, 9, 1), (3, 2));
        assert_eq!(resolve(5, 4, -6, -1), (4, 5));
        assert_eq!(resolve(5, 4, -6, -2), (4, 3));
        assert_eq!(resolve(5, 3, 1, 1), (3, 0));
        assert_eq!(resolve(0, 0, 0, 1).1, 0);
        assert_eq!(resolve(0, 0, -1, -1).1, 0);
    }
}
