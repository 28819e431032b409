"""Functions over trees of dicts, lists and tuples: the names of `mlx.utils`.

A training step walks parameter trees several times, and in Python those walks are most of its host time, so
all six functions are native. This module exists to give them their public address.
"""

from oxmlx import _core

tree_flatten = _core.tree.tree_flatten
tree_map = _core.tree.tree_map
tree_map_with_path = _core.tree.tree_map_with_path
tree_merge = _core.tree.tree_merge
tree_reduce = _core.tree.tree_reduce
tree_unflatten = _core.tree.tree_unflatten

__all__ = [
    "tree_flatten",
    "tree_map",
    "tree_map_with_path",
    "tree_merge",
    "tree_reduce",
    "tree_unflatten",
]

del _core
