"""Counters and facts about the running engine, for people who tune and for tests.

This module exists so that `oxmlx.debug.cache_stats()` has a stable address: MLX has no such names, so they
stay out of `oxmlx.core`. What it offers is whatever the native module's `debug` part offers.
"""

from oxmlx import _core

for _name, _value in vars(_core.debug).items():
    if not _name.startswith("_"):
        globals()[_name] = _value

del _core, _name, _value
