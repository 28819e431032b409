//! Normalisations along the last axes, as composites: the planner makes one kernel of each.

use crate::array::Array;
use crate::ops;
use oxmlx_types::{Dtype, Error, Result};

/// What a half type is computed in.
fn wide(a: &Array) -> Result<Array> {
    let d = a.dtype().to_inexact();
    ops::astype(a, if matches!(d, Dtype::Float16 | Dtype::Bfloat16) { Dtype::Float32 } else { d })
}

/// `exp(a) / sum(exp(a))` over axes, shifted by the maximum; half types are computed in float32.
pub fn softmax(a: &Array, axes: Option<&[i64]>) -> Result<Array> {
    let out = a.dtype().to_inexact();
    if a.size() == 0 {
        return ops::astype(a, out);
    }
    let x = wide(a)?;
    let shift = ops::stop_gradient(&ops::max(&x, axes, true)?)?;
    let e = ops::exp(&ops::subtract(&x, &shift)?)?;
    ops::astype(&ops::divide(&e, &ops::sum(&e, axes, true)?)?, out)
}

/// `log(sum(exp(a)))` over axes, without overflow.
pub fn logsumexp(a: &Array, axes: Option<&[i64]>, keepdims: bool) -> Result<Array> {
    let out = a.dtype().to_inexact();
    let x = wide(a)?;
    let top = ops::max(&x, axes, true)?;
    // An infinite maximum is the result itself; inf - inf would be NaN.
    let zero = Array::from_f64(0.0, x.dtype());
    let infinite = if x.dtype() == Dtype::Complex64 { None } else { Some(ops::isinf(&top)?) };
    let shift = match &infinite {
        Some(i) => ops::select(i, &zero, &top)?,
        None => top,
    };
    let shift = ops::stop_gradient(&shift)?;
    let total = ops::sum(&ops::exp(&ops::subtract(&x, &shift)?)?, axes, true)?;
    let y = ops::astype(&ops::add(&ops::log(&total)?, &shift)?, out)?;
    if keepdims {
        return Ok(y);
    }
    match axes {
        Some(axes) => ops::squeeze(&y, Some(axes)),
        None => ops::reshape(&y, &[]),
    }
}

fn check(op: &'static str, x: &Array, what: &str, p: Option<&Array>) -> Result<()> {
    if x.ndim() == 0 {
        return Err(Error::invalid(
            op,
            "Input must have at least 1 dimension but got input with 0 dimensions.",
        ));
    }
    let Some(p) = p else { return Ok(()) };
    if p.ndim() != 1 || p.size() != x.shape()[x.ndim() - 1] {
        let message = format!(
            "({what}) must have 1 dimension with the size of the last dimension of the input, {}, but has shape {}.",
            x.shape()[x.ndim() - 1],
            oxmlx_types::format_shape(p.shape())
        );
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias` over the last axis (Ba, Kiros, Hinton 2016).
pub fn layer_norm(x: &Array, weight: Option<&Array>, bias: Option<&Array>, eps: f64) -> Result<Array> {
    check("layer_norm", x, "weight", weight)?;
    check("layer_norm", x, "bias", bias)?;
    let out = [weight, bias].into_iter().flatten().fold(x.dtype(), |d, p| d.promote(p.dtype()));
    let x = wide(x)?;
    let centred = ops::subtract(&x, &ops::mean(&x, Some(&[-1]), true)?)?;
    let variance = ops::mean(&ops::square(&centred)?, Some(&[-1]), true)?;
    let scale = ops::rsqrt(&ops::add(&variance, &ops::weak(eps, x.dtype()))?)?;
    affine(&ops::multiply(&centred, &scale)?, weight, bias, out)
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang, Sennrich 2019).
pub fn rms_norm(x: &Array, weight: Option<&Array>, eps: f64) -> Result<Array> {
    check("rms_norm", x, "weight", weight)?;
    let out = weight.map_or(x.dtype(), |w| x.dtype().promote(w.dtype()));
    let x = wide(x)?;
    let square = ops::mean(&ops::square(&x)?, Some(&[-1]), true)?;
    let scale = ops::rsqrt(&ops::add(&square, &ops::weak(eps, x.dtype()))?)?;
    affine(&ops::multiply(&x, &scale)?, weight, None, out)
}

fn affine(x: &Array, weight: Option<&Array>, bias: Option<&Array>, out: Dtype) -> Result<Array> {
    let mut y = x.clone();
    if let Some(w) = weight {
        y = ops::multiply(&y, w)?;
    }
    if let Some(b) = bias {
        y = ops::add(&y, b)?;
    }
    ops::astype(&y, out)
}
