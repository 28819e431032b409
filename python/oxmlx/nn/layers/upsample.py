"""Resampling of spatial axes by a factor: nearest, linear and cubic.

All modes are separable, so each is a list of taps along one axis, an index and a weight for every output
position, applied axis by axis. The taps are known on the host; the device does gathers and sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import oxmlx.core as mx

from .base import Module


def _factors(scale_factor, x: mx.array) -> tuple[float, ...]:
    rank = x.ndim - 2
    if not isinstance(scale_factor, (tuple, list)):
        return (float(scale_factor),) * rank
    if len(scale_factor) != rank:
        raise ValueError(f"The scale needs to have {rank} elements, but it has {len(scale_factor)}.")
    return tuple(float(s) for s in scale_factor)


def _position(i: int, size: int, out: int, scale: float, align_corners: bool) -> float:
    """Where output position i lies among the input positions."""
    if align_corners:
        return i * (size - 1) / (out - 1) if out > 1 else 0.0
    # The grid is centred, also where the factor does not give a whole number of positions.
    return i / scale - ((out - 1) / scale - size + 1) / 2


def _taps(size: int, scale: float, align_corners: bool, antialias: bool, kernel: Callable, radius: int):
    """Indices and weights, each a list over taps of lists over output positions."""
    out = int(scale * size)
    # When shrinking, a wider kernel averages over what would be skipped.
    stretch = max(1.0, 1.0 / scale) if antialias else 1.0
    reach = math.ceil(radius * stretch)
    count = 2 * reach
    indices: list[list[int]] = [[] for _ in range(count)]
    weights: list[list[float]] = [[] for _ in range(count)]
    for i in range(out):
        at = _position(i, size, out, scale, align_corners)
        first = math.floor(at) - reach + 1
        raw = [kernel((first + k - at) / stretch) for k in range(count)]
        if antialias:
            # Taps outside the input are dropped, and the rest weighs one again.
            raw = [w if 0 <= first + k < size else 0.0 for k, w in enumerate(raw)]
            total = sum(raw)
            raw = [w / total for w in raw]
        for k, w in enumerate(raw):
            indices[k].append(min(max(first + k, 0), size - 1))
            weights[k].append(w)
    return indices, weights


def _triangle(t: float) -> float:
    return max(0.0, 1.0 - abs(t))


def _cubic(a: float) -> Callable[[float], float]:
    """The kernel of cubic convolution. (Keys, 1981.)"""

    def kernel(t: float) -> float:
        t = abs(t)
        if t <= 1:
            return ((a + 2) * t - (a + 3)) * t * t + 1
        return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0

    return kernel


def _resample(
    x: mx.array, scale_factor, align_corners: bool, antialias: bool, kernel, radius: int
) -> mx.array:
    if align_corners and antialias:
        raise ValueError("[Upsample] antialias=True with align_corners=True is not supported.")
    dtype = x.dtype
    for axis, scale in enumerate(_factors(scale_factor, x), start=1):
        indices, weights = _taps(x.shape[axis], scale, align_corners, antialias, kernel, radius)
        shape = (-1,) + (1,) * (x.ndim - 1 - axis)
        parts = [
            mx.take(x, mx.array(i), axis=axis) * mx.array(w).reshape(shape).astype(dtype)
            for i, w in zip(indices, weights)
            if any(w)
        ]
        x = sum(parts[1:], parts[0])
    return x


def upsample_nearest(x: mx.array, scale_factor: tuple):
    """The nearest input value; (N, *spatial, C). A whole factor is a broadcast, any other a gather."""
    for axis, scale in enumerate(_factors(scale_factor, x), start=1):
        if scale == int(scale):
            x = mx.repeat(x, int(scale), axis=axis)
        else:
            size = x.shape[axis]
            out = int(scale * size)
            if scale < 1:
                at = [i * size // out for i in range(out)]
            else:
                # Halves go to the even position, as in MLX.
                at = [round((i + 0.5) * size / out - 0.5) for i in range(out)]
                at = [min(max(i, 0), size - 1) for i in at]
            x = mx.take(x, mx.array(at), axis=axis)
    return x


def upsample_linear(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Linear interpolation along each spatial axis of (N, *spatial, C)."""
    return _resample(x, scale_factor, align_corners, antialias, _triangle, 1)


def upsample_cubic(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Cubic convolution along each spatial axis of (N, *spatial, C). (Keys, 1981.)"""
    return _resample(x, scale_factor, align_corners, antialias, _cubic(-0.5 if antialias else -0.75), 2)


class Upsample(Module):
    """Resample the spatial axes of (N, *spatial, C) by `scale_factor`, one number or one an axis.

    `align_corners` puts the first and last positions of input and output at the same place; `antialias`
    widens the kernel when shrinking. ValueError for a mode other than "nearest", "linear" and "cubic".
    """

    def __init__(
        self,
        scale_factor: float | tuple,
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ):
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise ValueError(f"[Upsample] Got unsupported upsampling algorithm: {mode}")
        if isinstance(scale_factor, (list, tuple)):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        return f"scale_factor={self.scale_factor}, mode={self.mode!r}, align_corners={self.align_corners}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(
                f"[Upsample] The input should have at least 1 spatial dimension, but it has {x.ndim} axes."
            )
        if self.mode == "nearest":
            return upsample_nearest(x, self.scale_factor)
        function = upsample_linear if self.mode == "linear" else upsample_cubic
        return function(x, self.scale_factor, self.align_corners, self.antialias)
