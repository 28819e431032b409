"""The options of the Python tests. They stand here since pytest reads this file before it knows the
arguments, so that `pytest --device gpu` works; what they do is in `python/conftest.py`.
"""

import os


def pytest_addoption(parser):
    parser.addoption(
        "--device",
        choices=("cpu", "gpu"),
        default=os.environ.get("OXMLX_TEST_DEVICE") or "cpu",
        help="the device that the tests run on",
    )
    parser.addoption("--run-long", action="store_true", help="also run what takes minutes")
