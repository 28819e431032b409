"""How arrays and the small objects of the library print: user programs and doctests depend on it."""

import oxmlx.core as mx
import pytest

CASES = [
    (lambda: mx.array(1.5), "array(1.5, dtype=float32)"),
    (lambda: mx.array(3), "array(3, dtype=int32)"),
    (lambda: mx.array(True), "array(True, dtype=bool)"),
    (lambda: mx.array(1 + 2j), "array(1+2j, dtype=complex64)"),
    (lambda: mx.array([]), "array([], dtype=float32)"),
    (lambda: mx.zeros((2, 0)), "array([[],\n       []], dtype=float32)"),
    (lambda: mx.array([1.0, 2.5, 1e10]), "array([1, 2.5, 1e+10], dtype=float32)"),
    (lambda: mx.array([123456789.0, 1e-5]), "array([1.23457e+08, 1e-05], dtype=float32)"),
    (lambda: mx.array([mx.inf, -mx.inf, mx.nan]), "array([inf, -inf, nan], dtype=float32)"),
    (lambda: mx.array([1.5], mx.bfloat16), "array([1.5], dtype=bfloat16)"),
    (lambda: mx.array([[1, 2], [3, 4]]), "array([[1, 2],\n       [3, 4]], dtype=int32)"),
    (lambda: mx.arange(7), "array([0, 1, 2, ..., 4, 5, 6], dtype=int32)"),
    (lambda: mx.arange(6), "array([0, 1, 2, 3, 4, 5], dtype=int32)"),
    (
        lambda: mx.arange(8).reshape(2, 2, 2),
        "array([[[0, 1],\n        [2, 3]],\n       [[4, 5],\n        [6, 7]]], dtype=int32)",
    ),
]


@pytest.mark.parametrize("make, text", CASES, ids=[text[:30].replace("\n", "") for _, text in CASES])
def test_repr_and_str(make, text):
    assert repr(make()) == text
    assert str(make()) == text


def test_long_rows_and_columns():
    lines = repr(mx.zeros((10, 10), mx.int32)).splitlines()
    assert len(lines) == 7
    assert lines[0] == "array([[0, 0, 0, ..., 0, 0, 0]," and lines[3] == "       ...,"


def test_dtypes_and_devices():
    assert str(mx.float32) == repr(mx.float32) == "mlx.core.float32"
    assert repr(mx.bool_) == "mlx.core.bool"
    assert repr(mx.Device(mx.cpu)) == "Device(cpu, 0)"
    assert repr(mx.cpu) == "DeviceType.cpu"
    assert repr(mx.finfo(mx.float32)) == "finfo(min=-3.40282e+38, max=3.40282e+38, dtype=float32)"


def test_format():
    assert f"{mx.array(1.5):.3f}" == "1.500"
    assert f"{mx.array(7):04d}" == "0007"
    assert f"{mx.array([1, 2])}" == "array([1, 2], dtype=int32)"


def test_precision_option():
    with mx.printoptions(precision=2):
        assert repr(mx.array(1.23456)) == "array(1.23, dtype=float32)"
    assert repr(mx.array(1.23456)) == "array(1.23456, dtype=float32)"
