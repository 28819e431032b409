"""Activation functions, and the modules that call them.

The functions are plain compositions: the engine fuses element-wise chains by itself, so none is compiled.
The modules without arguments are made from their function by one helper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import oxmlx.core as mx

from .base import Module


def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return mx.sigmoid(x)


def relu(x):
    """max(x, 0)."""
    return mx.maximum(x, 0)


def relu2(x):
    """max(x, 0)^2. (So et al., 2021.)"""
    return mx.square(mx.maximum(x, 0))


def relu6(x):
    """min(max(x, 0), 6)."""
    return mx.minimum(mx.maximum(x, 0), 6.0)


def leaky_relu(x, negative_slope=0.01):
    """max(x, negative_slope * x)."""
    return mx.maximum(negative_slope * x, x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """max(x, 0) + alpha * min(x, 0), with alpha learned. (He et al., 2015.)"""
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


def elu(x, alpha=1.0):
    """x where x > 0, else alpha * (exp(x) - 1). (Clevert et al., 2015.)"""
    return mx.where(x > 0, x, alpha * (mx.exp(x) - 1))


def celu(x, alpha=1.0):
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1). (Barron, 2017.)"""
    return mx.maximum(x, 0.0) + alpha * (mx.exp(mx.minimum(x, 0.0) / alpha) - 1)


def selu(x):
    """1.0507 * elu(x, 1.67326). (Klambauer et al., 2017.)"""
    return elu(x, 1.67326) * 1.0507


def silu(x):
    """x * sigmoid(x). (Hendrycks and Gimpel, 2016.)"""
    return x * mx.sigmoid(x)


def softmax(x, axis=-1):
    """exp(x) / sum(exp(x)) along `axis`."""
    return mx.softmax(x, axis=axis)


def softmin(x, axis=-1):
    """softmax(-x) along `axis`."""
    return mx.softmax(-x, axis=axis)


def log_softmax(x, axis=-1):
    """x - logsumexp(x) along `axis`."""
    return x - mx.logsumexp(x, axis=axis, keepdims=True)


def softplus(x):
    """log(1 + exp(x))."""
    return mx.logaddexp(x, 0)


def log_sigmoid(x):
    """log(sigmoid(x)), computed as -softplus(-x)."""
    return -softplus(-x)


def softsign(x):
    """x / (1 + |x|)."""
    return mx.divide(x, 1 + mx.abs(x))


def softshrink(x, lambd: float = 0.5):
    """x moved towards zero by lambd, and zero within lambd of it."""
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


def hard_shrink(x, lambd=0.5):
    """x, but zero within lambd of zero."""
    return mx.where(mx.abs(x) > lambd, x, 0)


def hard_tanh(x, min_val=-1.0, max_val=1.0):
    """x clipped to [min_val, max_val]."""
    return mx.minimum(mx.maximum(x, min_val), max_val)


def hardswish(x):
    """x * min(max(x + 3, 0), 6) / 6. (Howard et al., 2019.)"""
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


def gelu(x) -> mx.array:
    """x * Phi(x), with Phi the normal distribution function, by erf. (Hendrycks and Gimpel, 2016.)"""
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def gelu_approx(x):
    """gelu by tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_fast_approx(x):
    """gelu by sigmoid: x * sigmoid(1.702 x)."""
    return x * mx.sigmoid(1.702 * x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """a * sigmoid(b), with a and b the halves of x along `axis`. (Dauphin et al., 2017.)"""
    a, b = mx.split(x, indices_or_sections=2, axis=axis)
    return a * mx.sigmoid(b)


def mish(x: mx.array) -> mx.array:
    """x * tanh(softplus(x)). (Misra, 2019.)"""
    return x * mx.tanh(softplus(x))


def step(x: mx.array, threshold: float = 0.0):
    """1 where x > threshold, else 0."""
    return mx.where(x > threshold, 1, 0)


def tanh(x):
    """tanh(x)."""
    return mx.tanh(x)


def _module(name: str, function: Callable) -> type[Module]:
    def __call__(self, x: mx.array) -> mx.array:
        return function(x)

    doc = f"`{function.__name__}` as a module: {function.__doc__}"
    return type(name, (Module,), {"__call__": __call__, "__doc__": doc, "__module__": __name__})


Sigmoid = _module("Sigmoid", sigmoid)
ReLU = _module("ReLU", relu)
ReLU2 = _module("ReLU2", relu2)
ReLU6 = _module("ReLU6", relu6)
SELU = _module("SELU", selu)
SiLU = _module("SiLU", silu)
Softmax = _module("Softmax", softmax)
Softmin = _module("Softmin", softmin)
LogSoftmax = _module("LogSoftmax", log_softmax)
Softplus = _module("Softplus", softplus)
LogSigmoid = _module("LogSigmoid", log_sigmoid)
Softsign = _module("Softsign", softsign)
HardTanh = _module("HardTanh", hard_tanh)
Hardswish = _module("Hardswish", hardswish)
Mish = _module("Mish", mish)
Tanh = _module("Tanh", tanh)


class GLU(Module):
    """`glu` as a module."""

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def __call__(self, x: mx.array) -> mx.array:
        return glu(x, self.axis)


class LeakyReLU(Module):
    """`leaky_relu` as a module."""

    def __init__(self, negative_slope=1e-2):
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x: mx.array) -> mx.array:
        return leaky_relu(x, self._negative_slope)


class ELU(Module):
    """`elu` as a module."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return elu(x, self._alpha)


class CELU(Module):
    """`celu` as a module."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return celu(x, self._alpha)


class PReLU(Module):
    """`prelu` as a module; its slope `weight`, of shape (num_parameters,), starts at `init`."""

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = mx.full([num_parameters], init)

    def __call__(self, x: mx.array) -> mx.array:
        return prelu(x, self["weight"])


class Softshrink(Module):
    """`softshrink` as a module."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return softshrink(x, self.lambd)


class HardShrink(Module):
    """`hard_shrink` as a module."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return hard_shrink(x, self.lambd)


class Step(Module):
    """`step` as a module."""

    def __init__(self, threshold: float = 0.0):
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array) -> mx.array:
        return step(x, self.threshold)


_GELU = {"none": gelu, "precise": gelu_approx, "tanh": gelu_approx, "fast": gelu_fast_approx}


class GELU(Module):
    """`gelu`, or, for the names "precise", "tanh" and "fast", one of its approximations, as a module.

    Any other name is a ValueError.
    """

    def __init__(self, approx="none"):
        super().__init__()
        if approx not in _GELU:
            raise ValueError(f"The approximation should be in {list(_GELU)} but '{approx}' was given")
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return _GELU[self._approx](x)
