"""Layers with packed weights: the same maps as `Linear` and `Embedding` at 2 to 8 bits a weight.

Quantized parameters take no gradients, so these layers freeze themselves when they are made and stay frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import oxmlx.core as mx
from oxmlx.utils import tree_map_with_path

from .base import Module

# The group size and bits that each mode uses unless told otherwise.
_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def _format(mode: str, group_size: int | None, bits: int | None) -> tuple[int, int]:
    default_size, default_bits = _DEFAULTS[mode]
    return group_size or default_size, bits or default_bits


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict] | None = None,
) -> None:
    """Replace, in place, the layers of `model` that have `to_quantized` by their quantized form.

    `class_predicate(path, module)` says which layers to take: a bool, or a dict of arguments for
    `to_quantized`, which must include `mode`, `bits` or `group_size` where they differ from the rest. It is
    asked about every leaf module.
    """

    def convert(path, module):
        if class_predicate is None:
            wanted = hasattr(module, "to_quantized")
        else:
            wanted = class_predicate(path, module)
        if not wanted:
            return module
        if not hasattr(module, "to_quantized"):
            raise ValueError(f"Unable to quantize model of type {type(module)}")
        if isinstance(wanted, bool):
            kwargs = {"group_size": group_size, "bits": bits, "mode": mode}
            if quantize_input:
                kwargs["quantize_input"] = True
            return module.to_quantized(**kwargs)
        if isinstance(wanted, dict):
            return module.to_quantized(**wanted)
        raise ValueError("``class_predicate`` must return a bool or a dict of quantization parameters.")

    leaves = tree_map_with_path(convert, model.leaf_modules(), is_leaf=Module.is_module)
    model.update_modules(leaves)


class _Quantized(Module):
    """What the layers with packed weights share: the format, the packed items, and staying frozen."""

    def _pack(self, weight: mx.array, group_size: int | None, bits: int | None, mode: str) -> None:
        self.group_size, self.bits = _format(mode, group_size, bits)
        self.mode = mode
        packed = mx.quantize(weight, self.group_size, self.bits, mode=mode)
        self.weight, self.scales = packed[0], packed[1]
        if len(packed) > 2:
            self.biases = packed[2]

    def _dims(self) -> tuple[int, int]:
        rows, words = self.weight.shape
        return rows, words * 32 // self.bits

    def _describe(self) -> str:
        return f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"

    def _matmul(self, x: mx.array) -> mx.array:
        return mx.quantized_matmul(
            x,
            self["weight"],
            scales=self["scales"],
            biases=self.get("biases"),
            transpose=True,
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def unfreeze(self, *args, **kwargs) -> Module:
        """Unfreeze the children, if there are any; the packed parameters stay frozen."""
        super().unfreeze(*args, **kwargs)
        return self.freeze(recurse=False)


class QuantizedEmbedding(_Quantized):
    """`Embedding` with packed rows; see `mx.quantize` for the format."""

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ):
        super().__init__()
        scale = math.sqrt(1 / dims)
        self.num_embeddings, self.dims = num_embeddings, dims
        self._pack(mx.random.normal(shape=(num_embeddings, dims), scale=scale), group_size, bits, mode)
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][x],
            scales=self["scales"][x],
            biases=None if biases is None else biases[x],
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        """Multiply by the table as `Embedding.as_linear` does."""
        return self._matmul(x)

    def _extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.dims}, {self._describe()}"

    @classmethod
    def from_embedding(
        cls,
        embedding_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedEmbedding:
        """The packed form of an `Embedding`."""
        layer = cls.__new__(cls)
        Module.__init__(layer)
        layer.num_embeddings, layer.dims = embedding_layer.weight.shape
        layer._pack(embedding_layer.weight, group_size, bits, mode)
        return layer.freeze()


class QuantizedLinear(_Quantized):
    """`Linear` with packed weights; the bias, where there is one, is not packed."""

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ):
        super().__init__()
        scale = math.sqrt(1 / input_dims)
        weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        self._pack(weight, group_size, bits, mode)
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        rows, columns = self._dims()
        return f"input_dims={columns}, output_dims={rows}, bias={'bias' in self}, {self._describe()}"

    def __call__(self, x: mx.array) -> mx.array:
        y = self._matmul(x)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedLinear:
        """The packed form of a `Linear`."""
        layer = cls.__new__(cls)
        Module.__init__(layer)
        layer._pack(linear_layer.weight, group_size, bits, mode)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer.freeze()


class QQLinear(Module):
    """A linear layer, without bias, that quantizes its weights and its inputs ("nvfp4" or "mxfp8").

    In training mode the weights are kept as they are and packed in every call; in evaluation mode they are
    packed once.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ):
        super().__init__()
        if mode not in ("nvfp4", "mxfp8"):
            raise ValueError(f"QQLinear takes the modes 'nvfp4' and 'mxfp8', got {mode}.")
        scale = math.sqrt(1 / input_dims)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(output_dims, input_dims))
        self.group_size, self.bits = _format(mode, group_size, bits)
        self.mode = mode
        self._quantized = False

    def _extra_repr(self) -> str:
        rows, columns = self.weight.shape
        if self._quantized:
            columns = columns * 32 // self.bits
        return (
            f"input_dims={columns}, output_dims={rows}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def quantize(self) -> None:
        """Pack the weights, unless they are."""
        if not self._quantized:
            self.weight, self.scales = mx.quantize(self.weight, self.group_size, self.bits, mode=self.mode)
            self._quantized = True

    def dequantize(self) -> None:
        """Unpack the weights, unless they are unpacked."""
        if self._quantized:
            self.weight = mx.dequantize(
                self.weight, scales=self.scales, group_size=self.group_size, bits=self.bits, mode=self.mode
            )
            del self.scales
            self._quantized = False

    def train(self, mode: bool = True) -> Module:
        """Set the mode, and unpack (training) or pack (evaluation) the weights."""
        super().train(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()
        return self

    def __call__(self, x: mx.array) -> mx.array:
        return mx.qqmm(
            x,
            self["weight"],
            scales=self.get("scales"),
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_linear(
        cls, linear_layer: Module, group_size: int | None = None, bits: int | None = None, mode: str = "nvfp4"
    ) -> QQLinear:
        """A `QQLinear` of the weights of a `Linear` without bias; with a bias, NotImplementedError."""
        if "bias" in linear_layer:
            raise NotImplementedError("QQLinear does not support bias.")
        rows, columns = linear_layer.weight.shape
        layer = cls(columns, rows, group_size, bits, mode)
        layer.weight = linear_layer.weight
        layer.train(linear_layer.training)
        return layer
