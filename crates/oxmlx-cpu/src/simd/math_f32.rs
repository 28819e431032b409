//! Elementary functions of float32, written so that loops over them vectorise.
//!
//! No branches, no tables, no library calls: each is a reduction to a short interval, a polynomial and a
//! reconstruction, within two units in the last place. Every fused multiply-add is explicit, so that the
//! bits are the same for each instruction set.

use super::wide;

const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer.
const LOG2E: f32 = std::f32::consts::LOG2_E;
// ln 2 in two parts; products of the first with small integers are exact.
const LN2_HI: f32 = 0.693_359_4;
const LN2_LO: f32 = -2.121_944_4e-4;

/// Horner's rule, lowest coefficient first, with fused steps.
#[inline(always)]
fn poly<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut y = c[N - 1];
    for i in (0..N - 1).rev() {
        y = y.mul_add(x, c[i]);
    }
    y
}

#[inline(always)]
fn clamp(x: f32, lo: f32, hi: f32) -> f32 {
    // Not f32::clamp: NaN has to pass, and in vector registers.
    if x > hi {
        hi
    } else if x < lo {
        lo
    } else {
        x
    }
}

/// (k + magic, e^r - 1) with x = k ln 2 + r.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, f32) {
    let k = x.mul_add(LOG2E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-LN2_LO, n.mul_add(-LN2_HI, x));
    let q = poly(r, [0.49999994, 0.1666652, 0.041668396, 0.0083687855, 0.0013814413]);
    (k, (r * r).mul_add(q, r))
}

/// 2^k from k + magic, for k within the normal range.
#[inline(always)]
fn power_of_two(k: f32) -> f32 {
    f32::from_bits(k.to_bits().wrapping_add(127) << 23)
}

/// e^x where the result is a normal number.
#[inline(always)]
fn exp_normal(x: f32) -> f32 {
    let (k, t) = exp_parts(x);
    (t + 1.0) * power_of_two(k)
}

/// e^x.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let (k, t) = exp_parts(clamp(x, -104.5, 89.5));
    // Two factors, as 2^k itself may be beyond the normal range; only the last product rounds.
    let k = (k.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let half = k >> 1;
    let scale = |k: i32| f32::from_bits((k.wrapping_add(127) << 23) as u32);
    (t + 1.0) * scale(half) * scale(k.wrapping_sub(half))
}

/// e^x - 1.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (k, t) = exp_parts(clamp(x, -18.0, 88.9));
    // Half of 2^k, as 2^128 is not a number.
    let half = 0.5 * power_of_two(k.min(MAGIC + 127.0));
    let over = if k > MAGIC + 127.0 { 4.0 } else { 2.0 };
    let y = half.mul_add(t, half - if k > MAGIC + 127.0 { 0.25 } else { 0.5 }) * over;
    // The tiny ones, and the sign of zero.
    if x.abs() < 1e-10 { x } else { y }
}

/// Natural logarithm.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let u = if tiny { x * 8_388_608.0 } else { x };
    let bits = u.to_bits() as i32;
    // The exponent that leaves a mantissa in [2/3, 4/3).
    let e = bits.wrapping_sub(0x3f2a_aaab) & 0xff80_0000u32 as i32;
    let f = f32::from_bits(bits.wrapping_sub(e) as u32) - 1.0;
    let n = (e >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let q = poly(
        f,
        [
            -0.5,
            0.3333321,
            -0.24999718,
            0.2001075,
            -0.16682248,
            0.14001131,
            -0.12167915,
            0.1400489,
            -0.12945764,
        ],
    );
    let y = n.mul_add(std::f32::consts::LN_2, (f * f).mul_add(q, f));
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f32::NAN }
}

/// t / (t + 2) for t from 0 to 2^30. A division holds up the vector units for as long as some thirty multiply-adds
/// take; Newton's method from the exponent-flipping guess, with a last step on the quotient, takes nine
/// instructions. The last step measures what is left of t without the rounding of t + 2.
#[inline(always)]
fn over_itself_plus_two(t: f32) -> f32 {
    let d = t + 2.0;
    let mut r = f32::from_bits(0x7ef3_11c7u32.wrapping_sub(d.to_bits()));
    for _ in 0..2 {
        r = r.mul_add((-d).mul_add(r, 1.0), r);
    }
    let q = t * r;
    q.mul_add(-2.0, (-q).mul_add(t, t)).mul_add(r, q)
}

