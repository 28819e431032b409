"""Normalisation layers. Statistics over the last axis are native kernels; the rest are compositions."""

from __future__ import annotations

import oxmlx.core as mx

from .base import Module


class InstanceNorm(Module):
    """Normalise each channel of each sample over its spatial axes; input (N, ..., dims).

    y = (x - mean) / sqrt(var + eps) * weight + bias. (Ulyanov et al., 2016.)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False):
        super().__init__()
        if affine:
            self.weight = mx.ones((dims,))
            self.bias = mx.zeros((dims,))
        self.dims = dims
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        axes = tuple(range(1, x.ndim - 1))
        mean = mx.mean(x, axis=axes, keepdims=True)
        var = mx.var(x, axis=axes, keepdims=True)
        x = (x - mean) * mx.rsqrt(var + self.eps)
        return self["weight"] * x + self["bias"] if "weight" in self else x


class LayerNorm(Module):
    """Normalise over the last axis: y = (x - mean) / sqrt(var + eps) * weight + bias.

    `weight` (ones) and `bias` (zeros) have shape (dims,). (Ba et al., 2016.)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True):
        super().__init__()
        if affine:
            self.weight = mx.ones((dims,))
            if bias:
                self.bias = mx.zeros((dims,))
        self.eps = eps
        self.dims = dims

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    """Divide by the root mean square of the last axis: y = x / sqrt(mean(x^2) + eps) * weight.

    `weight` (ones) has shape (dims,). (Zhang and Sennrich, 2019.)
    """

    def __init__(self, dims: int, eps: float = 1e-5):
        super().__init__()
        self.weight = mx.ones((dims,))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self["weight"], self.eps)


class GroupNorm(Module):
    """Normalise groups of channels of each sample together; input (N, ..., dims).

    `pytorch_compatible` says how channels make groups: consecutive ones (True) or strided ones (False).
    Raises ValueError when `num_groups` does not divide `dims`. (Wu and He, 2018.)
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ):
        super().__init__()
        if dims % num_groups:
            raise ValueError(
                f"The number of features ({dims}) must be evenly divisible by "
                f"the number of groups ({num_groups})."
            )
        if affine:
            self.bias = mx.zeros((dims,))
            self.weight = mx.ones((dims,))
        self.num_groups = num_groups
        self.dims = dims
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, "
            f"affine={'weight' in self}, pytorch_compatible={self.pytorch_compatible}"
        )

    def _consecutive(self, x: mx.array) -> mx.array:
        batch, *rest, dims = x.shape
        size = dims // self.num_groups
        x = x.reshape(batch, -1, self.num_groups, size).transpose(0, 2, 1, 3)
        # One row holds a whole group, so the native kernel does the statistics.
        x = mx.fast.layer_norm(x.reshape(batch, self.num_groups, -1), None, None, self.eps)
        x = x.reshape(batch, self.num_groups, -1, size).transpose(0, 2, 1, 3)
        return x.reshape(batch, *rest, dims)

    def _strided(self, x: mx.array) -> mx.array:
        batch, *rest, dims = x.shape
        x = x.reshape(batch, -1, self.num_groups)
        mean = mx.mean(x, axis=1, keepdims=True)
        var = mx.var(x, axis=1, keepdims=True)
        x = (x - mean) * mx.rsqrt(var + self.eps)
        return x.reshape(batch, *rest, dims)

    def __call__(self, x: mx.array) -> mx.array:
        x = self._consecutive(x) if self.pytorch_compatible else self._strided(x)
        return self["weight"] * x + self["bias"] if "weight" in self else x


class BatchNorm(Module):
    """Normalise each feature over the batch and all spatial axes; input (N, C), (N, L, C) or (N, H, W, C).

    In training mode the statistics are the batch's, and, with `track_running_stats`, the running ones move
    towards them by `momentum`; in evaluation mode the running ones are used. Other numbers of axes are a
    ValueError. (Ioffe and Szegedy, 2015.)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = mx.ones((num_features,))
            self.bias = mx.zeros((num_features,))
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self._freeze_statistics()

    def _freeze_statistics(self) -> None:
        self._no_grad.update(("running_mean", "running_var"))

    def unfreeze(self, *args, **kwargs) -> Module:
        """As `Module.unfreeze`, but the running statistics stay frozen: they are no parameters."""
        super().unfreeze(*args, **kwargs)
        if self.track_running_stats:
            self._freeze_statistics()
        return self

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={'weight' in self}, track_running_stats={self.track_running_stats}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if not 2 <= x.ndim <= 4:
            raise ValueError(f"Expected input tensor to have 2, 3 or 4 dimensions, but got {x.ndim}")
        tracked = self.track_running_stats
        if self._training or not tracked:
            axes = tuple(range(x.ndim - 1))
            mean = mx.mean(x, axis=axes)
            var = mx.var(x, axis=axes)
            if self._training and tracked:
                mu = self.momentum
                # The running variance is the unbiased one, the variance that normalises is not.
                count = x.size // x.shape[-1]
                unbiased = var * (count / (count - 1)) if count > 1 else var
                self["running_mean"] = (1 - mu) * self["running_mean"] + mu * mean
                self["running_var"] = (1 - mu) * self["running_var"] + mu * unbiased
        else:
            mean, var = self["running_mean"], self["running_var"]
        x = (x - mean) * mx.rsqrt(var + self.eps)
        return self["weight"] * x + self["bias"] if "weight" in self else x
