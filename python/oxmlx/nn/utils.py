"""Gradients of functions of a model.

This module exists because `mx.value_and_grad` differentiates arguments, while the parameters of a model are
its attributes: the functions here move parameters in and out of the model around the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import oxmlx.core as mx
from oxmlx.utils import tree_flatten, tree_map, tree_reduce, tree_unflatten

from .layers.base import Module, _update

__all__ = ["average_gradients", "checkpoint", "clip_grad_norm_sharded", "value_and_grad"]


def _restore(module: dict | list, traced: dict | list, original: dict | list) -> None:
    """Put the parameters back wherever the model still holds the traced ones."""
    for key in traced if isinstance(traced, dict) else range(len(traced)):
        leaf = traced[key]
        if isinstance(leaf, (dict, list)):
            _restore(module[key], leaf, original[key])
        elif module.get(key) is leaf if isinstance(module, dict) else module[key] is leaf:
            module[key] = original[key]


def value_and_grad(model: Module, fn: Callable):
    """A function that returns the value of `fn` and its gradients by the trainable parameters of `model`.

    `fn` is called with the arguments of the call and must return a scalar array, or a tuple or list that
    begins with one; the gradients form a tree like `model.trainable_parameters()`.
    """

    def inner(params, *args, **kwargs):
        _update(model, params, True)
        try:
            return fn(*args, **kwargs)
        finally:
            # A traced parameter left in the model would keep this step's graph alive.
            _restore(model, params, originals[-1])

    originals: list = []
    call = mx.value_and_grad(inner)

    @wraps(fn) if callable(fn) else (lambda f: f)
    def value_and_gradients(*args, **kwargs):
        parameters = model.trainable_parameters()
        originals.append(parameters)
        try:
            return call(parameters, *args, **kwargs)
        finally:
            originals.pop()

    return value_and_gradients


def checkpoint(module: Module, fn: Callable | None = None):
    """A function like `fn` (by default the module's call) that keeps no intermediates for its gradient.

    They are computed again when the gradient is. (Chen et al., 2016.) The gradients by the module's trainable
    parameters flow as usual.
    """
    fn = module if fn is None else fn

    def inner(params, *args, **kwargs):
        _update(module, params, True)
        return fn(*args, **kwargs)

    call = mx.checkpoint(inner)

    @wraps(fn)
    def checkpointed(*args, **kwargs):
        return call(module.trainable_parameters(), *args, **kwargs)

    return checkpointed


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
):
    """The mean of each gradient over the processes of `group`; with one process, the gradients themselves.

    Small gradients are sent together, in messages of about `all_reduce_size` bytes (0: one message each).
    """
    group = group or mx.distributed.init()
    size = group.size()
    if size == 1:
        return gradients

    def mean(x):
        return mx.distributed.all_sum(x, group=group, stream=communication_stream) / size

    if all_reduce_size <= 0:
        return tree_map(mean, gradients)
    flat = tree_flatten(gradients)
    if len({g.dtype for _, g in flat}) > 1:
        # One message has one dtype.
        return tree_map(mean, gradients)
    out: list = []
    start, pending = 0, 0
    for i, (_, gradient) in enumerate(flat):
        pending += gradient.nbytes
        if pending >= all_reduce_size or i == len(flat) - 1:
            part = flat[start : i + 1]
            joined = mean(mx.concatenate([g.reshape(-1) for _, g in part]))
            ends, total = [], 0
            for _, g in part[:-1]:
                total += g.size
                ends.append(total)
            pieces = mx.split(joined, ends) if ends else [joined]
            out += [(k, piece.reshape(g.shape)) for (k, g), piece in zip(part, pieces)]
            start, pending = i + 1, 0
    return tree_unflatten(out)


def clip_grad_norm_sharded(gradients: Any, max_norm: float, group: mx.distributed.Group | None = None):
    """`clip_grad_norm` for gradients of which each process of `group` holds a part."""
    group = group or mx.distributed.init()
    total = tree_reduce(lambda acc, g: acc + g.square().sum(), gradients, mx.array(0.0))
    norm = mx.sqrt(mx.distributed.all_sum(total, group=group))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: g * factor, gradients), norm
