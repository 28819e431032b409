//! Matrix products.

use crate::array::Array;
use crate::ops;
use crate::ops::shape::reshape_to;
use crate::primitive::{Op, Params, Primitive, View};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Error, Result, Shape, broadcast_shapes, format_shape};
use smallvec::smallvec;

/// Matrix product over the last two axes; leading axes broadcast, 1-d operands are a row or a column.
///
/// # Errors
/// InvalidArgument for 0-d operands, unequal inner lengths and types that aren't inexact.
pub fn matmul(a: &Array, b: &Array) -> Result<Array> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return Err(Error::invalid(
            "matmul",
            "Got 0 dimension input. Inputs must have at least one dimension.",
        ));
    }
    let dtype = a.dtype().promote(b.dtype());
    if !dtype.is_inexact() {
        let message = format!(
            "Only inexact types are supported but {} and {} were provided which results in {dtype}.",
            a.dtype(),
            b.dtype()
        );
        return Err(Error::invalid("matmul", message));
    }
    let (a, b) = (ops::astype(a, dtype)?, ops::astype(b, dtype)?);
    let row = if a.ndim() == 1 { reshape_to(&a, smallvec![1, a.size()]) } else { a.clone() };
    let column = if b.ndim() == 1 { reshape_to(&b, smallvec![b.size(), 1]) } else { b.clone() };
    if row.shape()[row.ndim() - 1] != column.shape()[column.ndim() - 2] {
        let message = format!(
            "Last dimension of first input with shape {} must match second to last dimension of second input with shape {}.",
            format_shape(a.shape()),
            format_shape(b.shape())
        );
        return Err(Error::invalid("matmul", message));
    }
    let result = [&row.shape()[..row.ndim() - 1], &column.shape()[column.ndim() - 1..]].concat();
    crate::array::checked_size(&result, dtype)?;
    let out = product(&row, &column)?;
    if a.ndim() > 1 && b.ndim() > 1 {
        return Ok(out);
    }
    let mut shape: Shape = out.shape().into();
    if b.ndim() == 1 {
        shape.pop();
    }
    if a.ndim() == 1 {
        let at = shape.len() - if b.ndim() == 1 { 1 } else { 2 };
        shape.remove(at);
    }
    Ok(reshape_to(&out, shape))
}

/// `[.., M, K] x [.., K, N]`, leading axes broadcast. One matrix against many rows is one large product.
fn product(a: &Array, b: &Array) -> Result<Array> {
    if b.ndim() == 2 && a.ndim() > 2 {
        let (k, n) = (b.shape()[0], b.shape()[1]);
        let rows = a.shape()[..a.ndim() - 1].iter().product();
        let flat = node(&reshape_to(a, smallvec![rows, k]), b);
        let mut shape: Shape = a.shape()[..a.ndim() - 1].into();
        shape.push(n);
        return Ok(reshape_to(&flat, shape));
    }
    let lead = broadcast_shapes(&a.shape()[..a.ndim() - 2], &b.shape()[..b.ndim() - 2])?;
    let with = |x: &Array| {
        let mut shape = lead.clone();
        shape.extend_from_slice(&x.shape()[x.ndim() - 2..]);
        ops::broadcast_to(x, &shape)
    };
    Ok(node(&with(a)?, &with(b)?))
}

/// The bare product; leading axes are equal.
fn node(a: &Array, b: &Array) -> Array {
    let mut shape: Shape = a.shape()[..a.ndim() - 1].into();
    shape.push(b.shape()[b.ndim() - 1]);
    Array::apply(Primitive::Op(Op::Matmul), Params::none(), shape, a.dtype(), smallvec![a.clone(), b.clone()])
}

/// `alpha * (a @ b) + beta * c`.
pub fn addmm(c: &Array, a: &Array, b: &Array, alpha: f64, beta: f64) -> Result<Array> {
    let scaled = |x: &Array, by: f64| {
        if by == 1.0 { Ok(x.clone()) } else { ops::multiply(x, &ops::weak(by, x.dtype())) }
    };
    let out = scaled(&matmul(a, b)?, alpha)?;
    let dtype = out.dtype().promote(c.dtype());
    ops::add(&ops::astype(&out, dtype)?, &scaled(&ops::astype(c, dtype)?, beta)?)
}

/// Products of all pairs of elements of two flattened arrays.
pub fn outer(a: &Array, b: &Array) -> Result<Array> {
    ops::multiply(&reshape_to(a, smallvec![a.size(), 1]), &reshape_to(b, smallvec![b.size()]))
}

