//! Reductions and what is built from them.

use crate::array::Array;
use crate::ops;
use crate::ops::shape::reshape_to;
use crate::primitive::{Axes, Op, Params, Primitive, ReduceOp};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Error, ErrorKind, Result, Scalar, Shape, normalize_axis};
use smallvec::smallvec;

/// Ascending axes; all of them for `None`.
fn resolve(axes: Option<&[i64]>, ndim: usize, op: &'static str) -> Result<Axes> {
    let Some(axes) = axes else { return Ok((0..ndim as u8).collect()) };
    let mut out = Axes::new();
    for &axis in axes {
        let i = normalize_axis(op, axis, ndim).map_err(|e| Error {
            message: format!("Invalid axis {axis} for array with {ndim} dimensions."),
            op: "",
            ..e
        })?;
        out.push(i as u8);
    }
    out.sort_unstable();
    if out.windows(2).any(|w| w[0] == w[1]) {
        return Err(Error::invalid(op, "Duplicate axes are not allowed."));
    }
    Ok(out)
}

/// Lengths with reduced axes as 1.
fn kept(shape: &[usize], axes: &[u8]) -> Shape {
    shape.iter().enumerate().map(|(i, &n)| if axes.contains(&(i as u8)) { 1 } else { n }).collect()
}

fn drop_axes(a: &Array, axes: &[u8], keepdims: bool) -> Array {
    if keepdims || axes.is_empty() {
        return a.clone();
    }
    let shape =
        a.shape().iter().enumerate().filter(|(i, _)| !axes.contains(&(*i as u8))).map(|(_, &n)| n).collect();
    reshape_to(a, shape)
}

/// The bare reduction; reduced axes stay.
fn reduce(op: ReduceOp, a: &Array, axes: Axes) -> Array {
    if axes.is_empty() {
        return a.clone();
    }
    let shape = kept(a.shape(), &axes);
    Array::apply(Primitive::Reduce(op, axes), Params::none(), shape, a.dtype(), smallvec![a.clone()])
}

fn public(op: ReduceOp, a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    let axes = resolve(axes, a.ndim(), op.name())?;
    let empty = axes.iter().any(|&i| a.shape()[i as usize] == 0);
    if empty && matches!(op, ReduceOp::Max | ReduceOp::Min) {
        return Err(Error::invalid(op.name(), format!("Cannot {} reduce zero size array.", op.name())));
    }
    Ok(drop_axes(&reduce(op, a, axes.clone()), &axes, keepdims))
}

/// What sums and products of a type are computed in: narrow integers widen.
fn accumulator(d: Dtype) -> Dtype {
    match d {
        Dtype::Bool | Dtype::Int8 | Dtype::Int16 => Dtype::Int32,
        Dtype::Uint8 | Dtype::Uint16 => Dtype::Uint32,
        d => d,
    }
}

/// Sum over axes (all without any given). Narrow integers are summed as 32-bit ones, half types in float32.
pub fn sum(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::Sum, &ops::astype(a, accumulator(a.dtype()))?, axes, keepdims)
}

/// Product over axes.
pub fn prod(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::Prod, &ops::astype(a, accumulator(a.dtype()))?, axes, keepdims)
}

/// Largest element over axes; NaN if there is one.
pub fn max(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::Max, a, axes, keepdims)
}

/// Smallest element over axes; NaN if there is one.
pub fn min(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::Min, a, axes, keepdims)
}

/// Whether all elements over axes are non-zero.
pub fn all(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::All, &ops::astype(a, Dtype::Bool)?, axes, keepdims)
}

/// Whether any element over axes is non-zero.
pub fn any(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    public(ReduceOp::Any, &ops::astype(a, Dtype::Bool)?, axes, keepdims)
}

fn count(a: &Array, axes: Option<&[i64]>, op: &'static str) -> Result<f64> {
    Ok(resolve(axes, a.ndim(), op)?.iter().map(|&i| a.shape()[i as usize] as f64).product())
}

/// Mean over axes; integers give float32.
pub fn mean(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    let a = ops::astype(a, a.dtype().to_inexact())?;
    let n = count(&a, axes, "mean")?;
    let total = sum(&a, axes, keepdims)?;
    ops::multiply(&total, &Array::scalar(Scalar::from_f64(1.0 / n, a.dtype())))
}

/// Mean squared distance from the mean, over n - ddof.
pub fn var(a: &Array, axes: Option<&[i64]>, keepdims: bool, ddof: i64) -> Result<Array> {
    let a = ops::astype(a, a.dtype().to_inexact())?;
    let n = count(&a, axes, "var")?;
    let centred = ops::subtract(&a, &mean(&a, axes, true)?)?;
    let square = if a.dtype() == Dtype::Complex64 {
        ops::real(&ops::multiply(&centred, &ops::conjugate(&centred)?)?)?
    } else {
        ops::square(&centred)?
    };
    let total = sum(&square, axes, keepdims)?;
    let scale = 1.0 / (n - ddof as f64).max(0.0);
    ops::multiply(&total, &Array::scalar(Scalar::from_f64(scale, total.dtype())))
}

/// Square root of the variance.
pub fn std(a: &Array, axes: Option<&[i64]>, keepdims: bool, ddof: i64) -> Result<Array> {
    ops::sqrt(&var(a, axes, keepdims, ddof)?)
}

/// Position of the largest element along an axis, or in the flattened array; the first of equals, NaN first.
pub fn argmax(a: &Array, axis: Option<i64>, keepdims: bool) -> Result<Array> {
    arg(true, a, axis, keepdims)
}

