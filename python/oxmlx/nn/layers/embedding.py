"""A table of vectors looked up by index."""

from __future__ import annotations

import math

import oxmlx.core as mx

from .base import Module
from .quantized import QuantizedEmbedding


class Embedding(Module):
    """A lookup of rows of `weight`, which has shape (num_embeddings, dims).

    The rows start normal with standard deviation 1/sqrt(dims). The input is an integer array of any shape,
    the output has one axis of length `dims` more.
    """

    def __init__(self, num_embeddings: int, dims: int):
        super().__init__()
        self.weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))

    def _extra_repr(self) -> str:
        rows, dims = self.weight.shape
        return f"{rows}, {dims}"

    def __call__(self, x: mx.array) -> mx.array:
        return self["weight"][x]

    def as_linear(self, x: mx.array) -> mx.array:
        """Multiply (..., dims) by the transposed table: the logits of a model with tied embeddings."""
        return x @ self["weight"].T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """A `QuantizedEmbedding` of the same rows; a lookup has no input to quantize (ValueError)."""
        if quantize_input:
            raise ValueError("Quantized input is not supported.")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
