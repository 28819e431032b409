//! Random numbers: threefry-2x32 on explicit keys (Salmon et al. 2011), bit for bit as MLX draws them.
//!
//! A key that the host knows is split on the host, at once: a training step then draws its masks from keys
//! that are plain operands, and the global state never becomes a chain of pending nodes.

use crate::array::Array;
use crate::ops;
use crate::primitive::{Op, Params, Primitive};
use crate::transforms::rules::{App, Batched};
use oxmlx_types::{Dtype, Error, Result, Scalar, Shape, format_shape};
use parking_lot::Mutex;
use smallvec::smallvec;

/// Two random words of a key and a counter.
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 0..5 {
        for r in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// The key of a seed.
pub fn key(seed: u64) -> Result<Array> {
    words([(seed >> 32) as u32, seed as u32])
}

fn words(w: [u32; 2]) -> Result<Array> {
    let bytes = [w[0].to_le_bytes(), w[1].to_le_bytes()].concat();
    Array::from_bytes(&bytes, &[2], Dtype::Uint32)
}

/// A key's words, if the host has them already.
fn known(key: &Array) -> Option<[u32; 2]> {
    if key.node.op != Primitive::Data || key.shape() != [2] || key.is_traced() {
        return None;
    }
    let (buffer, layout) = key.host().ok()?;
    let word = |i: isize| {
        let at = (layout.offset as isize + i * layout.strides[0]) as usize;
        crate::read::element(buffer.bytes(), at, Dtype::Uint32).bits as u32
    };
    Some([word(0), word(1)])
}

fn check_key(op: &'static str, key: &Array) -> Result<()> {
    if key.dtype() != Dtype::Uint32 || key.shape() != [2] {
        let message = format!(
            "Expected key of shape (2) and type uint32 but received {} {}.",
            format_shape(key.shape()),
            key.dtype()
        );
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

/// `n` independent keys from one, as rows.
pub fn split(key: &Array, n: i64) -> Result<Array> {
    check_key("split", key)?;
    if n < 1 {
        return Err(Error::invalid("split", format!("A key can't be split into {n}.")));
    }
    bits(&[n as usize, 2], 4, key)
}

/// Two keys from one.
pub fn split_pair(key: &Array) -> Result<(Array, Array)> {
    check_key("split", key)?;
    if let Some(k) = known(key) {
        let (a, b) = (threefry(k, [0, 2]), threefry(k, [1, 3]));
        return Ok((words([a[0], b[0]])?, words([a[1], b[1]])?));
    }
    let both = split(key, 2)?;
    let row = |i: i64| ops::reshape(&ops::slice(&both, &[i, 0], &[i + 1, 2], &[1, 1])?, &[2]);
    Ok((row(0)?, row(1)?))
}

static STATE: Mutex<Option<Array>> = Mutex::new(None);

/// The global key.
pub fn state() -> Result<Array> {
    let mut state = STATE.lock();
    if state.is_none() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        *state = Some(key(now.map_or(0, |d| d.as_nanos() as u64))?);
    }
    state.clone().ok_or_else(|| Error::invalid("random", "no state"))
}

/// Replaces the global key.
pub fn set_state(key: Array) -> Result<()> {
    check_key("random.state", &key)?;
    *STATE.lock() = Some(key);
    Ok(())
}

/// Seeds the global key.
pub fn seed(seed: u64) -> Result<()> {
    set_state(key(seed)?)
}

/// A fresh key from the global one, unless one is given.
pub fn next_key(given: Option<&Array>) -> Result<Array> {
    if let Some(k) = given {
        return Ok(k.clone());
    }
    let (next, mine) = split_pair(&state()?)?;
    *STATE.lock() = Some(next);
    Ok(mine)
}

/// Uniform unsigned integers of 1, 2 or 4 bytes.
pub fn bits(shape: &[usize], width: usize, key: &Array) -> Result<Array> {
    check_key("bits", key)?;
    let dtype = match width {
        1 => Dtype::Uint8,
        2 => Dtype::Uint16,
        4 => Dtype::Uint32,
        _ => {
            return Err(Error::invalid("bits", format!("Bit width must be in {{1, 2, 4}} but got {width}.")));
        }
    };
    crate::array::checked_size(shape, dtype)?;
    let op = Primitive::Op(Op::RandomBits { key_ndim: 0 });
    Ok(Array::apply(op, Params::none(), shape.into(), dtype, smallvec![key.clone()]))
}

/// The greatest value below 1.
fn below_one(d: Dtype) -> f64 {
    match d {
        Dtype::Float16 => 1.0 - 2f64.powi(-11),
        Dtype::Bfloat16 => 1.0 - 2f64.powi(-8),
        _ => 1.0 - 2f64.powi(-24),
    }
}

fn float(op: &'static str, d: Dtype) -> Result<()> {
    if !matches!(d, Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16) {
        let message = format!(
            "Can only generate uniform numbers with a real floating point type of at most 32 bits, not {d}."
        );
        return Err(Error::invalid(op, message));
    }
    Ok(())
}

/// Uniform in `[low, high)`; the bounds broadcast to `shape`.
pub fn uniform(low: &Array, high: &Array, shape: &[usize], dtype: Dtype, key: &Array) -> Result<Array> {
    float("uniform", dtype)?;
    let (low, high) = (ops::astype(low, dtype)?, ops::astype(high, dtype)?);
    let wanted = oxmlx_types::broadcast_shapes(low.shape(), high.shape())?;
    if oxmlx_types::broadcast_shapes(&wanted, shape)?.as_slice() != shape {
        let message = format!(
            "Cannot generate random values of shape {} from broadcasted shape {}.",
            format_shape(shape),
            format_shape(&wanted)
        );
        return Err(Error::invalid("uniform", message));
    }
    let words = ops::astype(&bits(shape, 4, key)?, Dtype::Float32)?;
    let unit = ops::divide(&words, &Array::from_f64(u32::MAX as f64, Dtype::Float32))?;
    let unit = ops::minimum(&unit, &Array::from_f64(below_one(dtype), Dtype::Float32))?;
    let range = ops::subtract(&high, &low)?;
    ops::add(&ops::multiply(&range, &ops::astype(&unit, dtype)?)?, &low)
}

fn span(low: f64, high: f64, shape: &[usize], key: &Array) -> Result<Array> {
    let c = |v: f64| Array::from_f64(v, Dtype::Float32);
    uniform(&c(low), &c(high), shape, Dtype::Float32, key)
}

/// The least float32 above -1.
const ABOVE_MINUS_ONE: f64 = -1.0 + 5.960_464_477_539_063e-8;

/// Normal with mean `loc` and standard deviation `scale`, which broadcast to `shape` (defaults 0 and 1).
pub fn normal(
    shape: &[usize],
    dtype: Dtype,
    loc: Option<&Array>,
    scale: Option<&Array>,
    key: &Array,
) -> Result<Array> {
    let mut out = if dtype == Dtype::Complex64 {
        let mut pairs: Shape = shape.into();
        pairs.push(2);
        let both = ops::erfinv(&span(ABOVE_MINUS_ONE, 1.0, &pairs, key)?)?;
        let parts = ops::split(&both, 2, -1)?;
        let i = Array::scalar(Scalar::from_complex(0.0, 1.0, Dtype::Complex64));
        let [re, im] = [&parts[0], &parts[1]].map(|p| ops::squeeze(p, Some(&[-1])));
        ops::add(&re?, &ops::multiply(&i, &im?)?)?
    } else {
        float("normal", dtype)?;
        let z = ops::astype(&ops::erfinv(&span(ABOVE_MINUS_ONE, 1.0, shape, key)?)?, dtype)?;
        let root = Array::from_f64(std::f64::consts::SQRT_2, dtype);
        let factor = match scale {
            Some(s) => ops::multiply(&ops::astype(s, dtype)?, &root)?,
            None => root,
        };
        ops::multiply(&factor, &z)?
    };
    if dtype == Dtype::Complex64
        && let Some(s) = scale
    {
        out = ops::multiply(&out, &ops::astype(s, dtype)?)?;
    }
    match loc {
        Some(loc) => ops::add(&out, &ops::astype(loc, dtype)?),
        None => Ok(out),
    }
}

/// True with probability `p`, which broadcasts to `shape`.
pub fn bernoulli(p: &Array, shape: &[usize], key: &Array) -> Result<Array> {
    let p = ops::astype(p, Dtype::Float32)?;
    let bound = ops::multiply(&p, &Array::from_f64(4_294_967_808.0, Dtype::Float32))?;
    let hit = ops::less(&bits(shape, 4, key)?, &bound)?;
    if hit.shape() != shape {
        let message = format!(
            "shape {} of probabilities does not broadcast to {}.",
            format_shape(p.shape()),
            format_shape(shape)
        );
        return Err(Error::invalid("bernoulli", message));
    }
    Ok(hit)
}

/// Integers in `[low, high)`; the bounds broadcast to `shape`.
pub fn randint(low: &Array, high: &Array, shape: &[usize], dtype: Dtype, key: &Array) -> Result<Array> {
    if dtype.is_inexact() {
        return Err(Error::invalid("randint", "randint only accepts integer dtypes and bool."));
    }
    let u = uniform(
        &ops::astype(low, Dtype::Float32)?,
        &ops::astype(high, Dtype::Float32)?,
        shape,
        Dtype::Float32,
        key,
    )?;
    let n = ops::astype(&ops::floor(&u)?, Dtype::Int64)?;
    let (low, high) = (ops::astype(low, Dtype::Int64)?, ops::astype(high, Dtype::Int64)?);
    let top = ops::subtract(&high, &ops::weak_int(1, Dtype::Int64))?;
    ops::astype(&ops::maximum(&ops::minimum(&n, &top)?, &low)?, dtype)
}

/// Normal restricted to `[low, high]`.
pub fn truncated_normal(
    low: &Array,
    high: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: &Array,
) -> Result<Array> {
    float("truncated_normal", dtype)?;
    let root = Array::from_f64(std::f64::consts::SQRT_2, Dtype::Float32);
    let (low, high) = (ops::astype(low, Dtype::Float32)?, ops::astype(high, Dtype::Float32)?);
    let edge = |x: &Array| ops::erf(&ops::divide(x, &root)?);
    let u = uniform(&edge(&low)?, &edge(&high)?, shape, Dtype::Float32, key)?;
    let x = ops::multiply(&root, &ops::erfinv(&u)?)?;
    ops::astype(&ops::maximum(&ops::minimum(&x, &high)?, &low)?, dtype)
}

/// Standard Gumbel.
pub fn gumbel(shape: &[usize], dtype: Dtype, key: &Array) -> Result<Array> {
    let u = span(0.0, 1.0, shape, key)?;
    ops::astype(&ops::negative(&ops::log(&ops::negative(&ops::log(&u)?)?)?)?, dtype)
}

/// Laplace with mean `loc` and scale `scale`.
pub fn laplace(shape: &[usize], dtype: Dtype, loc: f64, scale: f64, key: &Array) -> Result<Array> {
    let u = span(ABOVE_MINUS_ONE, 1.0, shape, key)?;
    let x = ops::multiply(&ops::sign(&u)?, &ops::log1p(&ops::negative(&ops::abs(&u)?)?)?)?;
    let x = ops::astype(&x, dtype)?;
    let x = if scale == 1.0 { x } else { ops::multiply(&x, &ops::weak(scale, dtype))? };
    if loc == 0.0 { Ok(x) } else { ops::add(&x, &ops::weak(loc, dtype)) }
}

/// Positions drawn with probabilities softmax(logits) along an axis.
pub fn categorical(logits: &Array, axis: i64, samples: Option<usize>, key: &Array) -> Result<Array> {
    let i = oxmlx_types::normalize_axis("categorical", axis, logits.ndim())?;
    let logits = ops::moveaxis(logits, i as i64, -1)?;
    let n = logits.ndim();
    let (noisy, logits) = match samples {
        None => (logits.shape().to_vec(), logits),
        Some(s) => {
            let mut shape = logits.shape().to_vec();
            shape.insert(n - 1, s);
            (shape, ops::expand_dims(&logits, &[n as i64 - 1])?)
        }
    };
    let noise = gumbel(&noisy, Dtype::Float32, key)?;
    ops::argmax(&ops::add(&noise, &logits)?, Some(-1), false)
}

/// Batched keys draw batched words.
pub(crate) fn vmap(app: &App<'_>, keys: &Batched, size: usize) -> Result<Array> {
    let Primitive::Op(Op::RandomBits { key_ndim }) = app.op else {
        return Err(Error::unsupported("vmap", "not random bits"));
    };
    let mut shape: Shape = smallvec![size];
    shape.extend_from_slice(app.out.shape());
    let op = Primitive::Op(Op::RandomBits { key_ndim: key_ndim + 1 });
    Ok(Array::apply(op, Params::none(), shape, app.out.dtype(), smallvec![keys.array.clone()]))
}

#[cfg(test)]
mod tests {
    use super::threefry;

    #[test]
    fn words_of_key_zero() {
        assert_eq!(threefry([0, 0], [0, 2]), [4146024105, 2718843009]);
        assert_eq!(threefry([0, 0], [1, 3]), [967050713, 1272950319]);
        assert_eq!(threefry([0, 0], [0, 0])[0], 1797259609);
    }
}
