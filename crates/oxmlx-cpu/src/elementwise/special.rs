//! Float64 functions that the standard library lacks, or has less accurately than the C library.

mod sys {
    unsafe extern "C" {
        pub safe fn erf(x: f64) -> f64;
        pub safe fn asinh(x: f64) -> f64;
        pub safe fn acosh(x: f64) -> f64;
    }
}

/// The error function, from the C library.
pub(crate) fn erf(x: f64) -> f64 {
    sys::erf(x)
}

/// Inverse hyperbolic sine, from the C library.
pub(crate) fn asinh(x: f64) -> f64 {
    sys::asinh(x)
}

/// Inverse hyperbolic cosine, from the C library.
pub(crate) fn acosh(x: f64) -> f64 {
    sys::acosh(x)
}

/// Inverse of the error function: the float32 answer, refined twice.
pub(crate) fn erfinv(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if x.abs() < 1e-30 {
        return x / std::f64::consts::FRAC_2_SQRT_PI;
    }
    // Nearer to 1 than float32 can say: the tail's leading behaviour starts the iteration.
    let start = crate::simd::math_f32::erfinv(x as f32) as f64;
    let l = -((1.0 - x.abs()) * (1.0 + x.abs())).ln();
    let mut y =
        if start.is_finite() && l < 14.0 { start } else { (l - 0.5 * (l * 3.2).ln()).sqrt().copysign(x) };
    for _ in 0..4 {
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
        let e = (erf(y) - x) / slope;
        y -= e / (1.0 + y * e);
    }
    y
}

/// The logistic function.
pub(crate) fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// log(exp(a) + exp(b)).
pub(crate) fn logaddexp(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let (hi, lo) = if a > b { (a, b) } else { (b, a) };
    if hi.is_infinite() { hi } else { hi + (lo - hi).exp().ln_1p() }
}
