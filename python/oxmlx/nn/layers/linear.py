"""Layers that multiply by a weight matrix, and the identity.

`Linear` is the layer of which a model has most, so its call reads its items straight from the dict.
"""

from __future__ import annotations

import math
from typing import Any

import oxmlx.core as mx

from .base import Module
from .quantized import QQLinear, QuantizedLinear


class Identity(Module):
    """A layer that returns its input and ignores all constructor arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    """An affine map of the last axis: y = x W^T + b.

    `weight` has shape (output_dims, input_dims) and `bias` (output_dims,); both start uniform in
    +-1/sqrt(input_dims). The input is (..., input_dims), the output (..., output_dims).
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if "bias" in self:
            return mx.addmm(self["bias"], x, self["weight"].T)
        return x @ self["weight"].T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> Module:
        """A `QuantizedLinear` of the same weights, or a `QQLinear` when the inputs are quantized too.

        The latter needs the mode "nvfp4" or "mxfp8" and no bias, else ValueError.
        """
        if quantize_input:
            if mode not in ("nvfp4", "mxfp8"):
                raise ValueError(f"Quantized inputs are only supported for 'nvfp4' and 'mxfp8', got {mode}.")
            return QQLinear.from_linear(self, group_size, bits, mode)
        return QuantizedLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    """A map that is linear in each of two inputs: y_k = x1^T W_k x2 + b_k.

    `weight` has shape (output_dims, input2_dims, input1_dims); both parameters start uniform in
    +-1/sqrt(input1_dims). The inputs are (..., input1_dims) and (..., input2_dims).
    """

    def __init__(self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        scale = math.sqrt(1.0 / input1_dims)
        shape = (output_dims, input2_dims, input1_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=shape)
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(output_dims,))

    def _extra_repr(self) -> str:
        out, in2, in1 = self.weight.shape
        return f"input1_dims={in1}, input2_dims={in2}, output_dims={out}, bias={'bias' in self}"

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        out, in2, in1 = self["weight"].shape
        lead = x1.shape[:-1]
        x1 = x1.reshape(-1, in1)
        x2 = x2.reshape(-1, 1, in2)
        # All W_k x1 in one product, then a dot product with x2 per row.
        y = (x1 @ self["weight"].reshape(out * in2, in1).T).reshape(-1, out, in2).swapaxes(-2, -1)
        y = (x2 @ y).squeeze(1).reshape(*lead, out)
        return y + self["bias"] if "bias" in self else y
