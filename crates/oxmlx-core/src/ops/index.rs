//! Reading and writing at positions that are arrays.

use crate::array::{Array, Inputs};
use crate::ops;
use crate::ops::shape::reshape_to;
use crate::primitive::{Axes, Op, Params, Primitive, ScatterMode};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Error, Result, Scalar, Shape, broadcast_shapes, normalize_axis};
use smallvec::smallvec;

fn integral(op: &'static str, indices: &Array) -> Result<()> {
    let d = indices.dtype();
    if d.is_inexact() || d == Dtype::Bool {
        return Err(Error::invalid(
            op,
            format!("Got indices with invalid dtype {d}. Indices must be integral."),
        ));
    }
    Ok(())
}

fn check_axes(op: &'static str, a: &Array, axes: &[usize]) -> Result<Axes> {
    if axes.windows(2).any(|w| w[0] >= w[1]) || axes.iter().any(|&x| x >= a.ndim()) {
        return Err(Error::invalid(op, "Indexed axes must be ascending and exist."));
    }
    Ok(axes.iter().map(|&x| x as u8).collect())
}

/// Index arrays broadcast to one shape.
fn joint(op: &'static str, indices: &[Array]) -> Result<(Inputs, Shape)> {
    let mut shape = Shape::new();
    for i in indices {
        integral(op, i)?;
        shape = broadcast_shapes(&shape, i.shape())?;
    }
    let all = indices.iter().map(|i| ops::broadcast_to(i, &shape)).collect::<Result<_>>()?;
    Ok((all, shape))
}

fn others(a: &Array, axes: &[u8]) -> impl Iterator<Item = usize> {
    a.shape().iter().enumerate().filter(|(i, _)| !axes.contains(&(*i as u8))).map(|(_, &n)| n)
}

/// `out[i.., r..] = a[.. indices_k[i..] at axes[k] .., r..]`: index arrays (broadcast to shape I) replace
/// ascending axes; the result has shape I followed by the other axes. Negative indices count from the end.
///
/// # Errors
/// InvalidArgument for indices that aren't integers; OutOfRange, at eval, for indices beyond the end.
pub fn gather(a: &Array, indices: &[Array], axes: &[usize]) -> Result<Array> {
    let axes = check_axes("gather", a, axes)?;
    let (mut index, mut shape) = joint("gather", indices)?;
    shape.extend(others(a, &axes));
    crate::array::checked_size(&shape, a.dtype())?;
    let mut inputs: Inputs = smallvec![a.clone()];
    inputs.append(&mut index);
    Ok(Array::apply(Primitive::Op(Op::Gather { axes }), Params::none(), shape, a.dtype(), inputs))
}

/// `a` with `updates` combined into the places that [`gather`] would read; updates have (or broadcast to) the
/// shape that it would return.
pub fn scatter(
    a: &Array,
    indices: &[Array],
    updates: &Array,
    axes: &[usize],
    mode: ScatterMode,
) -> Result<Array> {
    let axes = check_axes("scatter", a, axes)?;
    let (mut index, mut shape) = joint("scatter", indices)?;
    shape.extend(others(a, &axes));
    crate::array::checked_size(&shape, a.dtype())?;
    let updates =
        ops::broadcast_to(&ops::astype(&super::slice::trim(updates, shape.len())?, a.dtype())?, &shape)?;
    let mut inputs: Inputs = smallvec![a.clone()];
    inputs.append(&mut index);
    inputs.push(updates);
    let op = Primitive::Op(Op::Scatter { axes, mode });
    Ok(Array::apply(op, Params::none(), a.shape().into(), a.dtype(), inputs))
}

/// Slices of `a` at `indices` along an axis: the axis is replaced by the shape of `indices`.
pub fn take(a: &Array, indices: &Array, axis: i64) -> Result<Array> {
    let axis = normalize_axis("take", axis, a.ndim())?;
    integral("take", indices)?;
    if a.shape()[axis] == 0 && indices.size() > 0 {
        return Err(Error::invalid("take", "Cannot do a non-empty take from an array with zero elements."));
    }
    let out = gather(a, std::slice::from_ref(indices), &[axis])?;
    // The index axes come first; they belong where the axis was.
    let n = indices.ndim();
    let mut order: Axes = (n..n + axis).map(|i| i as u8).collect();
    order.extend(0..n as u8);
    order.extend((n + axis..out.ndim()).map(|i| i as u8));
    Ok(super::shape::permute(&out, order))
}

/// Elements of the flattened array.
pub fn take_flat(a: &Array, indices: &Array) -> Result<Array> {
    take(&reshape_to(a, smallvec![a.size()]), indices, 0)
}

