//! Float32 functions that are evaluated in float64 and rounded once.
//!
//! Where float32 arithmetic would need double-float tricks to stay within two units in the last place
//! (powers, inverse functions, other bases), float64 polynomials of 1e-10 relative error are shorter, vectorise
//! as well, and leave half a unit of error. All are free of branches.

use std::f64::consts::{FRAC_PI_2, LN_2, LN_10, LOG2_E, PI};

const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52: adding it rounds to an integer.

/// Horner's rule, lowest coefficient first, with fused steps.
#[inline(always)]
pub fn poly<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut y = c[N - 1];
    for i in (0..N - 1).rev() {
        y = y.mul_add(x, c[i]);
    }
    y
}

#[inline(always)]
fn clamp(x: f64, lo: f64, hi: f64) -> f64 {
    // Not f64::clamp: NaN has to pass, and in vector registers.
    if x > hi {
        hi
    } else if x < lo {
        lo
    } else {
        x
    }
}

const EXP: [f64; 9] = [
    0.49999999999998307,
    0.1666666666661105,
    0.04166666666815024,
    0.00833333337112018,
    0.0013888888513585692,
    0.00019841184867682566,
    2.4801933427620186e-05,
    2.7635157676336594e-06,
    2.7476540251834617e-07,
];

/// e^x for |x| up to 300; beyond, results saturate outside float32's range.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let x = clamp(x, -300.0, 300.0);
    let k = x.mul_add(LOG2_E, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-1.9082149292705877e-10, n.mul_add(-0.6931471803691238, x));
    let p = (r * r).mul_add(poly(r, EXP), r) + 1.0;
    p * f64::from_bits(k.to_bits().wrapping_add(1023) << 52)
}

/// 2^x for |x| up to 400; beyond, results saturate outside float32's range.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let x = clamp(x, -400.0, 400.0);
    let k = x + MAGIC;
    let r = (x - (k - MAGIC)) * LN_2;
    let p = (r * r).mul_add(poly(r, EXP), r) + 1.0;
    p * f64::from_bits(k.to_bits().wrapping_add(1023) << 52)
}

/// (exponent, log of mantissa) of 1 + f, given `u = 1 + f` rounded; u positive, normal and finite.
#[inline(always)]
fn log_parts(f: f64, u: f64) -> (f64, f64) {
    let bits = u.to_bits();
    // The exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)).
    let e = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd) & 0xfff0_0000_0000_0000;
    let m = f64::from_bits(bits.wrapping_sub(e));
    // Exponents lie within i32: its conversion is a vector instruction everywhere, i64's is not.
    let n = ((e >> 32) as i32 >> 20) as f64;
    let g = if e == 0 { f } else { m - 1.0 };
    let s = g / (2.0 + g);
    let z = s * s;
    let p = poly(
        z,
        [
            0.33333333333333687,
            0.19999999999696813,
            0.14285714373727462,
            0.11111099007835469,
            0.09091797576864578,
            0.07656608329695401,
            0.07402362776536206,
        ],
    );
    (n, 2.0 * (s * z).mul_add(p, s))
}

/// log(1 + f) for 1 + f in (0, inf); outside, the usual special values.
#[inline(always)]
fn log1p_wide(f: f64) -> f64 {
    let u = 1.0 + f;
    let (n, l) = log_parts(f, u);
    special_log(u, n.mul_add(LN_2, l))
}

/// What a logarithm of u is where `y` isn't.
#[inline(always)]
fn special_log(u: f64, y: f64) -> f64 {
    let y = if u == f64::INFINITY { f64::INFINITY } else { y };
    let y = if u == 0.0 { f64::NEG_INFINITY } else { y };
    if u >= 0.0 { y } else { f64::NAN }
}

/// log(1 + x).
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let y = log1p_wide(x as f64) as f32;
    if x == 0.0 { x } else { y }
}

/// Logarithm to base 2.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    log2_wide(x as f64) as f32
}

#[inline(always)]
fn log2_wide(x: f64) -> f64 {
    let (n, l) = log_parts(x - 1.0, x);
    special_log(x, l.mul_add(LOG2_E, n))
}

/// Logarithm to base 10.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    let x = x as f64;
    let (n, l) = log_parts(x - 1.0, x);
    special_log(x, l.mul_add(1.0 / LN_10, n * (LN_2 / LN_10))) as f32
}

