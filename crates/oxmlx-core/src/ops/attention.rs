//! Attention and rotary positions, as composites.

use crate::array::Array;
use crate::ops;
use crate::ops::shape::reshape_to;
use oxmlx_types::{Dtype, Error, Result, Scalar, format_shape};
use smallvec::smallvec;

/// Which keys a query may look at.
pub enum SdpaMask<'a> {
    /// All.
    None,
    /// Those not after it, the last query standing at the last key.
    Causal,
    /// A bool array (true: look) or one that is added to the scores; broadcasts to `[B, H, Lq, Lk]`.
    Array(&'a Array),
}

/// `softmax(scale * q k^T + mask) v` for q `[B, H, Lq, D]`, k and v `[B, K, Lk, D]` with K dividing H
/// (Vaswani et al. 2017; grouped heads, Ainslie et al. 2023). The softmax is computed in float32 for half
/// types.
pub fn scaled_dot_product_attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f64,
    mask: SdpaMask<'_>,
) -> Result<Array> {
    let refuse = |m: String| Err(Error::invalid("scaled_dot_product_attention", m));
    for (name, a) in [("query", q), ("key", k), ("value", v)] {
        if a.ndim() != 4 {
            return refuse(format!(
                "input with shape {} expected to be rank 4 ({name}).",
                format_shape(a.shape())
            ));
        }
    }
    let (b, h, lq, d) = (q.shape()[0], q.shape()[1], q.shape()[2], q.shape()[3]);
    let (kh, lk) = (k.shape()[1], k.shape()[2]);
    if kh == 0 || h % kh != 0 || v.shape()[1] != kh || k.shape()[3] != d || v.shape()[2] != lk {
        let (q, k, v) = (format_shape(q.shape()), format_shape(k.shape()), format_shape(v.shape()));
        return refuse(format!("query {q}, keys {k} and values {v} do not fit each other."));
    }
    let dtype = q.dtype().promote(k.dtype()).promote(v.dtype());
    let q = ops::multiply(&ops::astype(q, dtype)?, &ops::weak(scale, dtype))?;
    let group = |a: &Array, n: usize| -> Result<Array> {
        let a = ops::astype(a, dtype)?;
        let (l, d) = (a.shape()[2], a.shape()[3]);
        Ok(if n == kh && h != kh { reshape_to(&a, smallvec![b, kh, 1, l, d]) } else { a })
    };
    let q = if h == kh { q } else { reshape_to(&q, smallvec![b, kh, h / kh, lq, d]) };
    let (k, v) = (group(k, kh)?, group(v, kh)?);
    let mut scores = ops::matmul(&q, &ops::swapaxes(&k, -1, -2)?)?;
    scores = masked(scores, mask, [b, h, lq, lk], kh)?;
    let out = ops::matmul(&ops::softmax(&scores, Some(&[-1]))?, &v)?;
    let last = v.shape()[v.ndim() - 1];
    Ok(reshape_to(&out, smallvec![b, h, lq, last]))
}

fn masked(scores: Array, mask: SdpaMask<'_>, [b, h, lq, lk]: [usize; 4], kh: usize) -> Result<Array> {
    let mask = match mask {
        SdpaMask::None => return Ok(scores),
        SdpaMask::Causal => ops::tri(lq, lk, lk as i64 - lq as i64, Dtype::Bool)?,
        SdpaMask::Array(m) => {
            let full = ops::broadcast_to(m, &[b, h, lq, lk])?;
            if h == kh { full } else { reshape_to(&full, smallvec![b, kh, h / kh, lq, lk]) }
        }
    };
    if mask.dtype() == Dtype::Bool {
        let low = Array::scalar(Scalar::from_f64(f64::NEG_INFINITY, scores.dtype()));
        ops::select(&mask, &scores, &low)
    } else {
        ops::add(&scores, &ops::astype(&mask, scores.dtype())?)
    }
}

/// Rotary position embedding of the first `dims` features (Su et al. 2021): pairs of features turn by
/// `position * scale * base^(-2i / dims)`. Pairs are neighbours if `traditional`, else halves. `x` is
/// `[.., L, D]`; `offset` is the first position, 0-d or one per leading index.
pub fn rope(
    x: &Array,
    dims: usize,
    traditional: bool,
    base: Option<f64>,
    scale: f64,
    offset: &Array,
    freqs: Option<&Array>,
) -> Result<Array> {
    let refuse = |m: &str| Err(Error::invalid("rope", m));
    if x.ndim() < 3 {
        return refuse("Input must have at least 3 dimensions.");
    }
    let (length, width) = (x.shape()[x.ndim() - 2], x.shape()[x.ndim() - 1]);
    if dims == 0 || !dims.is_multiple_of(2) || dims > width {
        return refuse("The number of dimensions must be even, positive and not above the last axis.");
    }
    let half = dims / 2;
    let inverse = match (freqs, base) {
        (Some(f), _) => ops::reciprocal(&ops::astype(f, Dtype::Float32)?)?,
        (None, Some(base)) => {
            let i = ops::arange(0.0, half as f64, 1.0, Dtype::Float32)?;
            ops::exp(&ops::multiply(&i, &Array::from_f64(-base.ln() / half as f64, Dtype::Float32))?)?
        }
        (None, None) => return refuse("Either base or freqs must be given."),
    };
    let offset = ops::astype(offset, Dtype::Float32)?;
    let offset =
        if offset.ndim() == 0 { offset } else { reshape_to(&offset, smallvec![offset.size(), 1, 1, 1]) };
    let positions = reshape_to(&ops::arange(0.0, length as f64, 1.0, Dtype::Float32)?, smallvec![length, 1]);
    let positions = ops::multiply(&ops::add(&positions, &offset)?, &Array::from_f64(scale, Dtype::Float32))?;
    let angles = ops::multiply(&positions, &inverse)?;
    let (cos, sin) = (ops::cos(&angles)?, ops::sin(&angles)?);
    let parts = ops::split_at(x, &[dims as i64], -1)?;
    let turning = ops::astype(&parts[0], Dtype::Float32)?;
    let (a, b) = if traditional {
        let pairs = ops::unflatten(&turning, -1, &[half as i64, 2])?;
        let halves = ops::split(&pairs, 2, -1)?;
        (ops::squeeze(&halves[0], Some(&[-1]))?, ops::squeeze(&halves[1], Some(&[-1]))?)
    } else {
        let halves = ops::split(&turning, 2, -1)?;
        (halves[0].clone(), halves[1].clone())
    };
    let first = ops::subtract(&ops::multiply(&a, &cos)?, &ops::multiply(&b, &sin)?)?;
    let second = ops::add(&ops::multiply(&a, &sin)?, &ops::multiply(&b, &cos)?)?;
    let turned = if traditional {
        ops::flatten(&ops::stack(&[first, second], -1)?, -2, -1)?
    } else {
        ops::concatenate(&[first, second], -1)?
    };
    let turned = ops::astype(&turned, x.dtype())?;
    if dims == width { Ok(turned) } else { ops::concatenate(&[turned, parts[1].clone()], -1) }
}