/// Hyperbolic tangent: t / (t + 2) with t = e^2|x| - 1, which keeps its accuracy from tiny x to saturation.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    // NaN is not above anything and stays itself all the way.
    let a = if a > 9.5 { 9.5 } else { a };
    let k = a.mul_add(2.0 * LOG2E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-0.5 * LN2_LO, n.mul_add(-0.5 * LN2_HI, a));
    // (e^2r - 1) / 2, with the coefficients of `exp_parts` scaled by powers of two.
    let q = poly(
        r,
        [2.0 * 0.49999994, 4.0 * 0.1666652, 8.0 * 0.041668396, 16.0 * 0.0083687855, 32.0 * 0.0013814413],
    );
    let h = (r * r).mul_add(q, r);
    let twice = f32::from_bits(k.to_bits().wrapping_add(128) << 23);
    let t = twice.mul_add(h, twice.mul_add(0.5, -1.0));
    over_itself_plus_two(t).copysign(x)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-x.abs());
    let d = 1.0 + e;
    let q = (if x < 0.0 { e } else { 1.0 }) / d;
    // What the sum has lost, to first order; 1 / d is q or 1 - q.
    let lost = e - (d - 1.0);
    let y = (-q).mul_add(lost * if x < 0.0 { 1.0 - q } else { q }, q);
    if x.is_nan() { x } else { y }
}

/// The error function.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    let small = a.mul_add(
        poly(z, [0.12837917, -0.37612635, 0.11283694, -0.02685927, 0.005200633, -0.0008137421, 8.34516e-05]),
        a,
    );
    let t = if a > 3.925 { 3.925 } else { a };
    let l = poly(
        t,
        [
            9.11e-05,
            -1.1290097,
            -0.63467747,
            -0.106277585,
            0.023223354,
            -0.0030006934,
            -3.6116533e-05,
            9.766389e-05,
            -1.7057704e-05,
            1.0617065e-06,
        ],
    );
    let large = 1.0 - exp_normal(l);
    let large = if a >= 3.925 { 1.0 } else { large };
    let y = (if a < 0.925 { small } else { large }).copysign(x);
    if x.is_nan() { x } else { y }
}

/// Arguments beyond which sine, cosine and tangent need an exact reduction (and infinities).
#[inline(always)]
pub fn is_huge(x: f32) -> bool {
    x.abs() >= 5e8
}

#[inline(always)]
fn sin_or_cos(x: f32, shift: u32) -> f32 {
    let (q, r) = wide::quadrant(x as f64);
    let q = q.wrapping_add(shift);
    let r = r as f32;
    let z = r * r;
    let s = (r * z).mul_add(poly(z, [-0.16666667, 0.008333329, -0.0001983933, 2.7182723e-06]), r);
    let c = (z * z).mul_add(poly(z, [0.041666646, -0.0013887364, 2.4438046e-05]), (-0.5f32).mul_add(z, 1.0));
    let y = if q & 1 == 0 { s } else { c };
    f32::from_bits(y.to_bits() ^ ((q & 2) << 30))
}

/// Sine; `is_huge` arguments go to [`sin_huge`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let y = sin_or_cos(x, 0);
    if x == 0.0 { x } else { y }
}

/// Cosine; `is_huge` arguments go to [`cos_huge`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    sin_or_cos(x, 1)
}

/// Sine by the library's exact reduction.
#[inline(never)]
pub fn sin_huge(x: f32) -> f32 {
    (x as f64).sin() as f32
}

/// Cosine by the library's exact reduction.
#[inline(never)]
pub fn cos_huge(x: f32) -> f32 {
    (x as f64).cos() as f32
}

/// Tangent by the library's exact reduction.
#[inline(never)]
pub fn tan_huge(x: f32) -> f32 {
    (x as f64).tan() as f32
}

