"""Layers made of layers."""

from __future__ import annotations

import oxmlx.core as mx

from .base import Module


class Sequential(Module):
    """Calls its modules, or plain functions, one after the other."""

    def __init__(self, *modules):
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self["layers"]:
            x = layer(x)
        return x