/// Sums of products over the last axis of both; for 0-d operands, the product.
pub fn inner(a: &Array, b: &Array) -> Result<Array> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return ops::multiply(a, b);
    }
    if a.shape()[a.ndim() - 1] != b.shape()[b.ndim() - 1] {
        return Err(Error::invalid("inner", "a and b must have the same last dimension."));
    }
    tensordot(a, b, &[-1], &[-1])
}

/// Sums of products over pairs of axes.
pub fn tensordot(a: &Array, b: &Array, axes_a: &[i64], axes_b: &[i64]) -> Result<Array> {
    if axes_a.len() != axes_b.len() {
        return Err(Error::invalid(
            "tensordot",
            "dims[0] and dims[1] must have the same number of dimensions.",
        ));
    }
    let side = |x: &Array, axes: &[i64], last: bool| -> Result<(Array, Shape)> {
        let summed: Vec<i64> = axes
            .iter()
            .map(|&i| oxmlx_types::normalize_axis("tensordot", i, x.ndim()).map(|i| i as i64))
            .collect::<Result<_>>()?;
        let free: Vec<i64> = (0..x.ndim() as i64).filter(|i| !summed.contains(i)).collect();
        let order: Vec<i64> = if last {
            free.iter().chain(&summed).copied().collect()
        } else {
            summed.iter().chain(&free).copied().collect()
        };
        let lengths: Shape = free.iter().map(|&i| x.shape()[i as usize]).collect();
        let k: usize = summed.iter().map(|&i| x.shape()[i as usize]).product();
        let n: usize = lengths.iter().product();
        let t = ops::transpose(x, Some(&order))?;
        Ok((reshape_to(&t, if last { smallvec![n, k] } else { smallvec![k, n] }), lengths))
    };
    for (&i, &j) in axes_a.iter().zip(axes_b) {
        let (i, j) = (
            oxmlx_types::normalize_axis("tensordot", i, a.ndim())?,
            oxmlx_types::normalize_axis("tensordot", j, b.ndim())?,
        );
        if a.shape()[i] != b.shape()[j] {
            return Err(Error::invalid(
                "tensordot",
                "a and b must have the same shape on the contracted axes.",
            ));
        }
    }
    let ((x, mut shape), (y, right)) = (side(a, axes_a, true)?, side(b, axes_b, false)?);
    shape.extend_from_slice(&right);
    Ok(reshape_to(&matmul(&x, &y)?, shape))
}

fn transposed(a: &Array) -> Result<Array> {
    conjugated(&ops::swapaxes(a, -1, -2)?)
}

/// `g @ b^H` and `a^H @ g`. The cotangent of a transposed operand (a layer's weight, mostly) is computed as its
/// own transpose, so that it comes out in the layout of what was transposed.
pub(crate) fn vjp(app: &App<'_>, by: usize, g: &Array) -> Result<Option<Array>> {
    let (a, b) = (&app.inputs[0], &app.inputs[1]);
    let turned = matches!(app.inputs[by].node.op, Primitive::View(View::Transpose(_)));
    Ok(Some(match (by, turned) {
        (0, false) => node(g, &transposed(b)?),
        (0, true) => ops::swapaxes(&node(&conjugated(b)?, &ops::swapaxes(g, -1, -2)?), -1, -2)?,
        (_, false) => node(&transposed(a)?, g),
        (_, true) => ops::swapaxes(&node(&ops::swapaxes(g, -1, -2)?, &conjugated(a)?), -1, -2)?,
    }))
}

fn conjugated(a: &Array) -> Result<Array> {
    if a.dtype() == Dtype::Complex64 { ops::conjugate(a) } else { Ok(a.clone()) }
}

/// `ta @ b + a @ tb`.
pub(crate) fn jvp(app: &App<'_>, tangents: &[Option<Array>]) -> Result<Option<Array>> {
    let left = tangents[0].as_ref().map(|t| node(t, &app.inputs[1]));
    let right = tangents[1].as_ref().map(|t| node(&app.inputs[0], t));
    Ok(match (left, right) {
        (Some(x), Some(y)) => Some(ops::add(&x, &y)?),
        (x, y) => x.or(y),
    })
}

/// The batch axis is one more leading axis; a matrix shared by the batch stays one matrix.
pub(crate) fn vmap(inputs: &[Batched]) -> Result<Array> {
    let (a, b) = (&inputs[0], &inputs[1]);
    if a.batched && !b.batched && b.array.ndim() == 2 {
        return product(&a.array, &b.array);
    }
    let rank = a.rank().max(b.rank());
    product(&a.aligned(rank)?, &b.aligned(rank)?)
}