fn along(op: &'static str, a: &Array, indices: &Array, axis: i64) -> Result<(usize, Array, Array)> {
    integral(op, indices)?;
    let axis = normalize_axis(op, axis, a.ndim())?;
    if indices.ndim() != a.ndim() {
        let message = format!(
            "Indices of dimension {} does not match array of dimension {}.",
            indices.ndim(),
            a.ndim()
        );
        return Err(Error::invalid(op, message));
    }
    let mut x: Shape = a.shape().into();
    let mut i: Shape = indices.shape().into();
    (x[axis], i[axis]) = (1, 1);
    let mut shape = broadcast_shapes(&x, &i)?;
    shape[axis] = a.shape()[axis];
    let a = ops::broadcast_to(a, &shape)?;
    shape[axis] = indices.shape()[axis];
    Ok((axis, a, ops::broadcast_to(indices, &shape)?))
}

/// Elements at positions along an axis; `indices` has the rank of `a`, the other axes broadcast.
pub fn take_along_axis(a: &Array, indices: &Array, axis: i64) -> Result<Array> {
    let (axis, a, indices) = along("take_along_axis", a, indices, axis)?;
    let (shape, dtype) = (indices.shape().into(), a.dtype());
    let op = Primitive::Op(Op::GatherAxis { axis: axis as u8 });
    Ok(Array::apply(op, Params::none(), shape, dtype, smallvec![a, indices]))
}

/// `a` with `values` written at positions along an axis.
pub fn put_along_axis(a: &Array, indices: &Array, values: &Array, axis: i64) -> Result<Array> {
    scatter_axis("put_along_axis", a, indices, values, axis, ScatterMode::Assign)
}

/// `a` with `values` added at positions along an axis.
pub fn scatter_add_axis(a: &Array, indices: &Array, values: &Array, axis: i64) -> Result<Array> {
    scatter_axis("scatter_add_axis", a, indices, values, axis, ScatterMode::Sum)
}

fn scatter_axis(
    op: &'static str,
    a: &Array,
    indices: &Array,
    values: &Array,
    axis: i64,
    mode: ScatterMode,
) -> Result<Array> {
    let (axis, a, indices) = along(op, a, indices, axis)?;
    let values = ops::broadcast_to(&ops::astype(values, a.dtype())?, indices.shape())?;
    let op = Primitive::Op(Op::ScatterAxis { axis: axis as u8, mode });
    let (shape, dtype) = (a.shape().into(), a.dtype());
    Ok(Array::apply(op, Params::none(), shape, dtype, smallvec![a, indices, values]))
}

fn zeros(shape: &[usize], like: &Array) -> Result<Array> {
    ops::full(shape, &Array::scalar(Scalar::from_i64(0, like.dtype())), like.dtype())
}

/// The same read or write with other data operands.
fn again(app: &App<'_>, src: &Array, update: Option<&Array>, op: Op) -> Array {
    let last = app.inputs.len()
        - usize::from(matches!(app.op, Primitive::Op(Op::Scatter { .. } | Op::ScatterAxis { .. })));
    let mut inputs: Inputs = smallvec![src.clone()];
    inputs.extend(app.inputs[1..last].iter().cloned());
    let shape: Shape = match update {
        Some(u) => {
            inputs.push(u.clone());
            src.shape().into()
        }
        None => match &op {
            Op::Gather { axes } => app.inputs[1].shape().iter().copied().chain(others(src, axes)).collect(),
            _ => app.inputs[1].shape().into(),
        },
    };
    Array::apply(Primitive::Op(op), Params::none(), shape, src.dtype(), inputs)
}

/// The read that matches a write, and the write that matches a read.
fn reader(op: &Op) -> Op {
    match op {
        Op::Scatter { axes, .. } | Op::Gather { axes } => Op::Gather { axes: axes.clone() },
        Op::ScatterAxis { axis, .. } | Op::GatherAxis { axis } => Op::GatherAxis { axis: *axis },
        other => other.clone(),
    }
}

fn writer(op: &Op, mode: ScatterMode) -> Op {
    match op {
        Op::Scatter { axes, .. } | Op::Gather { axes } => Op::Scatter { axes: axes.clone(), mode },
        Op::ScatterAxis { axis, .. } | Op::GatherAxis { axis } => Op::ScatterAxis { axis: *axis, mode },
        other => other.clone(),
    }
}

