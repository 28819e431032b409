//! Activations as functions; the planner fuses them into what stands around them.

use crate::{Array, Result, ops};

pub use ops::{sigmoid, tanh};

/// `max(x, 0)`.
///
/// ```
/// use oxmlx::{Array, Dtype, nn, ops};
/// oxmlx::init();
/// let x = ops::arange(-1.0, 2.0, 1.0, Dtype::Float32)?;
/// assert_eq!(nn::relu(&x)?.to_f64_vec()?, [0.0, 0.0, 1.0]);
/// # Ok::<(), oxmlx::Error>(())
/// ```
pub fn relu(x: &Array) -> Result<Array> {
    ops::maximum(x, &ops::weak_int(0, x.dtype()))
}

/// `x * (1 + erf(x / sqrt(2))) / 2` (Hendrycks and Gimpel, 2016).
pub fn gelu(x: &Array) -> Result<Array> {
    let c = |v: f64| ops::weak(v, x.dtype());
    let erf = ops::erf(&ops::divide(x, &c(std::f64::consts::SQRT_2))?)?;
    ops::divide(&ops::multiply(x, &ops::add(&c(1.0), &erf)?)?, &c(2.0))
}

/// `x * sigmoid(x)` (Elfwing et al., 2017).
pub fn silu(x: &Array) -> Result<Array> {
    ops::multiply(x, &ops::sigmoid(x)?)
}
