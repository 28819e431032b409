"""What several test files share: which package is tested, and programs in processes of their own."""

import os
import subprocess
import sys

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