/// Cotangents of a gather's source; of a scatter's destination and updates.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let Primitive::Op(op) = app.op else { return Ok(None) };
    let last = app.inputs.len() - 1;
    Ok(Some(match op {
        Op::Gather { .. } | Op::GatherAxis { .. } if by == 0 => {
            again_write(app, &zeros(app.inputs[0].shape(), g)?, g, writer(op, ScatterMode::Sum))
        }
        Op::Scatter { mode, .. } | Op::ScatterAxis { mode, .. } if by == 0 || by == last => {
            let update = &app.inputs[last];
            match (mode, by == 0) {
                (ScatterMode::Sum, true) => g.clone(),
                (ScatterMode::Sum | ScatterMode::Assign, false) => again(app, g, None, reader(op)),
                (ScatterMode::Assign, true) => {
                    again(app, g, Some(&zeros(update.shape(), g)?), writer(op, ScatterMode::Assign))
                }
                (ScatterMode::Max | ScatterMode::Min, true) => {
                    ops::select(&ops::equal(app.out, &app.inputs[0])?, g, &zeros(&[], g)?)?
                }
                (ScatterMode::Max | ScatterMode::Min, false) => {
                    let hit = ops::equal(&again(app, app.out, None, reader(op)), update)?;
                    ops::select(&hit, &again(app, g, None, reader(op)), &zeros(&[], g)?)?
                }
                (ScatterMode::Prod, true) => {
                    let ones = ops::ones(app.inputs[0].shape(), g.dtype())?;
                    let factor = again(app, &ones, Some(update), writer(op, ScatterMode::Prod));
                    ops::multiply(g, &factor)?
                }
                (ScatterMode::Prod, false) => {
                    return Err(Error::unsupported(
                        "vjp",
                        "A scatter with products has no gradient by its updates.",
                    ));
                }
            }
        }
        // Positions: a small change of an integer changes nothing.
        _ => return Ok(None),
    }))
}

/// A write with the index operands of a read.
fn again_write(app: &App<'_>, dst: &Array, update: &Array, op: Op) -> Array {
    let mut inputs: Inputs = smallvec![dst.clone()];
    inputs.extend(app.inputs[1..].iter().cloned());
    inputs.push(update.clone());
    Array::apply(Primitive::Op(op), Params::none(), dst.shape().into(), dst.dtype(), inputs)
}

/// Tangent: reads and sums are linear; an assignment writes tangents.
pub(crate) fn jvp(app: &App<'_>, tangents: &[Option<Array>]) -> Result<Option<Array>> {
    let Primitive::Op(op) = app.op else { return Ok(None) };
    let last = app.inputs.len() - 1;
    match op {
        Op::Gather { .. } | Op::GatherAxis { .. } => {
            Ok(tangents[0].as_ref().map(|t| again(app, t, None, op.clone())))
        }
        Op::Scatter { mode: ScatterMode::Sum | ScatterMode::Assign, .. }
        | Op::ScatterAxis { mode: ScatterMode::Sum | ScatterMode::Assign, .. } => {
            if tangents[0].is_none() && tangents[last].is_none() {
                return Ok(None);
            }
            let of = |i: usize| match &tangents[i] {
                Some(t) => Ok(t.clone()),
                None => ops::zeros_like(&app.inputs[i]),
            };
            Ok(Some(again(app, &of(0)?, Some(&of(last)?), op.clone())))
        }
        _ => Err(Error::unsupported("jvp", "This scatter has no forward derivative.")),
    }
}

/// Batched form: the batch position becomes one more index.
pub(crate) fn vmap(app: &App<'_>, inputs: &[Batched], size: usize) -> Result<Array> {
    let Primitive::Op(op) = app.op else { return Err(Error::unsupported("vmap", "not an index operation")) };
    match op {
        Op::GatherAxis { axis } | Op::ScatterAxis { axis, .. } => {
            let all: Inputs = inputs.iter().map(|b| b.spread(size)).collect::<Result<_>>()?;
            let shape = if all.len() == 2 { all[1].shape().into() } else { all[0].shape().into() };
            let dtype = all[0].dtype();
            let op = match op {
                Op::ScatterAxis { mode, .. } => Op::ScatterAxis { axis: axis + 1, mode: *mode },
                _ => Op::GatherAxis { axis: axis + 1 },
            };
            Ok(Array::apply(Primitive::Op(op), Params::none(), shape, dtype, all))
        }
        Op::Gather { axes } | Op::Scatter { axes, .. } => {
            let writes = matches!(op, Op::Scatter { .. });
            let last = inputs.len() - usize::from(writes);
            let source = inputs[0].spread(size)?;
            let rank = app.inputs[1].ndim();
            let mut iota: Vec<i64> = vec![size as i64];
            iota.extend(std::iter::repeat_n(1, rank));
            let positions = ops::reshape(&ops::arange(0.0, size as f64, 1.0, Dtype::Int32)?, &iota)?;
            let mut indices = vec![positions];
            for b in &inputs[1..last] {
                indices.push(b.spread(size)?);
            }
            let axes: Vec<usize> = std::iter::once(0).chain(axes.iter().map(|&a| a as usize + 1)).collect();
            match op {
                Op::Scatter { mode, .. } => {
                    scatter(&source, &indices, &inputs[last].spread(size)?, &axes, *mode)
                }
                _ => gather(&source, &indices, &axes),
            }
        }
        _ => Err(Error::unsupported("vmap", "not an index operation")),
    }
}
