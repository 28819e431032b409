"""`oxmlx.nn`: layers, losses, initializers and gradients of models, under the names of `mlx.nn`."""

from . import init, layers, losses, utils
from .layers import *  # noqa: F403
from .layers import __all__ as _layers
from .utils import average_gradients, value_and_grad

__all__ = ["average_gradients", "init", "layers", "losses", "utils", "value_and_grad", *_layers]
