"""Loss functions. Each computes a loss an element (or a row) and reduces it in the same way."""

from __future__ import annotations

import math
from typing import Literal

import oxmlx.core as mx

Reduction = Literal["none", "mean", "sum"]


def _reduce(loss: mx.array, reduction: Reduction) -> mx.array:
    if reduction == "mean":
        return mx.mean(loss)
    if reduction == "sum":
        return mx.sum(loss)
    if reduction == "none":
        return loss
    raise ValueError("Invalid reduction. Must be one of ('none', 'mean', 'sum').")


def _same_shape(a: mx.array, b: mx.array, first: str, second: str) -> None:
    if a.shape != b.shape:
        raise ValueError(f"{first} shape {a.shape} does not match {second} shape {b.shape}.")


def _weighted(loss: mx.array, weights: mx.array | None) -> mx.array:
    if weights is None:
        return loss
    if weights.shape != loss.shape:
        raise ValueError(
            f"Weights with shape {weights.shape} is not the same as output loss with shape {loss.shape}."
        )
    return loss * weights


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """-log softmax(logits)[target] along `axis`.

    `targets` are class indices, with the shape of `logits` less `axis`, or probabilities of the same shape.
    `weights` has the shape of the unreduced loss. `label_smoothing` in [0, 1) mixes in the uniform
    distribution (Szegedy et al., 2016). Shapes that do not fit are a ValueError.
    """
    if label_smoothing < 0 or label_smoothing >= 1:
        raise ValueError(f"Label smoothing must be in [0, 1), got {label_smoothing}.")
    shape = logits.shape
    probabilities = targets.ndim == len(shape)
    if probabilities:
        fits = targets.shape == shape
    else:
        classes_axis = axis % len(shape)
        fits = targets.shape == shape[:classes_axis] + shape[classes_axis + 1 :]
    if not fits:
        raise ValueError(f"Targets shape {targets.shape} does not match logits shape {shape}.")

    if probabilities:
        score = mx.sum(logits * targets, axis=axis)
    else:
        score = mx.take_along_axis(logits, mx.expand_dims(targets, axis), axis).squeeze(axis)
    normalizer = mx.logsumexp(logits, axis=axis)
    if label_smoothing > 0:
        loss = normalizer - (1 - label_smoothing) * score - label_smoothing * logits.mean(axis=axis)
    else:
        loss = normalizer - score
    return _reduce(_weighted(loss, weights), reduction)


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """-(t log p + (1 - t) log(1 - p)), with p = sigmoid(inputs), or p = inputs without `with_logits`.

    Logarithms of probabilities are kept above -100. `weights` has the shape of the unreduced loss.
    """
    if inputs.shape != targets.shape:
        raise ValueError(f"Inputs shape {inputs.shape} does not match targets shape {targets.shape}.")
    if with_logits:
        loss = mx.logaddexp(0.0, inputs) - inputs * targets
    else:
        log_p = mx.clip(mx.log(inputs), a_min=-100, a_max=None)
        log_not_p = mx.clip(mx.log(1 - inputs), a_min=-100, a_max=None)
        loss = -(targets * log_p + (1 - targets) * log_not_p)
    return _reduce(_weighted(loss, weights), reduction)


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """|predictions - targets|; the shapes must agree (ValueError)."""
    _same_shape(predictions, targets, "Predictions", "targets")
    return _reduce(mx.abs(predictions - targets), reduction)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """(predictions - targets)^2; the shapes must agree (ValueError)."""
    _same_shape(predictions, targets, "Predictions", "targets")
    return _reduce(mx.square(predictions - targets), reduction)


def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """-inputs[target] along `axis`, for log-probabilities `inputs` and class indices `targets`."""
    picked = mx.take_along_axis(inputs, mx.expand_dims(targets, -1), axis).squeeze(-1)
    return _reduce(-picked, reduction)


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    """0.5 (log v + (inputs - targets)^2 / v), with v = max(vars, eps); `full` adds 0.5 log(2 pi).

    The shapes must agree (ValueError). (Nix and Weigend, 1994.)
    """
    _same_shape(inputs, targets, "Inputs", "targets")
    _same_shape(inputs, vars, "Inputs", "vars")
    vars = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(vars) + mx.square(targets - inputs) / vars)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    """sum(exp(targets) (targets - inputs)) along `axis`, for log-probabilities. (Kullback, Leibler, 1951.)"""
    return _reduce(mx.sum(mx.exp(targets) * (targets - inputs), axis), reduction)


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    """0.5 d^2 / beta where |d| < beta, else |d| - 0.5 beta, d = predictions - targets. (Girshick, 2015.)"""
    _same_shape(predictions, targets, "Predictions", "targets")
    diff = mx.abs(predictions - targets)
    if beta == 0:
        return _reduce(diff, reduction)
    return _reduce(mx.where(diff < beta, 0.5 * mx.square(diff) / beta, diff - 0.5 * beta), reduction)


def huber_loss(
    inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none"
) -> mx.array:
    """0.5 d^2 where |d| <= delta, else delta (|d| - 0.5 delta), with d = inputs - targets. (Huber, 1964.)"""
    errors = mx.abs(inputs - targets)
    quadratic = mx.minimum(errors, delta)
    return _reduce(0.5 * mx.square(quadratic) + delta * (errors - quadratic), reduction)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """log(cosh(inputs - targets)), computed without overflow."""
    errors = inputs - targets
    return _reduce(mx.logaddexp(errors, -errors) - math.log(2), reduction)


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    """max(|a - p|_p - |a - n|_p + margin, 0), with norms along `axis`. (Schroff et al., 2015.)"""

    def distance(other):
        return mx.power(mx.power(anchors - other, p).sum(axis) + eps, 1 / p)

    return _reduce(mx.maximum(distance(positives) - distance(negatives) + margin, 0), reduction)


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """max(1 - inputs * targets, 0), for targets of -1 and 1."""
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction)


def cosine_similarity_loss(
    x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8, reduction: Reduction = "none"
) -> mx.array:
    """x1 . x2 / max(|x1| |x2|, eps) along `axis`: the similarity itself, as in MLX, not one minus it."""
    norms = mx.sqrt(mx.sum(x1 * x1, axis=axis)) * mx.sqrt(mx.sum(x2 * x2, axis=axis))
    return _reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(norms, eps), reduction)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """max(-targets (inputs1 - inputs2) + margin, 0); the three shapes must agree (ValueError)."""
    if not (inputs1.shape == inputs2.shape == targets.shape):
        raise ValueError(
            "The shapes of the arguments do not match. The provided shapes are "
            f"inputs1.shape={inputs1.shape}, inputs2.shape={inputs2.shape}, "
            f"and targets.shape={targets.shape}."
        )
    return _reduce(mx.maximum(0, -targets * (inputs1 - inputs2) + margin), reduction)