pub use wide::{
    acos, acosh, asin, asinh, atan, atan2, atanh, cosh, erfinv, is_far, log1p, log2, log10, logaddexp, pow,
    rem, sinh, tan,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error over bit patterns spread over all floats, in units of the exact result's last place.
    fn check(name: &str, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, limit: f64) {
        let mut worst = (0.0, 0.0f32);
        let special =
            [0.0, f32::INFINITY, f32::NAN, 1.0, 1e-45, f32::MIN_POSITIVE, f32::MAX, 88.72284, 0.5, 2.0];
        let dense = (0..4_000_000u32).map(|i| (i as f32 - 2e6) * 6e-6);
        let all = (0..u32::MAX / 977).map(|i| f32::from_bits(i * 977)).chain(dense);
        for x in special.iter().flat_map(|&x| [x, -x]).chain(all) {
            let (y, t) = (f(x), exact(x as f64));
            let r = t as f32;
            if r.is_nan() || r.is_infinite() || r == 0.0 {
                let same = y.is_nan() && r.is_nan() || y == r && y.is_sign_negative() == r.is_sign_negative();
                // Half a unit at the edge of infinity or zero is no error.
                let edge = r.is_infinite() && y.abs() == f32::MAX || r == 0.0 && y.abs() <= 1e-45;
                assert!(same || edge, "{name}({x:e}) = {y:e}, not {r:e}");
                continue;
            }
            let ulp = (f32::from_bits(r.abs().to_bits() + 1) as f64 - r.abs() as f64).min(2f64.powi(104));
            let e = (y as f64 - t).abs() / ulp;
            assert!(e <= limit, "{name}({x:e}) = {y:e}, not {t:e}: {e} ulp");
            if e > worst.0 {
                worst = (e, x);
            }
        }
        println!("{name}: {:.3} ulp at {:e}", worst.0, worst.1);
    }

    #[test]
    fn within_two_units() {
        check("exp", exp, f64::exp, 2.0);
        check("expm1", expm1, f64::exp_m1, 2.0);
        check("log", log, f64::ln, 2.0);
        check("log1p", log1p, f64::ln_1p, 1.0);
        check("log2", log2, f64::log2, 1.0);
        check("log10", log10, f64::log10, 1.0);
        check("tanh", tanh, f64::tanh, 2.0);
        check(
            "sigmoid",
            sigmoid,
            |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) },
            2.0,
        );
        check("sinh", sinh, f64::sinh, 1.0);
        check("cosh", cosh, f64::cosh, 1.0);
        check("asin", asin, f64::asin, 1.0);
        check("acos", acos, f64::acos, 1.0);
        check("atan", atan, f64::atan, 1.0);
        check("asinh", asinh, wide_asinh, 1.0);
        check("acosh", acosh, |x| if x < 1.0 { f64::NAN } else { wide_acosh(x) }, 1.0);
        check("atanh", atanh, f64::atanh, 1.0);
        check("sin", |x| if is_huge(x) { sin_huge(x) } else { sin(x) }, f64::sin, 2.0);
        check("cos", |x| if is_huge(x) { cos_huge(x) } else { cos(x) }, f64::cos, 2.0);
        check("tan", |x| if is_huge(x) { tan_huge(x) } else { tan(x) }, f64::tan, 1.0);
        check("erf", erf, erf64, 2.0);
    }

    fn wide_asinh(x: f64) -> f64 {
        let a = x.abs();
        if x.is_infinite() {
            return x;
        }
        (a + a * a / (1.0 + (a * a + 1.0).sqrt())).ln_1p().copysign(x)
    }

    fn wide_acosh(x: f64) -> f64 {
        let t = x - 1.0;
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }

    fn erf64(x: f64) -> f64 {
        crate::elementwise::special::erf(x)
    }

    #[test]
    fn inverse_of_erf() {
        for i in -99_999..100_000 {
            let x = i as f32 / 100_000.0;
            let (y, e) = (erfinv(x) as f64, x as f64);
            // The exact inverse is y + (e - erf y) / erf'(y), to first order.
            let slope = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
            let error = (e - erf64(y)) / slope / y.abs().max(1e-30) * 2f64.powi(23);
            assert!(error.abs() <= 2.0, "erfinv({x}) = {y}: {error} ulp");
        }
        assert_eq!((erfinv(1.0), erfinv(-1.0), erfinv(0.0)), (f32::INFINITY, f32::NEG_INFINITY, 0.0));
        assert!(erfinv(1.5).is_nan() && erfinv(f32::NAN).is_nan());
    }

    #[test]
    fn powers() {
        let values = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            3.0,
            -3.0,
            1e-45,
            1e38,
            -1e38,
            8388609.0,
            -8388609.0,
            16777216.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1.0000001,
            0.99999994,
            127.5,
            -149.0,
            1.0 / 3.0,
        ];
        let dense: Vec<f32> = (1..400).map(|i| i as f32 * 0.137).collect();
        for &x in values.iter().chain(&dense) {
            for &y in values.iter().chain(&dense) {
                let (p, t) = (pow(x, y), (x as f64).powf(y as f64) as f32);
                let close = p.to_bits().abs_diff(t.to_bits()) <= 1;
                assert!(p.is_nan() && t.is_nan() || close, "pow({x:e}, {y:e}) = {p:e}, not {t:e}");
                let (q, u) = (atan2(x, y), (x as f64).atan2(y as f64) as f32);
                let close = q.to_bits().abs_diff(u.to_bits()) <= 1;
                assert!(q.is_nan() && u.is_nan() || close, "atan2({x:e}, {y:e}) = {q:e}, not {u:e}");
            }
        }
    }

    #[test]
    fn remainders() {
        let mut seed = 5u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            f32::from_bits((seed >> 32) as u32)
        };
        for i in 0..2_000_000 {
            let a = next();
            // Exact multiples and their neighbours, too.
            let b = if i % 2 == 0 { next() } else { a / (i % 1000) as f32 };
            if !is_far(a, b) {
                let (r, t) = (rem(a, b), a % b);
                assert!(
                    r.to_bits() == t.to_bits() || r.is_nan() && t.is_nan(),
                    "{a:e} % {b:e} = {r:e}, not {t:e}"
                );
            }
        }
    }

    #[test]
    fn sums_of_exponentials() {
        assert_eq!(logaddexp(f32::NEG_INFINITY, f32::NEG_INFINITY), f32::NEG_INFINITY);
        assert_eq!(logaddexp(f32::INFINITY, 1.0), f32::INFINITY);
        assert_eq!(logaddexp(1000.0, 1000.0), (1000.0 + 2f64.ln()) as f32);
        assert_eq!(logaddexp(-3.0, f32::NEG_INFINITY), -3.0);
        assert!(logaddexp(f32::NAN, 1.0).is_nan());
    }
}
