//! Neural networks: layers whose parameters have names, and what training does with these.
//!
//! A model is an ordinary struct. [`params!`](crate::params) says which of its fields are parameters or hold
//! some, and that is all that gradients, optimisers and files need: they see a flat, ordered map from names
//! such as `layers.0.weight` to arrays. The names are those of MLX's modules, so that weights saved by a
//! Python program load here and the other way round.
//!
//! ```
//! use oxmlx::nn::{self, Linear, Module, Params, Reduction};
//! use oxmlx::optim::{Adam, Optimizer};
//! use oxmlx::{Array, Result, ops};
//!
//! struct Mlp {
//!     first: Linear,
//!     second: Linear,
//! }
//! oxmlx::params!(Mlp { first, second });
//!
//! impl Module for Mlp {
//!     fn forward(&self, x: &Array) -> Result<Array> {
//!         self.second.forward(&nn::gelu(&self.first.forward(x)?)?)
//!     }
//! }
//!
//! oxmlx::init();
//! ops::random::seed(0)?;
//! let mut model = Mlp { first: Linear::new(2, 16)?, second: Linear::new(16, 1)? };
//! let mut optimizer = Adam::new(1e-2);
//! let x = nn::normal(&[64, 2])?;
//! let y = ops::sum(&x, Some(&[1]), true)?;
//! let mut first = None;
//! let mut last = 0.0;
//! for _ in 0..50 {
//!     let (loss, grads) = nn::value_and_grad(&mut model, |m| nn::mse(&m.forward(&x)?, &y, Reduction::Mean))?;
//!     optimizer.update(&mut model, &grads)?;
//!     oxmlx::eval(&model.arrays())?;
//!     last = loss.item()?.to_f64();
//!     first.get_or_insert(last);
//! }
//! assert!(last < 0.5 * first.unwrap());
//! # Ok::<(), oxmlx::Error>(())
//! ```

mod activations;
mod layers;
mod losses;
mod params;

pub use activations::{gelu, relu, sigmoid, silu, tanh};
pub use layers::{Conv2d, Dropout, Embedding, Lambda, LayerNorm, Linear, Sequential, max_pool2d};
pub use losses::{Reduction, accuracy, cross_entropy, mse};
pub use params::{Parameters, Params, join};

use crate::{Array, Dtype, Result, ops, transforms};

/// A layer or model with one operand and one result.
pub trait Module: Params {
    /// The result for `x`.
    ///
    /// # Errors
    /// What the operations refuse, mostly shapes that do not fit.
    fn forward(&self, x: &Array) -> Result<Array>;
}

/// The value of `loss` for a model, and its gradient by every parameter, under the parameters' names.
///
/// The model is borrowed mutably since `loss` sees it with stand-ins for its parameters; it is as before
/// afterwards, also after an error.
pub fn value_and_grad<M: Params + ?Sized>(
    model: &mut M,
    mut loss: impl FnMut(&M) -> Result<Array>,
) -> Result<(Array, Parameters)> {
    let before = model.parameters();
    let primals: Vec<Array> = before.values().cloned().collect();
    let mut traced = |variables: &[Array]| {
        model.update(&before.keys().cloned().zip(variables.iter().cloned()).collect())?;
        Ok(vec![loss(model)?])
    };
    let outcome = transforms::value_and_grad(&mut traced, &primals);
    model.update(&before)?;
    let (mut values, gradients) = outcome?;
    Ok((values.remove(0), before.into_keys().zip(gradients).collect()))
}

/// Standard normal numbers of the global key, in float32.
pub fn normal(shape: &[usize]) -> Result<Array> {
    crate::init();
    ops::random::normal(shape, Dtype::Float32, None, None, &ops::random::next_key(None)?)
}

/// Numbers of the global key, uniform in `[-bound, bound)`, in float32: how weights begin.
pub fn uniform(bound: f64, shape: &[usize]) -> Result<Array> {
    crate::init();
    let [low, high] = [-bound, bound].map(|b| Array::from_f64(b, Dtype::Float32));
    ops::random::uniform(&low, &high, shape, Dtype::Float32, &ops::random::next_key(None)?)
}
