"""Initializers: functions that make a function from an array to a new array of its shape.

The Glorot and He families are one idea, a spread from the fan-in and fan-out, so they share one helper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import oxmlx.core as mx

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
]


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Every element is `value`."""

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(
    mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """Normal with the given mean and standard deviation."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)

    return initializer


def uniform(
    low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """Uniform in [low, high)."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """The identity matrix; anything but a square matrix is a ValueError."""

    def initializer(arr: mx.array) -> mx.array:
        if arr.ndim != 2 or arr.shape[0] != arr.shape[1]:
            raise ValueError(f"The input array must be a square matrix but got shape {arr.shape}.")
        return mx.eye(n=arr.shape[0], dtype=dtype)

    return initializer


def _fans(x: mx.array) -> tuple[int, int]:
    """Fan-in and fan-out of weights (out, *receptive field, in)."""
    if x.ndim < 2:
        raise ValueError(
            "Glorot / He initialization requires at least 2 dimensional input "
            f"but input with {x.ndim} dimensions."
        )
    out, *field, inputs = x.shape
    size = math.prod(field)
    return inputs * size, out * size


def _scaled_normal(a: mx.array, std: float, dtype: mx.Dtype) -> mx.array:
    return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)


def _scaled_uniform(a: mx.array, std: float, dtype: mx.Dtype) -> mx.array:
    # A uniform distribution in +-b has standard deviation b / sqrt(3).
    limit = math.sqrt(3.0) * std
    return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)


def _glorot(draw: Callable, dtype: mx.Dtype):
    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        fan_in, fan_out = _fans(a)
        return draw(a, gain * math.sqrt(2.0 / (fan_in + fan_out)), dtype)

    return initializer


def _he(draw: Callable, dtype: mx.Dtype):
    def initializer(
        a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array:
        fan_in, fan_out = _fans(a)
        if mode not in ("fan_in", "fan_out"):
            raise ValueError(f"Invalid mode: {mode}. Valid modes are: fan_in, fan_out")
        return draw(a, gain / math.sqrt(fan_in if mode == "fan_in" else fan_out), dtype)

    return initializer


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Normal with deviation gain * sqrt(2 / (fan_in + fan_out)). (Glorot and Bengio, 2010.)

    The initializer takes (a, gain=1.0); fewer than two axes are a ValueError.
    """
    return _glorot(_scaled_normal, dtype)


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Uniform with the deviation of `glorot_normal`."""
    return _glorot(_scaled_uniform, dtype)


def he_normal(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    """Normal with deviation gain / sqrt(fan). (He et al., 2015.)

    The initializer takes (a, mode="fan_in", gain=1.0); another mode or fewer than two axes are a ValueError.
    """
    return _he(_scaled_normal, dtype)


def he_uniform(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    """Uniform with the deviation of `he_normal`."""
    return _he(_scaled_uniform, dtype)


def sparse(
    sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """Normal, with a fraction `sparsity` of each row set to zero at random. (Martens, 2010.)

    Anything but a matrix is a ValueError.
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError("Only tensors with 2 dimensions are supported")
        rows, columns = a.shape
        zeros = math.ceil(sparsity * columns)
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        a = mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)
        a[mx.arange(rows).reshape(rows, 1), order[:, :zeros]] = 0
        return a

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """A matrix with orthonormal rows or columns, times `gain`. (Saxe et al., 2013.)

    Anything but a matrix is a ValueError.
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"Orthogonal initialization requires a 2D array but got a {a.ndim}D array.")
        rows, columns = a.shape
        n = max(rows, columns)
        # The factorisation runs on the CPU in MLX; the stream keeps programs portable.
        q, r = mx.linalg.qr(mx.random.normal(shape=(n, n)), stream=mx.cpu)
        # Signs from R make the distribution uniform over orthogonal matrices.
        q = q * mx.sign(mx.diag(r))
        return (gain * q[:rows, :columns]).astype(dtype)

    return initializer
