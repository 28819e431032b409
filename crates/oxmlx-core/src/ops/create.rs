//! Arrays from nothing: constants, ranges, masks.

use crate::array::{Array, Inputs, checked_size};
use crate::ops;
use crate::primitive::{Op, Params, Primitive};
use oxmlx_types::{Dtype, Error, Result, Scalar};

/// An array of `shape` with `value` everywhere; `value` broadcasts.
pub fn full(shape: &[usize], value: &Array, dtype: Dtype) -> Result<Array> {
    checked_size(shape, dtype)?;
    ops::broadcast_to(&ops::astype(value, dtype)?, shape)
}

/// An array like another with `value` everywhere.
pub fn full_like(a: &Array, value: &Array, dtype: Dtype) -> Result<Array> {
    full(a.shape(), value, dtype)
}

/// Zeros.
pub fn zeros(shape: &[usize], dtype: Dtype) -> Result<Array> {
    full(shape, &Array::scalar(Scalar::from_i64(0, dtype)), dtype)
}

/// Ones.
pub fn ones(shape: &[usize], dtype: Dtype) -> Result<Array> {
    full(shape, &Array::scalar(Scalar::from_i64(1, dtype)), dtype)
}

/// Zeros in the shape and dtype of another array.
pub fn zeros_like(a: &Array) -> Result<Array> {
    zeros(a.shape(), a.dtype())
}

/// Ones in the shape and dtype of another array.
pub fn ones_like(a: &Array) -> Result<Array> {
    ones(a.shape(), a.dtype())
}

/// `start, start + step, …` up to but without `stop`.
///
/// # Errors
/// InvalidArgument for a step of 0, NaN, a length that no memory holds, and bool.
pub fn arange(start: f64, stop: f64, step: f64, dtype: Dtype) -> Result<Array> {
    let refuse = |m: String| Err(Error::invalid("arange", m));
    if dtype == Dtype::Bool {
        return refuse("bool is not a type that a range can have.".into());
    }
    if start.is_nan() || stop.is_nan() || step.is_nan() {
        return refuse("Cannot compute a length: an argument is NaN.".into());
    }
    if step == 0.0 {
        return refuse("The step must not be 0.".into());
    }
    if start.is_infinite() || stop.is_infinite() {
        return refuse("Cannot compute a length: start and stop must be finite.".into());
    }
    // Integer ranges count with truncated bounds, as their elements are integers.
    let (start, stop, step) = if dtype.is_integer() && step.abs() >= 1.0 {
        (start.trunc(), stop.trunc(), step.trunc())
    } else {
        (start, stop, step)
    };
    let length = ((stop - start) / step).ceil().max(0.0);
    if length > i32::MAX as f64 * 1024.0 {
        return refuse("Maximum size exceeded.".into());
    }
    let word = |v: f64| if dtype.is_integer() { v as i64 as u64 } else { v.to_bits() };
    let shape = smallvec::smallvec![length as usize];
    Ok(Array::apply(
        Primitive::Op(Op::Arange),
        Params::values([word(start), word(step)]),
        shape,
        dtype,
        Inputs::new(),
    ))
}

/// `num` evenly spaced values from `start` to `stop`, both included.
pub fn linspace(start: f64, stop: f64, num: i64, dtype: Dtype) -> Result<Array> {
    if num < 0 {
        return Err(Error::invalid(
            "linspace",
            format!("The number of samples, {num}, must not be negative."),
        ));
    }
    if num == 1 {
        return full(&[1], &Array::from_f64(start, dtype), dtype);
    }
    let t = ops::divide(
        &arange(0.0, num as f64, 1.0, Dtype::Float32)?,
        &Array::from_f64((num - 1) as f64, Dtype::Float32),
    )?;
    let low = ops::multiply(
        &ops::subtract(&ops::weak(1.0, Dtype::Float32), &t)?,
        &ops::weak(start, Dtype::Float32),
    )?;
    let x = ops::add(&low, &ops::multiply(&t, &ops::weak(stop, Dtype::Float32))?)?;
    ops::astype(&x, dtype)
}

/// Ones where `column - row == k` (or `<= k` for `lower`).
fn band(n: usize, m: usize, k: i64, lower: bool, dtype: Dtype) -> Result<Array> {
    // Diagonals further out look like the first ones outside.
    let k = k.clamp(-(n as i64) - 1, m as i64 + 1);
    let rows = ops::reshape(&arange(0.0, n as f64, 1.0, Dtype::Int64)?, &[n as i64, 1])?;
    let columns = arange(-k as f64, m as f64 - k as f64, 1.0, Dtype::Int64)?;
    let mask = if lower { ops::greater_equal(&rows, &columns)? } else { ops::equal(&rows, &columns)? };
    ops::astype(&mask, dtype)
}

/// An `n` by `m` matrix with ones on the k-th diagonal.
pub fn eye(n: usize, m: usize, k: i64, dtype: Dtype) -> Result<Array> {
    band(n, m, k, false, dtype)
}

/// An `n` by `m` matrix with ones at and below the k-th diagonal.
pub fn tri(n: usize, m: usize, k: i64, dtype: Dtype) -> Result<Array> {
    band(n, m, k, true, dtype)
}

/// The part at and below the k-th diagonal of each matrix; zeros elsewhere.
pub fn tril(a: &Array, k: i64) -> Result<Array> {
    triangle("tril", a, k, false)
}

/// The part at and above the k-th diagonal of each matrix; zeros elsewhere.
pub fn triu(a: &Array, k: i64) -> Result<Array> {
    triangle("triu", a, k.saturating_sub(1), true)
}

fn triangle(op: &'static str, a: &Array, k: i64, upper: bool) -> Result<Array> {
    if a.ndim() < 2 {
        return Err(Error::invalid(
            op,
            format!("The array must have 2 dimensions at least, not {}.", a.ndim()),
        ));
    }
    let (n, m) = (a.shape()[a.ndim() - 2], a.shape()[a.ndim() - 1]);
    let mask = tri(n, m, k.clamp(-(1 << 40), 1 << 40), Dtype::Bool)?;
    let zero = Array::scalar(Scalar::from_i64(0, a.dtype()));
    if upper { ops::select(&mask, &zero, a) } else { ops::select(&mask, a, &zero) }
}
