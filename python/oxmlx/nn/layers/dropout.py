"""Random zeroing of elements or of whole channels, in training mode only.

The three layers are one idea: they differ in which axes of the random mask have their full length.
"""

from __future__ import annotations

import oxmlx.core as mx

from .base import Module


class Dropout(Module):
    """Zero each element with probability `p` and scale the others by 1/(1-p).

    Raises ValueError unless 0 <= p < 1. (Srivastava et al., 2014.)
    """

    # How many axes, counted from the third last, share one draw; how many axes the input may have.
    _shared = 0
    _ndims: tuple[int, ...] = ()

    def __init__(self, p: float = 0.5):
        super().__init__()
        if p < 0 or p >= 1:
            raise ValueError(f"The dropout probability {p} is not in [0, 1)")
        self._p_1 = 1 - p

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def __call__(self, x: mx.array) -> mx.array:
        keep = self._p_1
        if keep == 1 or not self._training:
            return x
        shape = x.shape
        if self._shared:
            if len(shape) not in self._ndims:
                expected = " or ".join(map(str, self._ndims))
                raise ValueError(
                    f"Received input with {len(shape)} dimensions. Expected {expected} dimensions."
                )
            shape = (*shape[: -self._shared - 1], *(1,) * self._shared, shape[-1])
        mask = mx.random.bernoulli(p=keep, shape=shape)
        return (mask * x) * (1 / keep)


class Dropout2d(Dropout):
    """Zero whole channels of (N, H, W, C) or (H, W, C) input with probability `p`.

    (Tompson et al., 2015.)
    """

    _shared = 2
    _ndims = (3, 4)


class Dropout3d(Dropout):
    """Zero whole channels of (N, D, H, W, C) or (D, H, W, C) input with probability `p`."""

    _shared = 3
    _ndims = (4, 5)
