"""Layers that hold a part of their weights in each process of a group, and the functions that make them.

There are two ways to cut a linear map: by outputs, where every process has all inputs ("all-to-sharded"), and
by inputs, where the products are summed over the group ("sharded-to-all"). One mixin each says what is
communicated; plain and quantized layers differ only in the product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import oxmlx.core as mx
from oxmlx.utils import tree_map_with_path

from .base import Module
from .linear import Linear
from .quantized import QuantizedLinear

_SHARDINGS = ("all-to-sharded", "sharded-to-all")


@lru_cache
def sum_gradients(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """The identity, whose gradient is summed over the processes of `group`."""
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def identity(x):
        return x

    @identity.vjp
    def identity_vjp(x, cotangent, _):
        return mx.distributed.all_sum(cotangent, group=group)

    return identity


def _split(weight: mx.array, segments: int | list, axis: int) -> list[mx.array]:
    """Cut into equal parts, or at the given indices or fractions of the axis."""
    if isinstance(segments, int) or isinstance(segments[0], int):
        return mx.split(weight, segments, axis=axis)
    return mx.split(weight, [int(s * weight.shape[axis]) for s in segments], axis=axis)


def _all_to_sharded(segments):
    return lambda path, weight: (max(weight.ndim - 2, 0), segments)


def _sharded_to_all(segments):
    return lambda path, weight: None if path.endswith("bias") else (-1, segments)


def _check_sharding(sharding: str) -> None:
    if sharding not in _SHARDINGS:
        choice = " or ".join(map(repr, _SHARDINGS))
        raise ValueError(f"Sharding type {sharding=} not supported, choose one of {choice}")


def _shard(parameters: dict, sharding: Callable, group: mx.distributed.Group) -> dict:
    """This process's part of each parameter; `sharding(path, weight)` gives the axis and the segments."""
    size, rank = group.size(), group.rank()

    def part(path, weight):
        if not isinstance(weight, mx.array):
            return weight
        where = sharding(path, weight)
        if where is None:
            return weight
        axis, segments = where if isinstance(where, tuple) else (where, 1)
        parts = [_split(segment, size, axis)[rank] for segment in _split(weight, segments, axis)]
        return mx.contiguous(mx.concatenate(parts, axis=axis))

    return tree_map_with_path(part, parameters)


def shard_inplace(
    module: Module,
    sharding: str | Callable,
    *,
    segments: int | list = 1,
    group: mx.distributed.Group | None = None,
) -> None:
    """Keep only this process's part of the parameters of `module`; nothing is communicated in its calls.

    `sharding` is "all-to-sharded", "sharded-to-all" or a function of (path, weight) that returns an axis, or
    an axis and segments, or None for parameters that stay whole. `segments` are the parts of a fused weight
    that are cut one by one. An unknown name is a ValueError.
    """
    if isinstance(sharding, str):
        _check_sharding(sharding)
        sharding = (_all_to_sharded if sharding == _SHARDINGS[0] else _sharded_to_all)(segments)
    module.update(_shard(module.parameters(), sharding, group or mx.distributed.init()))


def shard_linear(
    module: Module, sharding: str, *, segments: int | list = 1, group: mx.distributed.Group | None = None
) -> Module:
    """A sharded layer of the weights of a `Linear` or `QuantizedLinear`; see `shard_inplace`."""
    _check_sharding(sharding)
    by_output = sharding == _SHARDINGS[0]
    if isinstance(module, QuantizedLinear):
        layer = QuantizedAllToShardedLinear if by_output else QuantizedShardedToAllLinear
        return layer.from_quantized_linear(module, segments=segments, group=group)
    return (AllToShardedLinear if by_output else ShardedToAllLinear).from_linear(
        module, segments=segments, group=group
    )


class _Sharded(Module):
    """The group, the check of sizes, and the making of a layer from an unsharded one."""

    _sharding: Callable
    _cuts_output: bool

    def _join(self, input_dims: int, output_dims: int, group) -> tuple[int, int]:
        """Take the group; this process's sizes."""
        self.group = group or mx.distributed.init()
        size = self.group.size()
        cut, name = (output_dims, "output") if self._cuts_output else (input_dims, "input")
        if cut % size:
            raise ValueError(f"Cannot shard the {name} of size {cut} across {size} devices.")
        return (input_dims, output_dims // size) if self._cuts_output else (input_dims // size, output_dims)

    def _whole(self, output_dims: int, input_dims: int) -> str:
        size = self.group.size()
        if self._cuts_output:
            output_dims *= size
        else:
            input_dims *= size
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if self._cuts_output:
            y = self._product(sum_gradients(self.group)(x))
        else:
            y = mx.distributed.all_sum(self._product(x), group=self.group)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def _from(cls, module: Module, *arguments, segments, group):
        output_dims, input_dims = module._dims() if hasattr(module, "_dims") else module.weight.shape
        layer = cls(input_dims, output_dims, "bias" in module, *arguments, group=group)
        layer.update(_shard(module.parameters(), cls._sharding(segments), layer.group))
        return layer


class _ShardedLinear(_Sharded):
    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group: mx.distributed.Group | None = None,
    ):
        super().__init__()
        scale = math.sqrt(1.0 / input_dims)
        columns, rows = self._join(input_dims, output_dims, group)
        self.weight = mx.random.uniform(low=-scale, high=scale, shape=(rows, columns))
        if bias:
            self.bias = mx.random.uniform(low=-scale, high=scale, shape=(rows,))

    def _extra_repr(self) -> str:
        return self._whole(*self.weight.shape)

    def _product(self, x: mx.array) -> mx.array:
        return x @ self["weight"].T

    @classmethod
    def from_linear(cls, linear_layer: Linear, *, segments: int | list = 1, group=None):
        """This process's part of a `Linear`."""
        return cls._from(linear_layer, segments=segments, group=group)


class _ShardedQuantizedLinear(_Sharded, QuantizedLinear):
    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: mx.distributed.Group | None = None,
    ):
        Module.__init__(self)
        columns, rows = self._join(input_dims, output_dims, group)
        QuantizedLinear.__init__(self, columns, rows, bias, group_size, bits, mode)

    def _extra_repr(self) -> str:
        return f"{self._whole(*self._dims())}, {self._describe()}"

    def _product(self, x: mx.array) -> mx.array:
        return self._matmul(x)

    @classmethod
    def from_quantized_linear(cls, quantized_linear_layer: Module, *, segments: int | list = 1, group=None):
        """This process's part of a `QuantizedLinear`."""
        layer = quantized_linear_layer
        arguments = (layer.group_size, layer.bits, layer.mode)
        return cls._from(layer, *arguments, segments=segments, group=group)


class AllToShardedLinear(_ShardedLinear):
    """A linear layer cut by outputs: all inputs here, a part of the outputs; input gradients are summed."""

    _sharding, _cuts_output = staticmethod(_all_to_sharded), True


class ShardedToAllLinear(_ShardedLinear):
    """A linear layer cut by inputs: a part of the inputs here, all outputs, summed over the group."""

    _sharding, _cuts_output = staticmethod(_sharded_to_all), False


class QuantizedAllToShardedLinear(_ShardedQuantizedLinear):
    """`AllToShardedLinear` with packed weights."""

    _sharding, _cuts_output = staticmethod(_all_to_sharded), True


class QuantizedShardedToAllLinear(_ShardedQuantizedLinear):
    """`ShardedToAllLinear` with packed weights."""

    _sharding, _cuts_output = staticmethod(_sharded_to_all), False
