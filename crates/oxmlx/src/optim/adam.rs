//! Adam, and Adam with weight decay that does not pass through the moments.

use super::{Common, Optimizer, Rate, running, scale};
use crate::{Array, Result, ops};

/// `m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`, `p = p - rate m / (sqrt(v) + eps)`.
///
/// With bias correction, m and v are divided by `1 - b^step`; as in MLX it is off unless asked for (Kingma and
/// Ba, 2014).
pub struct Adam {
    common: Common,
    betas: [f64; 2],
    eps: f64,
    bias_correction: bool,
}

impl Adam {
    /// With betas 0.9 and 0.999, eps 1e-8, and no bias correction.
    pub fn new(rate: impl Into<Rate>) -> Adam {
        Adam { common: Common::new(rate), betas: [0.9, 0.999], eps: 1e-8, bias_correction: false }
    }

    /// How slowly the two moments move.
    pub fn betas(mut self, betas: [f64; 2]) -> Adam {
        self.betas = betas;
        self
    }

    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> Adam {
        self.eps = eps;
        self
    }

    /// Whether the moments are corrected for having begun at zero.
    pub fn bias_correction(mut self, on: bool) -> Adam {
        self.bias_correction = on;
        self
    }
}

impl Optimizer for Adam {
    fn step(&mut self, name: &str, gradient: &Array, parameter: &Array, rate: f64) -> Result<Array> {
        let [b1, b2] = self.betas;
        let m = running(&self.common.slot(name, "m", parameter)?, gradient, b1)?;
        let v = running(&self.common.slot(name, "v", parameter)?, &ops::square(gradient)?, b2)?;
        self.common.set_slot(name, "m", &m);
        self.common.set_slot(name, "v", &v);
        let root = ops::sqrt(&v)?;
        let eps = ops::weak(self.eps, root.dtype());
        if !self.bias_correction {
            return ops::subtract(parameter, &ops::divide(&scale(&m, rate)?, &ops::add(&root, &eps)?)?);
        }
        let steps = self.common.steps as f64;
        let (c1, c2) = (rate / (1.0 - b1.powf(steps)), (1.0 - b2.powf(steps)).sqrt().recip());
        ops::subtract(parameter, &ops::divide(&scale(&m, c1)?, &ops::add(&scale(&root, c2)?, &eps)?)?)
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// Adam on parameters that first shrink by `rate * weight_decay` (Loshchilov and Hutter, 2017).
pub struct AdamW {
    adam: Adam,
    weight_decay: f64,
}

impl AdamW {
    /// With weight decay 0.01; the rest is as in [`Adam::new`].
    pub fn new(rate: impl Into<Rate>) -> AdamW {
        AdamW { adam: Adam::new(rate), weight_decay: 0.01 }
    }

    /// The part by which parameters shrink, times the rate, at each step.
    pub fn weight_decay(mut self, weight_decay: f64) -> AdamW {
        self.weight_decay = weight_decay;
        self
    }

    /// How slowly the two moments move.
    pub fn betas(mut self, betas: [f64; 2]) -> AdamW {
        self.adam = self.adam.betas(betas);
        self
    }

    /// Added to the denominator.
    pub fn eps(mut self, eps: f64) -> AdamW {
        self.adam = self.adam.eps(eps);
        self
    }

    /// Whether the moments are corrected for having begun at zero.
    pub fn bias_correction(mut self, on: bool) -> AdamW {
        self.adam = self.adam.bias_correction(on);
        self
    }
}

impl Optimizer for AdamW {
    fn step(&mut self, name: &str, gradient: &Array, parameter: &Array, rate: f64) -> Result<Array> {
        let shrunk = scale(parameter, 1.0 - rate * self.weight_decay)?;
        self.adam.step(name, gradient, &shrunk, rate)
    }

    fn common(&self) -> &Common {
        &self.adam.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.adam.common
    }
}
