//! Optimisers: MLX's formulas on named parameters.
//!
//! An optimiser keeps a state a parameter, under the parameter's name, and a step counter on the host. Rates
//! and corrections reach the kernels as run-time words, so that a schedule never causes a new plan, and the
//! planner fuses each parameter's whole update into one kernel.
//!
//! ```
//! use oxmlx::nn::{self, Linear, Module, Params, Reduction};
//! use oxmlx::optim::{AdamW, Optimizer, clip_grad_norm, schedule};
//! let mut model = Linear::new(3, 1)?;
//! let mut optimizer = AdamW::new(schedule::cosine_decay(1e-2, 100, 0.0)).weight_decay(0.1);
//! let (x, y) = (nn::normal(&[8, 3])?, nn::normal(&[8, 1])?);
//! let (_, grads) = nn::value_and_grad(&mut model, |m| nn::mse(&m.forward(&x)?, &y, Reduction::Mean))?;
//! let (grads, _norm) = clip_grad_norm(&grads, 1.0)?;
//! optimizer.update(&mut model, &grads)?;
//! assert_eq!(optimizer.steps(), 1);
//! assert!(optimizer.state().contains_key("weight.m"));
//! # Ok::<(), oxmlx::Error>(())
//! ```

mod adam;
pub mod schedule;
mod sgd;

pub use adam::{Adam, AdamW};
pub use schedule::Rate;
pub use sgd::Sgd;

use crate::nn::{Parameters, Params};
use crate::{Array, Dtype, Error, Result, Scalar, ops};

/// Something that moves parameters along their gradients.
pub trait Optimizer {
    /// One step: replaces the parameters that `gradients` names, and advances the state.
    ///
    /// # Errors
    /// InvalidArgument if the model has no parameter of a gradient's name.
    fn update(&mut self, model: &mut dyn Params, gradients: &Parameters) -> Result<()> {
        let before = model.parameters();
        let rate = self.common_mut().advance();
        let mut after = Parameters::new();
        for (name, g) in gradients {
            let p = before.get(name).ok_or_else(|| {
                Error::invalid("update", format!("There is a gradient but no parameter called {name}."))
            })?;
            after.insert(name.clone(), self.step(name, g, p, rate)?);
        }
        model.update(&after)
    }

    /// The new value of one parameter; the state goes where [`Common::slot`] keeps it.
    fn step(&mut self, name: &str, gradient: &Array, parameter: &Array, rate: f64) -> Result<Array>;

    /// What all optimisers have.
    fn common(&self) -> &Common;

    /// The same, to change it.
    fn common_mut(&mut self) -> &mut Common;

    /// Steps taken.
    fn steps(&self) -> u64 {
        self.common().steps
    }

    /// The rate of the next step.
    fn learning_rate(&self) -> f64 {
        self.common().rate.at(self.common().steps)
    }

    /// Everything to save for continuing later, under the names of MLX's state tree: `step`,
    /// `learning_rate`, and `<parameter>.<moment>`.
    fn state(&self) -> Parameters {
        let c = self.common();
        let mut all = c.slots.clone();
        all.insert("step".into(), Array::scalar(Scalar { dtype: Dtype::Uint64, bits: c.steps }));
        all.insert("learning_rate".into(), Array::from_f64(self.learning_rate(), Dtype::Float32));
        all
    }

    /// Continues from a saved state. A rate that is not scheduled becomes the saved one.
    ///
    /// # Errors
    /// InvalidArgument without a step counter; whatever its evaluation raises.
    fn set_state(&mut self, state: &Parameters) -> Result<()> {
        let step = state.get("step").ok_or_else(|| Error::invalid("set_state", "The state has no step."))?;
        let steps = step.item()?.to_i64() as u64;
        let rate = state.get("learning_rate").map(Array::item).transpose()?;
        let c = self.common_mut();
        c.steps = steps;
        if let (Rate::Constant(old), Some(new)) = (&mut c.rate, rate) {
            *old = new.to_f64();
        }
        c.slots = state.clone();
        c.slots.retain(|name, _| name != "step" && name != "learning_rate");
        Ok(())
    }

    /// The arrays of the state: what to evaluate after a step, together with the parameters.
    fn arrays(&self) -> Vec<Array> {
        self.common().slots.values().cloned().collect()
    }
}

/// What all optimisers have: the rate, the step counter and arrays a parameter.
pub struct Common {
    rate: Rate,
    steps: u64,
    slots: Parameters,
}

impl Common {
    /// Before the first step.
    pub fn new(rate: impl Into<Rate>) -> Common {
        Common { rate: rate.into(), steps: 0, slots: Parameters::new() }
    }

    /// Counts a step; returns its rate. A schedule counts from 0, as in MLX.
    fn advance(&mut self) -> f64 {
        let rate = self.rate.at(self.steps);
        self.steps += 1;
        rate
    }

    /// The array called `kind` of a parameter; zeros like `like` at first.
    pub fn slot(&self, name: &str, kind: &str, like: &Array) -> Result<Array> {
        match self.slots.get(&format!("{name}.{kind}")) {
            Some(a) => Ok(a.clone()),
            None => ops::zeros_like(like),
        }
    }

    /// Replaces the array called `kind` of a parameter.
    pub fn set_slot(&mut self, name: &str, kind: &str, to: &Array) {
        self.slots.insert(format!("{name}.{kind}"), to.clone());
    }
}

/// `x * by`, in the dtype of x.
fn scale(x: &Array, by: f64) -> Result<Array> {
    ops::multiply(&ops::weak(by, x.dtype()), x)
}

/// `decay * old + (1 - decay) * new`.
fn running(old: &Array, new: &Array, decay: f64) -> Result<Array> {
    ops::add(&scale(old, decay)?, &scale(new, 1.0 - decay)?)
}

/// Gradients scaled so that their norm, taken over all of them together, is at most `max_norm`, and the norm
/// before (Pascanu et al., 2013).
pub fn clip_grad_norm(gradients: &Parameters, max_norm: f64) -> Result<(Parameters, Array)> {
    let mut total = Array::from_f64(0.0, Dtype::Float32);
    for g in gradients.values() {
        total = ops::add(&total, &ops::sum(&ops::square(g)?, None, false)?)?;
    }
    let norm = ops::sqrt(&total)?;
    let c = |v: f64| ops::weak(v, norm.dtype());
    let factor = ops::minimum(&ops::divide(&c(max_norm), &ops::add(&norm, &c(1e-6))?)?, &c(1.0))?;
    let clipped = gradients.iter().map(|(name, g)| Ok((name.clone(), ops::multiply(g, &factor)?)));
    Ok((clipped.collect::<Result<_>>()?, norm))
}