/// Position of the smallest element along an axis, or in the flattened array; the first of equals, NaN first.
pub fn argmin(a: &Array, axis: Option<i64>, keepdims: bool) -> Result<Array> {
    arg(false, a, axis, keepdims)
}

fn arg(max: bool, a: &Array, axis: Option<i64>, keepdims: bool) -> Result<Array> {
    let name = if max { "argmax" } else { "argmin" };
    if a.size() == 0 {
        return Err(Error::invalid(name, "Cannot perform argreduce on an empty array."));
    }
    let Some(axis) = axis else {
        let flat = arg(max, &reshape_to(a, smallvec![a.size()]), Some(0), keepdims)?;
        return Ok(if keepdims { reshape_to(&flat, smallvec![1; a.ndim()]) } else { flat });
    };
    let axes = resolve(Some(&[axis]), a.ndim(), name)?;
    let op = Primitive::Op(Op::ArgReduce { max, axis: axes[0] });
    let out = Array::apply(op, Params::none(), kept(a.shape(), &axes), Dtype::Uint32, smallvec![a.clone()]);
    Ok(drop_axes(&out, &axes, keepdims))
}

/// Whether two arrays have one shape and equal elements (a bool array, 0-d).
pub fn array_equal(a: &Array, b: &Array, equal_nan: bool) -> Result<Array> {
    if a.shape() != b.shape() {
        return Ok(Array::scalar(Scalar::from_bool(false)));
    }
    let mut same = ops::equal(a, b)?;
    if equal_nan {
        same = ops::logical_or(&same, &ops::logical_and(&ops::isnan(a)?, &ops::isnan(b)?)?)?;
    }
    all(&same, None, false)
}

/// Sums over the axes that broadcasting to `a`'s shape would have stretched.
pub fn sum_to(a: &Array, shape: &[usize]) -> Result<Array> {
    if a.shape() == shape {
        return Ok(a.clone());
    }
    if a.ndim() < shape.len()
        || a.shape()[a.ndim() - shape.len()..].iter().zip(shape).any(|(&n, &m)| n != m && m != 1)
    {
        // A cotangent that broadcasts (a 0-d immediate, say) stands for its broadcast self.
        return ops::broadcast_to(a, shape);
    }
    let lead = a.ndim() - shape.len();
    let axes: Axes = (0..a.ndim())
        .filter(|&i| i < lead || (shape[i - lead] == 1 && a.shape()[i] != 1))
        .map(|i| i as u8)
        .collect();
    Ok(reshape_to(&reduce(ReduceOp::Sum, a, axes), shape.into()))
}

fn typed(v: f64, a: &Array) -> Array {
    Array::scalar(Scalar::from_f64(v, a.dtype()))
}

/// What each element adds to the result's change: the derivative of the reduction by its operand.
fn weights(app: &App<'_>, op: ReduceOp, axes: &Axes) -> Result<Option<Array>> {
    let (x, y) = (&app.inputs[0], app.out);
    Ok(Some(match op {
        ReduceOp::Max | ReduceOp::Min => {
            let hit = ops::astype(&ops::equal(x, y)?, x.dtype())?;
            ops::divide(&hit, &reduce(ReduceOp::Sum, &hit, axes.clone()))?
        }
        ReduceOp::Prod => {
            // The product of the others: y / x where nothing is zero; with one zero, only that one matters.
            let zero = ops::equal(x, &typed(0.0, x))?;
            let others = ops::select(&zero, &typed(1.0, x), x)?;
            let zeros = reduce(ReduceOp::Sum, &ops::astype(&zero, x.dtype())?, axes.clone());
            let product = reduce(ReduceOp::Prod, &others, axes.clone());
            let alone = ops::select(&zero, &product, &typed(0.0, x))?;
            let one = ops::select(&ops::equal(&zeros, &typed(1.0, x))?, &alone, &typed(0.0, x))?;
            ops::select(&ops::equal(&zeros, &typed(0.0, x))?, &ops::divide(&product, &others)?, &one)?
        }
        ReduceOp::Sum | ReduceOp::All | ReduceOp::Any => return Ok(None),
    }))
}

/// Cotangent of a reduction's operand.
pub(crate) fn vjp(app: &App<'_>, g: &Array) -> Result<Option<Array>> {
    let Primitive::Reduce(op, axes) = app.op else { return Ok(None) };
    if matches!(op, ReduceOp::All | ReduceOp::Any) {
        return Ok(None);
    }
    let back = match weights(app, *op, axes)? {
        Some(w) => ops::multiply(g, &w)?,
        None => ops::broadcast_to(g, app.inputs[0].shape())?,
    };
    Ok(Some(back))
}

/// Tangent of a reduction.
pub(crate) fn jvp(app: &App<'_>, t: &Array) -> Result<Option<Array>> {
    let Primitive::Reduce(op, axes) = app.op else { return Ok(None) };
    if matches!(op, ReduceOp::All | ReduceOp::Any) {
        return Ok(None);
    }
    let weighted = match weights(app, *op, axes)? {
        Some(w) => ops::multiply(t, &w)?,
        None => t.clone(),
    };
    Ok(Some(reduce(ReduceOp::Sum, &weighted, axes.clone())))
}

/// Batched form: the axes move one to the right.
pub(crate) fn vmap(app: &App<'_>, x: &Batched) -> Result<Array> {
    match app.op {
        Primitive::Reduce(op, axes) => Ok(reduce(*op, &x.array, axes.iter().map(|a| a + 1).collect())),
        Primitive::Op(Op::ArgReduce { max, axis }) => arg(*max, &x.array, Some(*axis as i64 + 1), true),
        _ => Err(Error::new(ErrorKind::Unsupported, "vmap", "not a reduction")),
    }
}
