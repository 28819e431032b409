"""`oxmlx.core`: the names of `mlx.core`, taken from the native module.

This package exists because the native module has a few names of its own (`tree`, `debug`) that MLX does
not have, and because its submodules must be importable: `import oxmlx.core.random` needs them in
`sys.modules`, which an extension module does not do by itself.
"""

import sys

from oxmlx import _core

# What the native module offers to the rest of this package but MLX's `core` does not have.
_OWN = frozenset(("debug", "tree", "OutOfMemoryError"))

_module_type = type(sys)
for _name, _value in vars(_core).items():
    if _name in _OWN or (_name.startswith("__") and _name not in ("__version__", "__array_namespace_info__")):
        continue
    globals()[_name] = _value
    if isinstance(_value, _module_type):
        sys.modules[f"{__name__}.{_name}"] = _value

# Programs that are older than MLX's other backends ask `metal` for these.
for _name in (
    "clear_cache",
    "get_active_memory",
    "get_cache_memory",
    "get_peak_memory",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
):
    setattr(_core.metal, _name, getattr(_core, _name))
_core.metal.device_info = dict
_core.metal.start_capture = lambda path: None
_core.metal.stop_capture = lambda: None

del sys, _core, _name, _value, _module_type
