"""Transposed convolutions: the layers whose forward pass is a convolution's gradient.

They share everything with `_Conv` except the native function and one more number, `output_padding`.
"""

from __future__ import annotations

import oxmlx.core as mx

from .convolution import _Conv


class _ConvTranspose(_Conv):
    _geometry = ("stride", "padding", "dilation", "output_padding")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        output_padding: int | tuple = 0,
        bias: bool = True,
    ):
        super().__init__()
        self._setup(
            in_channels,
            out_channels,
            kernel_size,
            bias,
            padding=padding,
            stride=stride,
            dilation=dilation,
            output_padding=output_padding,
        )


class ConvTranspose1d(_ConvTranspose):
    """A transposed convolution of (N, L, in_channels); weights as in `Conv1d`."""

    _rank = 1

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv_transpose1d, x)


class ConvTranspose2d(_ConvTranspose):
    """A transposed convolution of (N, H, W, in_channels); weights as in `Conv2d`."""

    _rank = 2

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv_transpose2d, x)


class ConvTranspose3d(_ConvTranspose):
    """A transposed convolution of (N, D, H, W, in_channels); weights as in `Conv3d`."""

    _rank = 3

    def __call__(self, x: mx.array) -> mx.array:
        return self._call(mx.conv_transpose3d, x)
