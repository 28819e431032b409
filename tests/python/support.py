"""What several test files share: which package is tested, and programs in processes of their own."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import oxmlx.core as mx

IS_OFFICIAL_MLX = mx.array.__module__.startswith("mlx")


def python(code, timeout=300, **env):
    """Run a program in a process of its own, on the device under test; its output."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@functools.cache
def bits(**env) -> list[tuple[str, str]]:
    """What `bits_program.py` computes with these settings; it must compute the same each time."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bits_program as b; b.main()"
    )
    found, differing = python(code, **env).splitlines()
    assert eval(differing) == []
    return eval(found)
