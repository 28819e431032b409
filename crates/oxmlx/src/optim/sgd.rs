//! Gradient descent, with momentum where it is asked for.

use super::{Common, Optimizer, Rate, scale};
use crate::{Array, Result, ops};

/// `v = momentum v + (1 - dampening) g`, `p = p - rate v`; without momentum `p = p - rate g`.
///
/// ```
/// use oxmlx::nn::{Linear, Params, Parameters};
/// use oxmlx::optim::{Optimizer, Sgd};
/// use oxmlx::ops;
/// let mut model = Linear::without_bias(2, 1)?;
/// let before = model.weight.to_f64_vec()?;
/// let grads: Parameters = [("weight".to_string(), ops::ones_like(&model.weight)?)].into();
/// Sgd::new(0.5).update(&mut model, &grads)?;
/// assert!((model.weight.to_f64_vec()?[0] - (before[0] - 0.5)).abs() < 1e-6);
/// # Ok::<(), oxmlx::Error>(())
/// ```
pub struct Sgd {
    common: Common,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl Sgd {
    /// Without momentum and weight decay.
    pub fn new(rate: impl Into<Rate>) -> Sgd {
        Sgd { common: Common::new(rate), momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }

    /// Steps go along a running sum of the gradients.
    pub fn momentum(mut self, momentum: f64) -> Sgd {
        self.momentum = momentum;
        self
    }

    /// How much less a new gradient counts in the running sum.
    pub fn dampening(mut self, dampening: f64) -> Sgd {
        self.dampening = dampening;
        self
    }

    /// This part of the parameter is added to its gradient.
    pub fn weight_decay(mut self, weight_decay: f64) -> Sgd {
        self.weight_decay = weight_decay;
        self
    }

    /// Looks one momentum step ahead; only with momentum and without dampening (Sutskever et al., 2013).
    pub fn nesterov(mut self) -> Sgd {
        self.nesterov = true;
        self
    }
}

impl Optimizer for Sgd {
    fn step(&mut self, name: &str, gradient: &Array, parameter: &Array, rate: f64) -> Result<Array> {
        let mut g = gradient.clone();
        if self.weight_decay != 0.0 {
            g = ops::add(&g, &scale(parameter, self.weight_decay)?)?;
        }
        if self.momentum <= 0.0 {
            return ops::subtract(parameter, &scale(&g, rate)?);
        }
        let old = scale(&self.common.slot(name, "v", parameter)?, self.momentum)?;
        let part = if self.dampening > 0.0 { scale(&g, 1.0 - self.dampening)? } else { g.clone() };
        let v = ops::add(&old, &part)?;
        self.common.set_slot(name, "v", &v);
        let along = if self.nesterov { ops::add(&g, &scale(&v, self.momentum)?)? } else { v };
        ops::subtract(parameter, &scale(&along, rate)?)
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}
