"""Lets programs that import `mlx` run on oxmlx: `import oxmlx.as_mlx` before they do.

The modules of this package, the very same objects, are registered in `sys.modules` under their MLX names. A
module of the same objects, rather than one that copies names, keeps class identity, pickling and module-level
state (such as the random state) right whichever name a program uses.
"""

import importlib
import sys
import types

# Imported by name, so that every public submodule is there to be registered.
_MODULES = (
    "core",
    "nn",
    "nn.init",
    "nn.layers",
    "nn.losses",
    "nn.utils",
    "optimizers",
    "optimizers.optimizers",
    "optimizers.schedulers",
    "utils",
)


def install() -> None:
    """Register oxmlx as `mlx`. Raises RuntimeError when official MLX is loaded already."""
    loaded = sys.modules.get("mlx.core")
    ours = importlib.import_module("oxmlx.core")
    if loaded is not None and loaded is not ours:
        raise RuntimeError(
            "mlx.core is imported already, and it is not oxmlx: import oxmlx.as_mlx before anything that "
            "imports mlx, or start the program with `python -m oxmlx run`."
        )
    package = types.ModuleType("mlx", "oxmlx under the name of MLX.")
    # A package needs a path; an empty one keeps an installed MLX from being found behind it.
    package.__path__ = []
    sys.modules["mlx"] = package
    for name in _MODULES:
        importlib.import_module(f"oxmlx.{name}")
    for name, module in list(sys.modules.items()):
        if name.startswith(("oxmlx.core", "oxmlx.nn", "oxmlx.optimizers", "oxmlx.utils")):
            sys.modules["mlx" + name[len("oxmlx") :]] = module
    for name in ("core", "nn", "optimizers", "utils"):
        setattr(package, name, sys.modules[f"oxmlx.{name}"])


install()
