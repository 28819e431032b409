//! Complex64 arithmetic.
//!
//! Functions are evaluated in float64 and rounded once, which keeps textbook formulas accurate; what float64
//! itself overflows on is caught where a float32 argument can reach it.

use num_complex::Complex64 as Wide;
use oxmlx_types::Complex;

fn wide(z: Complex) -> Wide {
    Wide::new(z.re as f64, z.im as f64)
}

fn narrow(z: Wide) -> Complex {
    Complex::new(z.re as f32, z.im as f32)
}

macro_rules! by_formula {
    ($($(#[$doc:meta])* $name:ident |$z:ident| $e:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(z: Complex) -> Complex {
            let $z = wide(z);
            narrow($e)
        }
    )*};
}

by_formula! {
    /// e^z.
    exp |z| wide_exp(z);
    /// e^z - 1, accurate near 0.
    expm1 |z| {
        let half = (0.5 * z.im).sin();
        Wide::new(z.re.exp_m1() * z.im.cos() - 2.0 * half * half, wide_exp(z).im)
    };
    /// Principal logarithm.
    log |z| z.ln();
    /// Logarithm to base 2.
    log2 |z| z.ln() / std::f64::consts::LN_2;
    /// Logarithm to base 10.
    log10 |z| z.ln() / std::f64::consts::LN_10;
    /// log(1 + z), accurate near 0.
    log1p |z| Wide::new(0.5 * (2.0 * z.re + z.re * z.re + z.im * z.im).ln_1p(), z.im.atan2(1.0 + z.re));
    /// Principal square root.
    sqrt |z| z.sqrt();
    /// 1 / sqrt(z).
    rsqrt |z| Wide::new(1.0, 0.0) / z.sqrt();
    /// 1 / z.
    reciprocal |z| Wide::new(1.0, 0.0) / z;
    /// Sine.
    sin |z| Wide::new(z.re.sin() * z.im.cosh(), z.re.cos() * z.im.sinh());
    /// Cosine.
    cos |z| Wide::new(z.re.cos() * z.im.cosh(), -z.re.sin() * z.im.sinh());
    /// Tangent: -i tanh(iz).
    tan |z| {
        let t = wide_tanh(Wide::new(-z.im, z.re));
        Wide::new(t.im, -t.re)
    };
    /// Hyperbolic sine.
    sinh |z| Wide::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin());
    /// Hyperbolic cosine.
    cosh |z| Wide::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin());
    /// Hyperbolic tangent.
    tanh |z| wide_tanh(z);
    /// Inverse sine.
    asin |z| z.asin();
    /// Inverse cosine.
    acos |z| z.acos();
    /// Inverse tangent.
    atan |z| z.atan();
    /// Inverse hyperbolic sine.
    asinh |z| z.asinh();
    /// Inverse hyperbolic cosine.
    acosh |z| z.acosh();
    /// Inverse hyperbolic tangent.
    atanh |z| z.atanh();
    /// 1 / (1 + e^-z), from the side on which the exponential is small.
    sigmoid |z| {
        let one = Wide::new(1.0, 0.0);
        if z.re >= 0.0 {
            one / (one + wide_exp(-z))
        } else {
            let e = wide_exp(z);
            e / (one + e)
        }
    };
    /// z / |z|; 0 at 0.
    sign |z| {
        let n = z.norm();
        if n == 0.0 { Wide::new(0.0, 0.0) } else { z / n }
    };
}

/// e^z with a real result for real z, and no NaN from 0 * inf.
fn wide_exp(z: Wide) -> Wide {
    let r = z.re.exp();
    if z.im == 0.0 { Wide::new(r, z.im) } else { Wide::new(r * z.im.cos(), r * z.im.sin()) }
}

fn wide_tanh(z: Wide) -> Wide {
    if z.re.abs() > 300.0 {
        return Wide::new(1f64.copysign(z.re), 0f64.copysign(z.im));
    }
    let (a, b) = (2.0 * z.re, 2.0 * z.im);
    let d = a.cosh() + b.cos();
    Wide::new(a.sinh() / d, b.sin() / d)
}

/// Product, each part rounded as written.
#[inline(always)]
pub(crate) fn mul(a: Complex, b: Complex) -> Complex {
    Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

/// Quotient.
pub(crate) fn div(a: Complex, b: Complex) -> Complex {
    let (a, b) = (wide(a), wide(b));
    if b.im == 0.0 {
        return narrow(Wide::new(a.re / b.re, a.im / b.re));
    }
    narrow(a / b)
}

/// a ** b on the principal branch.
pub(crate) fn pow(a: Complex, b: Complex) -> Complex {
    let (a, b) = (wide(a), wide(b));
    let zero = Wide::new(0.0, 0.0);
    if b == zero {
        return Complex::new(1.0, 0.0);
    }
    if a == zero {
        let y = if b.re > 0.0 { 0.0 } else { f32::NAN };
        return Complex::new(y, y);
    }
    narrow(wide_exp(b * a.ln()))
}

/// log(exp(a) + exp(b)).
pub(crate) fn logaddexp(a: Complex, b: Complex) -> Complex {
    let (hi, lo) = if a.re > b.re { (wide(a), wide(b)) } else { (wide(b), wide(a)) };
    if hi.re == f64::NEG_INFINITY {
        return narrow(hi);
    }
    let e = wide_exp(lo - hi);
    narrow(hi + (Wide::new(1.0, 0.0) + e).ln())
}

/// a < b, by real part and then by imaginary part.
#[inline(always)]
pub(crate) fn less(a: Complex, b: Complex) -> bool {
    a.re < b.re || a.re == b.re && a.im < b.im
}

/// Whether either part is NaN.
#[inline(always)]
pub(crate) fn is_nan(z: Complex) -> bool {
    z.re.is_nan() || z.im.is_nan()
}

/// The larger; the one that is NaN if either is.
#[inline(always)]
pub(crate) fn maximum(a: Complex, b: Complex) -> Complex {
    if is_nan(a) || !is_nan(b) && !less(a, b) { a } else { b }
}

/// The smaller; the one that is NaN if either is.
#[inline(always)]
pub(crate) fn minimum(a: Complex, b: Complex) -> Complex {
    if is_nan(a) || !is_nan(b) && !less(b, a) { a } else { b }
}
