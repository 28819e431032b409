"""The update rules. Each is its paper's formula on one parameter; the base class does the rest.

Rates are cast to the gradient's dtype first, so half-precision models are stepped in half precision, as MLX
does. Moments live in `state` under MLX's names.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import oxmlx.core as mx
from oxmlx.nn import Module  # noqa: F401  (MLX programs find it here)

from .base import MultiOptimizer, Optimizer, clip_grad_norm  # noqa: F401  (the same)

Rate = float | Callable[[mx.array], mx.array]


class SGD(Optimizer):
    """Gradient descent with optional momentum: v = momentum v + (1 - dampening) g, p = p - rate v.

    Weight decay is added to the gradient. `nesterov` looks one momentum step ahead and needs momentum and no
    dampening (ValueError).
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening.")
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The velocity `v`, zero."""
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        rate = self._state["learning_rate"].astype(gradient.dtype)
        if self.momentum <= 0:
            return parameter - rate * gradient
        v = self.momentum * state["v"]
        v = v + ((1 - self.dampening) * gradient if self.dampening > 0 else gradient)
        state["v"] = v
        return parameter - rate * (gradient + self.momentum * v if self.nesterov else v)


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2, p = p - rate g / (sqrt(v) + eps). (Tieleman and Hinton, 2012.)"""

    def __init__(self, learning_rate: Rate, alpha: float = 0.99, eps: float = 1e-8):
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        if alpha < 0.0:
            raise ValueError(f"RMSprop alpha should be >=0, {alpha} was provided instead")
        if eps < 0.0:
            raise ValueError(f"RMSprop epsilon should be >0, {eps} was provided instead")
        self.alpha = alpha
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The mean square `v`, zero."""
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        alpha = self.alpha
        state["v"] = v = alpha * state["v"] + (1 - alpha) * mx.square(gradient)
        return parameter - rate * gradient / (mx.sqrt(v) + self.eps)


class Adagrad(Optimizer):
    """v = v + g^2, p = p - rate g / (sqrt(v) + eps). (Duchi et al., 2011.)"""

    def __init__(self, learning_rate: Rate, eps: float = 1e-8):
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        if eps < 0.0:
            raise ValueError(f"Adagrad epsilon should be >0, {eps} was provided instead")
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The sum of squares `v`, zero."""
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        state["v"] = v = state["v"] + mx.square(gradient)
        return parameter - rate * gradient / (mx.sqrt(v) + self.eps)


