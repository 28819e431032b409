"""Ways to tell a transformer where a token stands."""

from __future__ import annotations

import math

import oxmlx.core as mx

from .base import Module


class RoPE(Module):
    """Rotary position encoding of the last axis of (..., sequence, dims). (Su et al., 2021.)

    Only the first `dims` features are rotated. `traditional` rotates neighbouring features instead of the two
    halves; `base` and `scale` set the frequencies and the spacing of positions.
    """

    def __init__(self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0):
        super().__init__()
        self.dims = dims
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        return mx.fast.rope(
            x, self.dims, traditional=self.traditional, base=self.base, scale=self.scale, offset=offset
        )


class SinusoidalPositionalEncoding(Module):
    """Sines and cosines of positions at geometrically spaced frequencies. (Vaswani et al., 2017.)

    The frequencies run from `max_freq` down to `min_freq`, times two pi with `full_turns`; `scale` defaults
    to sqrt(2 / dims). The input is an array of positions of any shape, the output has one more axis, `dims`
    long: sines before cosines unless `cos_first`.
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ):
        super().__init__()
        one_zero = 1 - mx.arange(0, dims // 2) / (dims // 2 - 1)
        min_log, max_log = math.log(min_freq), math.log(max_freq)
        # The underscore keeps it out of the parameters.
        self._sigmas = mx.exp(one_zero * (max_log - min_log) + min_log)
        if full_turns:
            self._sigmas = self._sigmas * (2 * math.pi)
        self.scale = scale or (2 / dims) ** 0.5
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        angle = x[..., None] * self["_sigmas"]
        parts = [mx.sin(angle), mx.cos(angle)]
        y = mx.concatenate(parts[::-1] if self.cos_first else parts, axis=-1)
        return y if self.scale == 1 else y * self.scale


class ALiBi(Module):
    """Linear biases of attention scores by distance. (Press et al., 2021.)

    The input is scores of shape (..., heads, queries, keys); an additive mask may be given too.
    """

    _last: tuple = (None, None)

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """The biases, of shape (1, num_heads, queries - offset, keys); the last matrix made is kept."""
        key = (q_sequence_length, k_sequence_length, num_heads, offset, dtype)
        if ALiBi._last[0] != key:
            x1 = mx.arange(offset, q_sequence_length)
            x2 = mx.arange(0, k_sequence_length)
            distance = -mx.abs(mx.expand_dims(x1[:, None] - x2[None, :], axis=(0, 1)))
            slope = ALiBi.create_alibi_slope(num_heads=num_heads)
            ALiBi._last = (key, (distance * slope).astype(dtype))
        return ALiBi._last[1]

    @staticmethod
    def create_alibi_slope(num_heads: int) -> mx.array:
        """One slope a head, of shape (num_heads, 1, 1): a geometric sequence that ends at 2^-8."""
        x = (2**8) ** (1 / num_heads)
        return mx.expand_dims(mx.power(x, -mx.arange(1, num_heads + 1)), axis=(-1, -2))

    def __call__(self, attention_scores, offset=0, mask=None):
        bias = self.create_alibi_matrix(
            q_sequence_length=attention_scores.shape[-2] + offset,
            k_sequence_length=attention_scores.shape[-1],
            num_heads=attention_scores.shape[1],
            offset=offset,
            dtype=attention_scores.dtype,
        )
        return attention_scores + (bias if mask is None else bias + mask)
