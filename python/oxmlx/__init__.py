"""oxmlx: a lazy array engine with the API of MLX, for Linux CPUs and NVIDIA GPUs.

This file exists to make `import oxmlx` nearly free: it loads no native code. `oxmlx.core` does, and
`OutOfMemoryError` and `debug`, which live there, are looked up on first use.
"""

__version__ = "0.1.0"

__all__ = ["OutOfMemoryError", "__version__", "debug"]


def __getattr__(name):
    if name == "OutOfMemoryError":
        from oxmlx._core import OutOfMemoryError

        return OutOfMemoryError
    if name == "debug":
        import importlib

        return importlib.import_module("oxmlx.debug")
    raise AttributeError(f"module 'oxmlx' has no attribute {name!r}")