class AdaDelta(Optimizer):
    """Steps in the ratio of the mean squares of past steps `u` and gradients `v`. (Zeiler, 2012.)"""

    def __init__(self, learning_rate: Rate, rho: float = 0.9, eps: float = 1e-6):
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        if rho < 0.0:
            raise ValueError(f"AdaDelta rho should be >=0, {rho} was provided instead")
        if eps < 0.0:
            raise ValueError(f"AdaDelta epsilon should be >0, {eps} was provided instead")
        self.rho = rho
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The mean squares `v` and `u`, zero."""
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        rho, eps, u = self.rho, self.eps, state["u"]
        state["v"] = v = rho * state["v"] + (1 - rho) * mx.square(gradient)
        d = mx.sqrt(u + eps) / mx.sqrt(v + eps) * gradient
        state["u"] = rho * u + (1 - rho) * mx.square(d)
        return parameter - rate * d


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - rate m / (sqrt(v) + eps).

    With `bias_correction`, m and v are divided by 1 - b^step. (Kingma and Ba, 2014.)
    """

    def __init__(
        self,
        learning_rate: Rate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        bias_correction: bool = False,
    ):
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.eps = eps
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The moments `m` and `v`, zero."""
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"]
        dtype = gradient.dtype
        b1, b2 = self.betas
        state["m"] = m = b1 * state["m"] + (1 - b1) * gradient
        state["v"] = v = b2 * state["v"] + (1 - b2) * mx.square(gradient)
        if self.bias_correction:
            step = self._state["step"]
            c1 = (rate / (1 - b1**step)).astype(dtype)
            c2 = mx.rsqrt(1 - b2**step).astype(dtype)
            return parameter - c1 * m / (mx.sqrt(v) * c2 + self.eps)
        return parameter - rate.astype(dtype) * m / (mx.sqrt(v) + self.eps)


class AdamW(Adam):
    """Adam on parameters that first shrink by rate * weight_decay. (Loshchilov and Hutter, 2017.)"""

    def __init__(
        self,
        learning_rate: Rate,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ):
        super().__init__(learning_rate, betas=betas, eps=eps, bias_correction=bias_correction)
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        return super().apply_single(gradient, parameter * (1 - rate * self.weight_decay), state)


class Adamax(Adam):
    """m as in Adam, v = max(b2 v, |g|), p = p - rate m / (v + eps). (Kingma and Ba, 2014.)"""

    def __init__(self, learning_rate: Rate, betas: list[float] = [0.9, 0.999], eps: float = 1e-8):  # noqa: B006
        super().__init__(learning_rate, betas, eps)
        if eps < 0.0:
            raise ValueError(f"Adam epsilon should be >=0, {eps} was provided instead")

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        b1, b2 = self.betas
        state["m"] = m = b1 * state["m"] + (1 - b1) * gradient
        state["v"] = v = mx.maximum(b2 * state["v"], mx.abs(gradient))
        return parameter - rate * m / (v + self.eps)


class Lion(Optimizer):
    """p = p - rate sign(b1 m + (1 - b1) g), m = b2 m + (1 - b2) g. (Chen et al., 2023.)

    Weight decay shrinks the parameter by rate * weight_decay first.
    """

    def __init__(self, learning_rate: Rate, betas: list[float] = [0.9, 0.99], weight_decay: float = 0.0):  # noqa: B006
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The moment `m`, zero."""
        state["m"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rate = self._state["learning_rate"].astype(gradient.dtype)
        b1, b2 = self.betas
        m = state["m"]
        c = b1 * m + (1 - b1) * gradient
        state["m"] = b2 * m + (1 - b2) * gradient
        if self.weight_decay > 0:
            parameter = (1 - rate * self.weight_decay) * parameter
        return parameter - rate * mx.sign(c)


def _rms(x: mx.array) -> mx.array:
    return mx.sqrt(mx.mean(mx.square(x)))


class Adafactor(Optimizer):
    """Adam with the second moment of a matrix kept as row and column means. (Shazeer and Stern, 2018.)

    With `relative_step` the rate is min(0.01, 1/sqrt(step)), with `scale_parameter` times the parameter's
    root mean square; updates whose own exceeds `clip_threshold` are scaled down.
    """

    def __init__(
        self,
        learning_rate: Rate | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ):
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """Row and column means, or the whole second moment of a vector; with `beta_1`, the first moment."""
        if parameter.ndim >= 2:
            shape, dtype = parameter.shape, parameter.dtype
            state["exp_avg_sq_row"] = mx.zeros(shape[:-1], dtype=dtype)
            state["exp_avg_sq_col"] = mx.zeros(shape[:-2] + shape[-1:], dtype=dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def _rate(self, rms: mx.array) -> mx.array:
        if self.relative_step:
            step = self._state["step"]
            floor = 1e-6 * step if self.warmup_init else 1e-2
            rate = mx.minimum(floor, mx.rsqrt(step))
        else:
            rate = self._state["learning_rate"]
        rate = rate.astype(rms.dtype)
        return mx.maximum(self.eps[1], rms) * rate if self.scale_parameter else 1.0 * rate

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        rms = _rms(parameter)
        rate = self._rate(rms)
        beta_2 = (1.0 - self._state["step"] ** self.decay_rate).astype(rms.dtype)
        update = mx.square(gradient) + self.eps[0]
        if gradient.ndim >= 2:
            row = beta_2 * state["exp_avg_sq_row"] + (1 - beta_2) * mx.mean(update, axis=-1)
            col = beta_2 * state["exp_avg_sq_col"] + (1 - beta_2) * mx.mean(update, axis=-2)
            state["exp_avg_sq_row"], state["exp_avg_sq_col"] = row, col
            r = mx.rsqrt(row / mx.mean(row, axis=-1, keepdims=True))
            update = mx.matmul(mx.expand_dims(r, -1), mx.expand_dims(mx.rsqrt(col), -2)) * gradient
        else:
            state["exp_avg_sq"] = square = beta_2 * state["exp_avg_sq"] + (1 - beta_2) * update
            update = mx.rsqrt(square) * gradient
        update = update / mx.maximum(1.0, _rms(update) / self.clip_threshold)
        update = rate * update
        if self.beta_1 is not None:
            update = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * update
            state["exp_avg"] = update
        if self.weight_decay != 0:
            parameter = parameter + parameter * (-self.weight_decay * rate)
        return parameter - update


class Muon(Optimizer):
    """Momentum whose matrix updates are made nearly orthogonal by Newton-Schulz steps. (Jordan, 2024.)

    Vectors are stepped by plain momentum; higher-dimensional parameters count as matrices of their first axis
    by all others. Weight decay is added to the gradient.
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ):
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """The momentum `v`, zero."""
        state["v"] = mx.zeros_like(parameter)

    def _orthogonalize(self, x: mx.array) -> mx.array:
        # The coefficients of the paper: a quintic that drives singular values towards one.
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = x.shape[-2] > x.shape[-1]
        if tall:
            x = x.T
        x = x / (mx.sqrt(mx.sum(x * x, keepdims=True)) + 1e-7)
        for _ in range(self.ns_steps):
            gram = x @ x.T
            x = mx.addmm(a * x, mx.addmm(b * gram, gram, gram, beta=1.0, alpha=c), x, beta=1.0, alpha=1.0)
        return x.T if tall else x

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """One step of one parameter."""
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        momentum = self.momentum
        state["v"] = v = momentum * state["v"] + (1 - momentum) * gradient
        update = gradient * (1 - momentum) + v * momentum if self.nesterov else v
        rate = self._state["learning_rate"].astype(gradient.dtype)
        if update.ndim >= 2:
            shape = update.shape
            update = self._orthogonalize(update.reshape(shape[0], -1) if len(shape) > 2 else update)
            rows, columns = update.shape
            update = update.reshape(shape)
            rate = rate * math.sqrt(max(1, rows / columns))
        return parameter - rate * update