/// x to the power y, with C's special cases.
#[inline(always)]
pub fn pow(x: f32, y: f32) -> f32 {
    let (a, b) = (x.abs() as f64, y as f64);
    let r = exp2(b * log2_wide(a)) as f32;
    // Above 2^24 every float is an even integer.
    let k = b + MAGIC;
    let whole = y.abs() >= 8_388_608.0 || k - MAGIC == b;
    let odd = y.abs() < 16_777_216.0 && k - MAGIC == b && k.to_bits() & 1 == 1;
    let negative = x.is_sign_negative();
    let r = if negative && odd { -r } else { r };
    let r = if x < 0.0 && !whole && x != f32::NEG_INFINITY { f32::NAN } else { r };
    let r = if x == -1.0 && y.abs() == f32::INFINITY { 1.0 } else { r };
    if y == 0.0 || x == 1.0 { 1.0 } else { r }
}

/// log(exp(a) + exp(b)).
#[inline(always)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let (hi, lo) = if a > b { (a, b) } else { (b, a) };
    let y = (hi as f64 + log1p_wide(exp(lo as f64 - hi as f64))) as f32;
    let y = if hi == lo && hi.abs() == f32::INFINITY { hi } else { y };
    if a.is_nan() || b.is_nan() { f32::NAN } else { y }
}

/// Hyperbolic sine.
#[inline(always)]
pub fn sinh(x: f32) -> f32 {
    let x = x as f64;
    let (z, e) = (x * x, exp(x));
    let small = (x * z).mul_add(
        poly(
            z,
            [
                0.1666666666706935,
                0.00833333327632123,
                0.00019841296050874095,
                2.7552063468412696e-06,
                2.552984280958297e-08,
            ],
        ),
        x,
    );
    (if z < 1.0 { small } else { 0.5 * (e - 1.0 / e) }) as f32
}

/// Hyperbolic cosine.
#[inline(always)]
pub fn cosh(x: f32) -> f32 {
    let e = exp(x as f64);
    (0.5 * (e + 1.0 / e)) as f32
}

#[inline(always)]
fn asin_poly(x: f64, z: f64) -> f64 {
    let p = poly(
        z,
        [
            0.16666666666438176,
            0.07500000043460861,
            0.04464282856259639,
            0.030382872350819903,
            0.022354930499329306,
            0.017549147793366696,
            0.0125511235308886,
            0.017933144748213715,
            -0.007342809192478591,
            0.031538999358302504,
        ],
    );
    (x * z).mul_add(p, x)
}

/// (|x| <= 1/2, arcsine of the reduced argument).
#[inline(always)]
fn asin_parts(x: f64) -> (bool, f64) {
    let a = x.abs();
    let small = a <= 0.5;
    let z = if small { x * x } else { 0.5 * (1.0 - a) };
    let t = if small { a } else { z.sqrt() };
    (small, asin_poly(t, z))
}

/// Inverse sine.
#[inline(always)]
pub fn asin(x: f32) -> f32 {
    let w = x as f64;
    let (small, p) = asin_parts(w);
    (if small { p } else { FRAC_PI_2 - 2.0 * p }).copysign(w) as f32
}

/// Inverse cosine.
#[inline(always)]
pub fn acos(x: f32) -> f32 {
    let w = x as f64;
    let (small, p) = asin_parts(w);
    let positive = if small { FRAC_PI_2 - p } else { 2.0 * p };
    (if w < 0.0 { PI - positive } else { positive }) as f32
}

/// Inverse tangent of a in [0, 1].
#[inline(always)]
fn atan_poly(a: f64) -> f64 {
    let z = a * a;
    let p = poly(
        z,
        [
            -0.33333333129797316,
            0.19999985309850699,
            -0.14285342881433624,
            0.11106365037503688,
            -0.09054926164520545,
            0.07515279598568683,
            -0.060684409817492985,
            0.044363014925922595,
            -0.026741856003732734,
            0.011908306811139092,
            -0.0033761913002019277,
            0.0004490210889949066,
        ],
    );
    (a * z).mul_add(p, a)
}

/// Inverse tangent.
#[inline(always)]
pub fn atan(x: f32) -> f32 {
    let w = x as f64;
    let a = w.abs();
    let flip = a > 1.0;
    let p = atan_poly(if flip { 1.0 / a } else { a });
    (if flip { FRAC_PI_2 - p } else { p }).copysign(w) as f32
}

/// Angle of the point (x, y).
#[inline(always)]
pub fn atan2(y: f32, x: f32) -> f32 {
    let (v, u) = (y as f64, x as f64);
    let (b, a) = (v.abs(), u.abs());
    let steep = b > a;
    let (lo, hi) = if steep { (a, b) } else { (b, a) };
    let q = lo / hi;
    let q = if lo == hi { 1.0 } else { q };
    let q = if hi == 0.0 { 0.0 } else { q };
    let p = atan_poly(q);
    let p = if steep { FRAC_PI_2 - p } else { p };
    let p = if x.is_sign_negative() { PI - p } else { p };
    let r = p.copysign(v) as f32;
    if x.is_nan() || y.is_nan() { f32::NAN } else { r }
}

