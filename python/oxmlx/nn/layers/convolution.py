"""Convolution layers over one, two or three spatial axes, channels last.

The layers, transposed ones included, are one idea in several ranks, so the base class `_Conv` holds all of
it; a public class adds its signature and the native function that it calls.
"""

from __future__ import annotations

import math

import oxmlx.core as mx

from .base import Module


def _per_axis(value, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


class _Conv(Module):
    """Weights, bias and printing for any rank; `_geometry` names what is printed and passed on, in order."""

    _rank: int
    _geometry: tuple[str, ...] = ("stride", "padding", "dilation", "groups")

    def _setup(
        self, in_channels: int, out_channels: int, kernel_size, bias: bool, groups: int = 1, **geometry
    ):
        if in_channels % groups:
            raise ValueError(
                f"The number of input channels ({in_channels}) must be divisible by "
                f"the number of groups ({groups})"
            )
        kernel = _per_axis(kernel_size, self._rank)
        scale = math.sqrt(1 / (in_channels // groups * math.prod(kernel)))
        shape = (out_channels, *kernel, in_channels // groups)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=shape)
        if bias:
            self.bias = mx.zeros((out_channels,))
        for name, value in geometry.items():
            # MLX keeps the dilation as it was given, and one axis stays a plain number.
            self.__setattr__(
                name, value if self._rank == 1 or name == "dilation" else _per_axis(value, self._rank)
            )
        if "groups" in self._geometry:
            self.groups = groups

    def _extra_repr(self) -> str:
        out_channels, *kernel, in_channels = self.weight.shape
        in_channels *= getattr(self, "groups", 1)
        size = kernel[0] if self._rank == 1 else tuple(kernel)
        listed = "".join(f"{name}={getattr(self, name)}, " for name in self._geometry)
        return f"{in_channels}, {out_channels}, kernel_size={size}, {listed}bias={'bias' in self}"

    def _call(self, function, x: mx.array) -> mx.array:
        y = function(x, self["weight"], *[getattr(self, name) for name in self._geometry])
        return y + self["bias"] if "bias" in self else y


class Conv1d(_Conv):
    """A convolution of (N, L, in_channels) giving (N, L', out_channels).

    `weight` has shape (out_channels, kernel_size, in_channels / groups) and starts uniform in
    +-1/sqrt(in_channels / groups * kernel_size); `bias` starts at zero. ValueError when `groups` does not
    divide `in_channels`.
    """

    _rank = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__()
        self._setup(
            in_channels,
            out_channels,
            kernel_size,
            bias,
            groups,
            padding=padding,
            dilation=dilation,
            stride=stride,
        )

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv1d, x)


class Conv2d(_Conv):
    """A convolution of (N, H, W, in_channels) giving (N, H', W', out_channels).

    `weight` has shape (out_channels, kh, kw, in_channels / groups) and starts uniform in
    +-1/sqrt(in_channels / groups * kh * kw); `bias` starts at zero. ValueError when `groups` does not divide
    `in_channels`.
    """

    _rank = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__()
        self._setup(
            in_channels,
            out_channels,
            kernel_size,
            bias,
            groups,
            padding=padding,
            stride=stride,
            dilation=dilation,
        )

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv2d, x)


class Conv3d(_Conv):
    """A convolution of (N, D, H, W, in_channels) giving (N, D', H', W', out_channels).

    `weight` has shape (out_channels, kd, kh, kw, in_channels) and starts uniform in
    +-1/sqrt(in_channels * kd * kh * kw); `bias` starts at zero.
    """

    _rank = 3
    _geometry = ("stride", "padding", "dilation")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        bias: bool = True,
    ):
        super().__init__()
        self._setup(
            in_channels, out_channels, kernel_size, bias, padding=padding, stride=stride, dilation=dilation
        )

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv3d, x)
