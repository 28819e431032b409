//! Losses, each an element or a row, reduced in the same way; formulas and shapes are MLX's.

use crate::{Array, Dtype, Error, Result, format_shape, ops};

/// What becomes of the losses of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reduction {
    /// They stay as they are.
    None,
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
}

fn reduce(loss: &Array, how: Reduction) -> Result<Array> {
    match how {
        Reduction::None => Ok(loss.clone()),
        Reduction::Mean => ops::mean(loss, None, false),
        Reduction::Sum => ops::sum(loss, None, false),
    }
}

fn refuse(op: &'static str, a: &Array, b: &Array) -> Error {
    let (a, b) = (format_shape(a.shape()), format_shape(b.shape()));
    Error::invalid(op, format!("Targets shape {b} does not match predictions shape {a}."))
}

/// `-log softmax(logits)[target]` along the last axis.
///
/// `targets` are class indices, with the shape of `logits` less its last axis, or probabilities of the same
/// shape as `logits`.
///
/// ```
/// use oxmlx::{Array, Dtype, nn, ops};
/// oxmlx::init();
/// let logits = ops::zeros(&[3, 4], Dtype::Float32)?;
/// let targets = ops::arange(0.0, 3.0, 1.0, Dtype::Int32)?;
/// let loss = nn::cross_entropy(&logits, &targets, nn::Reduction::Mean)?;
/// assert!((loss.item()?.to_f64() - 4f64.ln()).abs() < 1e-6);
/// # Ok::<(), oxmlx::Error>(())
/// ```
pub fn cross_entropy(logits: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    let score = if targets.shape() == logits.shape() {
        ops::sum(&ops::multiply(logits, targets)?, Some(&[-1]), false)?
    } else if logits.ndim() > 0 && targets.shape() == &logits.shape()[..logits.ndim() - 1] {
        let index = ops::expand_dims(targets, &[-1])?;
        ops::squeeze(&ops::take_along_axis(logits, &index, -1)?, Some(&[-1]))?
    } else {
        return Err(refuse("cross_entropy", logits, targets));
    };
    reduce(&ops::subtract(&ops::logsumexp(logits, Some(&[-1]), false)?, &score)?, reduction)
}

/// `(predictions - targets)^2`.
pub fn mse(predictions: &Array, targets: &Array, reduction: Reduction) -> Result<Array> {
    if predictions.shape() != targets.shape() {
        return Err(refuse("mse", predictions, targets));
    }
    reduce(&ops::square(&ops::subtract(predictions, targets)?)?, reduction)
}

/// The part of the rows of `logits` whose greatest element is at the target: a 0-d float32 array.
pub fn accuracy(logits: &Array, targets: &Array) -> Result<Array> {
    let found = ops::argmax(logits, Some(-1), false)?;
    if found.shape() != targets.shape() {
        return Err(refuse("accuracy", logits, targets));
    }
    let hits = ops::equal(&found, &ops::astype(targets, Dtype::Uint32)?)?;
    ops::mean(&ops::astype(&hits, Dtype::Float32)?, None, false)
}
