"""Shared by all Python tests: which package and which device are tested, and a fresh random state for each.

The suite is one: `--device gpu` (or OXMLX_TEST_DEVICE=gpu) runs it with the GPU as the default device, here
and in every process that a test starts. Without it the CPU is tested, also where a GPU is found. The suite
also runs against official MLX, which keeps the expected values honest: there, the tests of what MLX cannot do
are expected to fail.
"""

import os

# As in MLX, products of float32 use TF32 on a GPU. The table's tolerances are those of float32, so that is
# off here; `test_gpu.py` tests it by itself. The engine reads the variable once.
os.environ.setdefault("OXMLX_TF32", "0")
os.environ.setdefault("MLX_ENABLE_TF32", "0")

import oxmlx.core as mx
import pytest
from support import IS_OFFICIAL_MLX
from table_exemptions import BEYOND_MLX


def pytest_configure(config):
    device = config.getoption("--device")
    if device not in ("cpu", "gpu"):
        raise pytest.UsageError(f"OXMLX_TEST_DEVICE is {device!r}: say cpu or gpu.")
    # Processes that tests start ask the environment; modules make arrays when they are collected, so the
    # device must be set before that.
    os.environ["OXMLX_DEVICE"] = device
    try:
        mx.set_default_device(getattr(mx, device))
    except (RuntimeError, ValueError) as error:
        raise pytest.UsageError(f"--device {device}: {error}") from None


def pytest_collection_modifyitems(config, items):
    device = config.getoption("--device")
    for item in items:
        if device != "gpu" and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs --device gpu"))
        if device != "cpu" and (marker := item.get_closest_marker("cpu_only")):
            item.add_marker(pytest.mark.skip(reason=marker.args[0]))
        if item.get_closest_marker("long") and not config.getoption("--run-long"):
            item.add_marker(pytest.mark.skip(reason="needs --run-long"))
        if IS_OFFICIAL_MLX and (item.get_closest_marker("beyond_mlx") or item.name.startswith(BEYOND_MLX)):
            item.add_marker(pytest.mark.xfail(reason="official MLX differs", strict=False))


@pytest.fixture(autouse=True)
def _seed():
    mx.random.seed(0)


@pytest.fixture
def device(request) -> str:
    """The device under test: "cpu" or "gpu"."""
    return request.config.getoption("--device")
