"""Maximum and average over sliding windows of one, two or three spatial axes, channels last.

There is no pooling kernel: windows become axes and a reduction runs over them. Where windows do not overlap
and divide the input, that is a reshape; else it is a stack of strided slices, one a place in the window.
"""

from __future__ import annotations

from itertools import product

import oxmlx.core as mx

from .base import Module


def _as_tuple(value, rank: int, layer: str, name: str) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * rank
    if isinstance(value, tuple) and len(value) == rank and all(isinstance(v, int) for v in value):
        return value
    raise ValueError(f"[{layer}] '{name}' must be an integer or a tuple containing {rank} integers")


def _windows(x: mx.array, size: tuple, stride: tuple) -> mx.array:
    """(N, *spatial, C) as (N, *positions, *size, C): a view where possible."""
    batch, *spatial, channels = x.shape
    rank = len(size)
    if len(spatial) < 1 or len(spatial) != rank:
        raise ValueError(
            "To extract sliding windows at least 1 spatial dimension (3 total) is needed but the input only "
            f"has {x.ndim} dimensions."
            if len(spatial) < 1
            else f"To extract sliding windows the window shapes and strides must have {len(spatial)} "
            f"elements, but {rank} were given."
        )
    if stride == size and all(n % k == 0 for n, k in zip(spatial, size)):
        split = [d for n, k in zip(spatial, size) for d in (n // k, k)]
        order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1]
        return x.reshape(batch, *split, channels).transpose(order)
    # Windows that overlap: one strided slice a place in the window, side by side.
    positions = [(n - k) // s + 1 for n, k, s in zip(spatial, size, stride)]
    slices = [
        x[(slice(None), *(slice(o, o + (p - 1) * s + 1, s) for o, p, s in zip(offsets, positions, stride)))]
        for offsets in product(*map(range, size))
    ]
    return mx.stack(slices, axis=rank + 1).reshape(batch, *positions, *size, channels)


class _Pool(Module):
    """All pooling layers; `_reduce` and `_fill` say what is done, `_rank` over how many axes."""

    _rank: int

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        name = type(self).__name__
        self._kernel_size = _as_tuple(kernel_size, self._rank, name, "kernel_size")
        self._stride = self._kernel_size
        if stride is not None:
            self._stride = _as_tuple(stride, self._rank, name, "stride")
        self._padding = [(p, p) for p in _as_tuple(padding, self._rank, name, "padding")]
        self._axes = tuple(range(-self._rank - 1, -1))

    def _extra_repr(self) -> str:
        padding = tuple(before for before, _ in self._padding)
        return f"kernel_size={self._kernel_size}, stride={self._stride}, padding={padding}"

    def __call__(self, x: mx.array) -> mx.array:
        if any(before for before, _ in self._padding):
            x = mx.pad(x, [(0, 0), *self._padding, (0, 0)], constant_values=self._fill)
        return self._reduce(_windows(x, self._kernel_size, self._stride), self._axes)


class _Max(_Pool):
    _fill = -float("inf")

    def _reduce(self, windows: mx.array, axes: tuple) -> mx.array:
        return mx.max(windows, axis=axes)


class _Average(_Pool):
    _fill = 0

    def _reduce(self, windows: mx.array, axes: tuple) -> mx.array:
        return mx.mean(windows, axis=axes)


class MaxPool1d(_Max):
    """Maximum over windows of (N, L, C). `stride` defaults to `kernel_size`; padding counts as -inf."""

    _rank = 1


class MaxPool2d(_Max):
    """Maximum over windows of (N, H, W, C). `stride` defaults to `kernel_size`; padding counts as -inf."""

    _rank = 2


class MaxPool3d(_Max):
    """Maximum over windows of (N, D, H, W, C). `stride` defaults to `kernel_size`; padding counts as -inf."""

    _rank = 3


class AvgPool1d(_Average):
    """Average over windows of (N, L, C). `stride` defaults to `kernel_size`; padding counts as zero."""

    _rank = 1


class AvgPool2d(_Average):
    """Average over windows of (N, H, W, C). `stride` defaults to `kernel_size`; padding counts as zero."""

    _rank = 2


class AvgPool3d(_Average):
    """Average over windows of (N, D, H, W, C). `stride` defaults to `kernel_size`; padding counts as zero."""

    _rank = 3
