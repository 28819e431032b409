//! Element-wise operations: two tables, `where` and `astype`, and all that follows from a row.

#[macro_use]
pub mod unary;
#[macro_use]
pub mod binary;
mod differentiate;
mod expr;
mod table;

pub(crate) use differentiate::{jvp, vjp, vmap};
pub use expr::Expr;
pub use table::{BinaryOp, BinaryRule, UnaryOp, UnaryRule};

use crate::array::Array;
use crate::backend;
use crate::primitive::{Params, Primitive};
use crate::runtime::stats;
use oxmlx_types::{Device, Dtype, Error, Result, Scalar, Shape, broadcast_shapes};
use smallvec::smallvec;

/// A Python float beside an array of this dtype: it keeps the array's dtype where that can hold a float.
pub fn weak(value: f64, dtype: Dtype) -> Array {
    Array::scalar(Scalar::from_f64(value, dtype.promote_weak(Dtype::Float32)))
}

/// A Python int beside an array of this dtype.
pub fn weak_int(value: i64, dtype: Dtype) -> Array {
    Array::scalar(Scalar::from_i64(value, dtype.promote_weak(Dtype::Int32)))
}

macro_rules! unary_functions {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $derivative:tt;)*) => {
        $($(#[$doc])* pub fn $name(a: &Array) -> Result<Array> { unary(UnaryOp::$variant, a) })*
    };
}
unary_table!(unary_functions);

macro_rules! binary_functions {
    ($($(#[$doc:meta])* $variant:ident $name:ident $rule:ident $da:tt $db:tt;)*) => {
        $($(#[$doc])* pub fn $name(a: &Array, b: &Array) -> Result<Array> { binary(BinaryOp::$variant, a, b) })*
    };
}
binary_table!(binary_functions);

/// Applies a row of the unary table.
pub fn unary(op: UnaryOp, a: &Array) -> Result<Array> {
    let (input, out) = op.dtypes(a.dtype())?;
    let real = input != Dtype::Complex64;
    match op {
        UnaryOp::Real | UnaryOp::Conjugate if real => return Ok(a.clone()),
        UnaryOp::Imag if real => return super::create::zeros(a.shape(), out),
        _ => {}
    }
    let a = cast(a, input)?;
    let op = Primitive::Unary(op);
    if let Some(folded) = fold(&op, out, &[&a]) {
        return Ok(folded);
    }
    Ok(Array::apply(op, Params::none(), a.shape().into(), out, smallvec![a]))
}

/// Applies a row of the binary table.
pub fn binary(op: BinaryOp, a: &Array, b: &Array) -> Result<Array> {
    let (input, out) = op.dtypes(a.dtype().promote(b.dtype()))?;
    let (a, b) = (cast(a, input)?, cast(b, input)?);
    let op = Primitive::Binary(op);
    if let Some(folded) = fold(&op, out, &[&a, &b]) {
        return Ok(folded);
    }
    let shape = joint_shape(&a, &b)?;
    Ok(Array::apply(op, Params::none(), shape, out, smallvec![a, b]))
}

/// `condition ? a : b`, element by element; the operands broadcast, a and b promote.
pub fn select(condition: &Array, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype().promote(b.dtype());
    let (c, a, b) = (cast(condition, Dtype::Bool)?, cast(a, dtype)?, cast(b, dtype)?);
    if let Some(folded) = fold(&Primitive::Select, dtype, &[&c, &a, &b]) {
        return Ok(folded);
    }
    let shape = broadcast_shapes(c.shape(), &joint_shape(&a, &b)?)?;
    Ok(Array::apply(Primitive::Select, Params::none(), shape, dtype, smallvec![c, a, b]))
}

/// The same numbers as another type: floats truncate towards zero, NaN and what does not fit become the least
/// integer, complex numbers lose their imaginary part.
pub fn astype(a: &Array, dtype: Dtype) -> Result<Array> {
    cast(a, dtype)
}

fn cast(a: &Array, dtype: Dtype) -> Result<Array> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    if let Some(folded) = fold(&Primitive::Cast, dtype, &[a]) {
        return Ok(folded);
    }
    Ok(Array::apply(Primitive::Cast, Params::none(), a.shape().into(), dtype, smallvec![a.clone()]))
}

fn joint_shape(a: &Array, b: &Array) -> Result<Shape> {
    if a.shape() == b.shape() || b.ndim() == 0 {
        return Ok(a.shape().into());
    }
    broadcast_shapes(a.shape(), b.shape())
}

/// The result at once, where the host knows all operands: `step + 1` makes no node, so that a counter which
/// nobody evaluates leaves no chain behind.
fn fold(op: &Primitive, out: Dtype, operands: &[&Array]) -> Option<Array> {
    let mut scalars: smallvec::SmallVec<[Scalar; 3]> = smallvec![];
    for a in operands {
        scalars.push(a.known_scalar()?);
    }
    let value = backend::backend(Device::CPU).ok()?.fold(op, out, &scalars)?;
    stats::FOLDED.add(1);
    Some(Array::scalar(value))
}

/// Limits to `[low, high]`; at least one bound must be given. Where low > high the result is high.
pub fn clip(a: &Array, low: Option<&Array>, high: Option<&Array>) -> Result<Array> {
    let mut x = a.clone();
    if low.is_none() && high.is_none() {
        return Err(Error::invalid("clip", "At most one of a_min and a_max may be None."));
    }
    if let Some(low) = low {
        x = maximum(&x, low)?;
    }
    if let Some(high) = high {
        x = minimum(&x, high)?;
    }
    Ok(x)
}

/// Rounds to `decimals` places, halves to even.
pub fn round_to(a: &Array, decimals: i32) -> Result<Array> {
    if decimals == 0 {
        return round(a);
    }
    if a.dtype().is_integer() && decimals > 0 {
        return Ok(a.clone());
    }
    let dtype = a.dtype();
    let scale = Array::from_f64(10f64.powi(decimals.abs()), dtype.to_inexact());
    let scaled = if decimals > 0 { multiply(a, &scale)? } else { divide(a, &scale)? };
    let rounded = round(&scaled)?;
    let back = if decimals > 0 { divide(&rounded, &scale)? } else { multiply(&rounded, &scale)? };
    cast(&back, dtype)
}

/// Quotient and remainder, both floored.
pub fn divmod(a: &Array, b: &Array) -> Result<(Array, Array)> {
    Ok((floor_divide(a, b)?, remainder(a, b)?))
}

/// `|a - b| <= atol + rtol * |b|`; equal infinities are close, NaNs only with `equal_nan`.
pub fn isclose(a: &Array, b: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
    let dtype = a.dtype().promote(b.dtype()).to_inexact();
    let (a, b) = (cast(a, dtype)?, cast(b, dtype)?);
    let bound = add(&weak(atol, dtype), &multiply(&weak(rtol, dtype), &abs(&b)?)?)?;
    let near = less_equal(&abs(&subtract(&a, &b)?)?, &bound)?;
    let infinite = logical_or(&isinf(&a)?, &isinf(&b)?)?;
    let near = select(&infinite, &equal(&a, &b)?, &near)?;
    if equal_nan {
        return logical_or(&near, &logical_and(&isnan(&a)?, &isnan(&b)?)?);
    }
    Ok(near)
}
