"""Recurrent layers: one matrix product for all inputs of a sequence, then a loop over its steps.

The three layers differ in their gates and in what they carry from step to step; the base class has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import oxmlx.core as mx

from .activations import tanh
from .base import Module


class _Recurrent(Module):
    """Shared: weights `Wx` (gates * hidden, input) and `Wh` (gates * hidden, hidden) and the loop."""

    _gates: int

    def _setup(self, input_size: int, hidden_size: int, bias: bool) -> float:
        scale = 1.0 / math.sqrt(hidden_size)
        rows = self._gates * hidden_size
        self.Wx = mx.random.uniform(low=-scale, high=scale, shape=(rows, input_size))
        self.Wh = mx.random.uniform(low=-scale, high=scale, shape=(rows, hidden_size))
        return scale

    def _project(self, x: mx.array, bias: str) -> mx.array:
        return mx.addmm(self[bias], x, self["Wx"].T) if bias in self else x @ self["Wx"].T

    def _loop(self, x: mx.array, carry: tuple, step: Callable) -> list[mx.array]:
        """Run `step(x_t, *carry) -> carry` over the second last axis; every carry, stacked over time."""
        found = []
        for t in range(x.shape[-2]):
            carry = step(x[..., t, :], *carry)
            found.append(carry)
        return [mx.stack(part, axis=-2) for part in zip(*found)]


class RNN(_Recurrent):
    """h_t = f(Wx x_t + Wh h_{t-1} + b), with f tanh unless given. (Elman, 1990.)

    Input (..., L, input_size), output all hidden states (..., L, hidden_size). ValueError when
    `nonlinearity` is not callable.
    """

    _gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: Callable | None = None
    ):
        super().__init__()
        self.nonlinearity = nonlinearity or tanh
        if not callable(self.nonlinearity):
            raise ValueError(f"Nonlinearity must be callable. Current value: {nonlinearity}.")
        scale = 1.0 / math.sqrt(hidden_size)
        self.hidden_size = hidden_size
        self.Wxh = mx.random.uniform(low=-scale, high=scale, shape=(hidden_size, input_size))
        self.Whh = mx.random.uniform(low=-scale, high=scale, shape=(hidden_size, hidden_size))
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(hidden_size,))

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={self.nonlinearity}, bias={'bias' in self}"
        )

    def __call__(self, x, hidden=None):
        x = mx.addmm(self["bias"], x, self["Wxh"].T) if "bias" in self else x @ self["Wxh"].T
        recurrent = self["Whh"].T

        def step(xt, h=None):
            return (self.nonlinearity(xt if h is None else mx.addmm(xt, h, recurrent)),)

        return self._loop(x, () if hidden is None else (hidden,), step)[0]


class GRU(_Recurrent):
    """Gated recurrent unit: h_t = (1 - z) n + z h_{t-1}. (Cho et al., 2014.)

    Input (..., L, input_size), output all hidden states (..., L, hidden_size).
    """

    _gates = 3

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        self.hidden_size = hidden_size
        scale = self._setup(input_size, hidden_size, bias)
        if bias:
            self.b = mx.random.uniform(low=-scale, high=scale, shape=(3 * hidden_size,))
            self.bhn = mx.random.uniform(low=-scale, high=scale, shape=(hidden_size,))

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={'b' in self}"

    def __call__(self, x, hidden=None):
        n = self.hidden_size
        recurrent = self["Wh"].T

        def step(xt, h=None):
            gates, new = xt[..., : 2 * n], xt[..., 2 * n :]
            bias = self.get("bhn")
            if h is None:
                extra = bias
            else:
                hidden_part = h @ recurrent
                gates = gates + hidden_part[..., : 2 * n]
                extra = hidden_part[..., 2 * n :]
                if bias is not None:
                    extra = extra + bias
            reset, update = mx.split(mx.sigmoid(gates), 2, axis=-1)
            new = mx.tanh(new if extra is None else new + reset * extra)
            mixed = (1 - update) * new
            return (mixed if h is None else mixed + update * h,)

        return self._loop(self._project(x, "b"), () if hidden is None else (hidden,), step)[0]


class LSTM(_Recurrent):
    """Long short-term memory: c_t = f c_{t-1} + i g, h_t = o tanh(c_t). (Hochreiter and Schmidhuber, 1997.)

    Input (..., L, input_size), output all hidden states and all cell states, each (..., L, hidden_size).
    """

    _gates = 4

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        self.hidden_size = hidden_size
        scale = self._setup(input_size, hidden_size, bias)
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(4 * hidden_size,))

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={'bias' in self}"

    def __call__(self, x, hidden=None, cell=None):
        recurrent = self["Wh"].T

        def step(xt, h, c):
            gates = xt if h is None else mx.addmm(xt, h, recurrent)
            i, f, g, o = mx.split(gates, 4, axis=-1)
            c = mx.sigmoid(i) * mx.tanh(g) if c is None else mx.sigmoid(f) * c + mx.sigmoid(i) * mx.tanh(g)
            return mx.sigmoid(o) * mx.tanh(c), c

        return tuple(self._loop(self._project(x, "bias"), (hidden, cell), step))
