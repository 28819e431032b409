"""Attention and the encoder-decoder transformer built from it. (Vaswani et al., 2017.)

Encoder and decoder blocks are one idea, residual sublayers, and stacks of them another: both live in a base
class, with the attention of the public classes on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oxmlx.core as mx
from oxmlx.nn.utils import checkpoint as _checkpointed

from .activations import relu
from .base import Module
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm


class MultiHeadAttention(Module):
    """Scaled dot-product attention with several heads.

    Queries are (N, L, query_input_dims), keys and values (N, S, ...); the output is (N, L,
    value_output_dims). All widths default to `dims`. ValueError when `num_heads` does not divide `dims`.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ):
        super().__init__()
        if dims % num_heads:
            raise ValueError(
                "The input feature dimensions should be divisible by the "
                f"number of heads ({dims} % {num_heads}) != 0"
            )
        query_input_dims = query_input_dims or dims
        key_input_dims = key_input_dims or dims
        value_input_dims = value_input_dims or key_input_dims
        value_dims = value_dims or dims
        value_output_dims = value_output_dims or dims
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims, bias=bias)

    def __call__(self, queries, keys, values, mask=None):
        heads = (self.num_heads, -1)
        q = mx.unflatten(self["query_proj"](queries), -1, heads).transpose(0, 2, 1, 3)
        k = mx.unflatten(self["key_proj"](keys), -1, heads).transpose(0, 2, 1, 3)
        v = mx.unflatten(self["value_proj"](values), -1, heads).transpose(0, 2, 1, 3)
        scale = (1 / q.shape[-1]) ** 0.5
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return self["out_proj"](y.transpose(0, 2, 1, 3).flatten(-2, -1))

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32):
        """An (N, N) mask: zero where the key is no later than the query, else the lowest finite number."""
        i = mx.arange(N)
        return (i[:, None] < i[None]).astype(dtype) * mx.finfo(dtype).min


class _Block(Module):
    """Residual sublayers of one transformer block: `count` of them, each with its norm and dropout."""

    def _residual(self, x: mx.array, i: int, sublayer: Callable) -> mx.array:
        """Sublayer `i` (from 1) with its residual connection: the norm comes first or last."""
        norm = self[f"ln{i}"]
        return x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))

    def _attend(self, x: mx.array, i: int, name: str, mask, memory=None) -> mx.array:
        attention, dropout = self[name], self[f"dropout{i}"]

        def sublayer(y):
            source = y if memory is None else memory
            return dropout(attention(y, source, source, mask))

        return self._residual(x, i, sublayer)

    def _feed_forward(self, x: mx.array, i: int) -> mx.array:
        linear1, linear2, dropout = self["linear1"], self["linear2"], self[f"dropout{i}"]
        return self._residual(x, i, lambda y: linear2(dropout(self.activation(linear1(y)))))

    def _setup(
        self, count: int, dims: int, mlp_dims: int | None, dropout: float, activation, norm_first: bool
    ):
        mlp_dims = mlp_dims or dims * 4
        for i in range(1, count + 1):
            self.__setattr__(f"ln{i}", LayerNorm(dims))
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        for i in range(1, count + 1):
            self.__setattr__(f"dropout{i}", Dropout(dropout))
        self.activation = activation
        self.norm_first = norm_first


class TransformerEncoderLayer(_Block):
    """Self-attention and a two-layer perceptron, both residual; (N, L, dims) to (N, L, dims)."""

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(dims, num_heads)
        self._setup(2, dims, mlp_dims, dropout, activation, norm_first)

    def __call__(self, x, mask):
        return self._feed_forward(self._attend(x, 1, "attention", mask), 2)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder's output and a perceptron, all residual."""

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self._setup(3, dims, mlp_dims, dropout, activation, norm_first)

    def __call__(self, x, memory, x_mask, memory_mask):
        x = self._attend(x, 1, "self_attention", x_mask)
        x = self._attend(x, 2, "cross_attention", memory_mask, memory)
        return self._feed_forward(x, 3)


class _Stack(Module):
    """A number of equal blocks and a final norm; with `checkpoint`, blocks are recomputed for gradients."""

    _block: type[_Block]

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation=relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ):
        super().__init__()
        self.layers = [
            self._block(dims, num_heads, mlp_dims, dropout, activation, norm_first) for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def _run(self, x, *args):
        for layer in self["layers"]:
            x = (_checkpointed(layer) if self.checkpoint else layer)(x, *args)
        return self["ln"](x)


class TransformerEncoder(_Stack):
    """A stack of `TransformerEncoderLayer` and a final norm; called with (x, mask)."""

    _block = TransformerEncoderLayer

    def __call__(self, x, mask):
        return self._run(x, mask)


class TransformerDecoder(_Stack):
    """A stack of `TransformerDecoderLayer` and a final norm; called with (x, memory, x_mask, memory_mask)."""

    _block = TransformerDecoderLayer

    def __call__(self, x, memory, x_mask, memory_mask):
        return self._run(x, memory, x_mask, memory_mask)


class Transformer(Module):
    """An encoder and a decoder; called with (src, tgt, src_mask, tgt_mask, memory_mask)."""

    def __init__(
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ):
        super().__init__()
        rest = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        self.encoder = custom_encoder or TransformerEncoder(num_encoder_layers, *rest)
        self.decoder = custom_decoder or TransformerDecoder(num_decoder_layers, *rest)

    def __call__(self, src, tgt, src_mask, tgt_mask, memory_mask):
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)