/// Inverse hyperbolic sine.
#[inline(always)]
pub fn asinh(x: f32) -> f32 {
    let w = x as f64;
    let a = w.abs();
    let z = a * a;
    let y = log1p_wide(a + z / (1.0 + (1.0 + z).sqrt()));
    let y = if a == f64::INFINITY { a } else { y };
    y.copysign(w) as f32
}

/// Inverse hyperbolic cosine.
#[inline(always)]
pub fn acosh(x: f32) -> f32 {
    let t = x as f64 - 1.0;
    let y = log1p_wide(t + (2.0 * t + t * t).sqrt()) as f32;
    // Below -1 the root is real again, though the function is not.
    if x < 1.0 { f32::NAN } else { y }
}

/// Inverse hyperbolic tangent.
#[inline(always)]
pub fn atanh(x: f32) -> f32 {
    let a = (x as f64).abs();
    let y = 0.5 * log1p_wide(2.0 * a / (1.0 - a));
    let y = if a <= 1.0 { y } else { f64::NAN };
    y.copysign(x as f64) as f32
}

/// Inverse of the error function.
#[inline(always)]
pub fn erfinv(x: f32) -> f32 {
    let w = x as f64;
    // -log(1 - x^2) spreads the tails out; both halves are exact enough in float64.
    let l = -log1p_wide(-(w * w));
    let v = l - 2.75;
    let centre = poly(
        v,
        [
            1.5627896128153773,
            0.24433025528888755,
            -0.005035991409305493,
            -0.0010385714667937955,
            0.00020909126752623286,
            -9.494490818260905e-06,
            -2.5834458533138883e-06,
            4.858899270540762e-07,
            -4.325046918231427e-09,
            -8.791545381188112e-09,
            6.225455591616228e-10,
            7.893219797909011e-11,
        ],
    );
    let t = l.max(0.0).sqrt() - 3.2;
    let tail = poly(
        t,
        [
            3.0336365733088715,
            1.0046924453149308,
            0.005973267663913748,
            -0.004294255868542338,
            0.0029494113670956025,
            -0.0019922195148374807,
            0.0010858057966212807,
            -0.0003612045631393319,
            -2.9422976416434862e-05,
            0.00010165102813382758,
            -3.565705431772157e-05,
        ],
    );
    let y = (w * if l < 5.5 { centre } else { tail }) as f32;
    let y = if w.abs() == 1.0 { f32::INFINITY.copysign(x) } else { y };
    if w.abs() <= 1.0 { y } else { f32::NAN }
}

/// Remainder of a division truncated towards zero; quotients beyond `is_far` are the library's business.
#[inline(always)]
pub fn rem(a: f32, b: f32) -> f32 {
    let (x, y) = (a as f64, b as f64);
    // The quotient may be rounded up to an integer: one step too far, which the sign tells.
    let r = (-(x / y).trunc()).mul_add(y, x);
    let r = if r * x < 0.0 { r + y.abs().copysign(x) } else { r };
    let r = if y.abs() == f64::INFINITY && x.abs() < f64::INFINITY { x } else { r };
    (r as f32).copysign(a)
}

/// Whether [`rem`] does not know a / b exactly enough.
#[inline(always)]
pub fn is_far(a: f32, b: f32) -> bool {
    a.abs() as f64 >= b.abs() as f64 * 4_503_599_627_370_496.0 && b != 0.0
}

/// Quadrant and remainder of x by pi/2; |x| below 2^30.
#[inline(always)]
pub fn quadrant(x: f64) -> (u32, f64) {
    let k = x.mul_add(1.0 / FRAC_PI_2, MAGIC);
    let n = k - MAGIC;
    let r = n.mul_add(-6.123233995736766e-17, n.mul_add(-FRAC_PI_2, x));
    (k.to_bits() as u32, r)
}

/// Tangent for |x| below 2^30.
#[inline(always)]
pub fn tan(x: f32) -> f32 {
    let (q, r) = quadrant(x as f64);
    let z = r * r;
    let s = (r * z).mul_add(
        poly(
            z,
            [
                -0.16666666666666632,
                0.00833333333332235,
                -0.000198412698297586,
                2.7557313674935755e-06,
                -2.5050755447138024e-08,
                1.589663972780898e-10,
            ],
        ),
        r,
    );
    let c = (z * z).mul_add(
        poly(
            z,
            [
                0.04166666666660188,
                -0.001388888887822648,
                2.480158095066959e-05,
                -2.7555563311671786e-07,
                2.0647491341181948e-09,
            ],
        ),
        (-0.5f64).mul_add(z, 1.0),
    );
    let (num, den) = if q & 1 == 0 { (s, c) } else { (-c, s) };
    let y = (num / den) as f32;
    if x == 0.0 { x } else { y }
}
