"""The array object: creation, dtypes, promotion, operators, attributes and in-place updates."""

import copy
import pickle

import numpy as np
import oxmlx.core as mx
import pytest

ORDER = ["b", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "bf", "f4", "f8", "c8"]
DTYPES = dict(
    zip(
        ORDER,
        (
            mx.bool_,
            mx.uint8,
            mx.uint16,
            mx.uint32,
            mx.uint64,
            mx.int8,
            mx.int16,
            mx.int32,
            mx.int64,
            mx.float16,
            mx.bfloat16,
            mx.float32,
            mx.float64,
            mx.complex64,
        ),
    )
)
PROMOTION = """
u1 u1 u1 u2 u4 u8 i2 i2 i4 i8 f2 bf f4 f8 c8
u2 u2 u2 u2 u4 u8 i4 i4 i4 i8 f2 bf f4 f8 c8
u4 u4 u4 u4 u4 u8 i8 i8 i8 i8 f2 bf f4 f8 c8
u8 u8 u8 u8 u8 u8 f4 f4 f4 f4 f2 bf f4 f8 c8
i1 i1 i2 i4 i8 f4 i1 i2 i4 i8 f2 bf f4 f8 c8
i2 i2 i2 i4 i8 f4 i2 i2 i4 i8 f2 bf f4 f8 c8
i4 i4 i4 i4 i8 f4 i4 i4 i4 i8 f2 bf f4 f8 c8
i8 i8 i8 i8 i8 f4 i8 i8 i8 i8 f2 bf f4 f8 c8
f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8
bf bf bf bf bf bf bf bf bf bf f4 bf f4 f8 c8
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c8
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
"""


@pytest.mark.parametrize("row", [line.split() for line in PROMOTION.strip().splitlines()], ids=lambda r: r[0])
def test_promotion(row):
    """The whole promotion table; 0-d arrays promote like any other."""
    left = DTYPES[row[0]]
    for name, expected in zip(ORDER, row[1:]):
        right = DTYPES[name]
        assert mx.result_type(left, right) == DTYPES[expected]
        assert mx.result_type(right, left) == DTYPES[expected]
        assert (mx.zeros((2,), left) + mx.zeros((), right)).dtype == DTYPES[expected]


@pytest.mark.parametrize(
    "dtype, scalar, expected",
    [
        (mx.int8, 1, mx.int8),
        (mx.bool_, 1, mx.int32),
        (mx.bool_, True, mx.bool_),
        (mx.uint8, 1.5, mx.float32),
        (mx.float16, 1.5, mx.float16),
        (mx.bfloat16, 2, mx.bfloat16),
        (mx.float32, 1j, mx.complex64),
        (mx.complex64, 1.5, mx.complex64),
        (mx.int16, True, mx.int16),
        (mx.float16, np.float64(1.5), mx.float16),
    ],
    ids=str,
)
def test_python_scalars_are_weak(dtype, scalar, expected):
    x = mx.zeros((2,), dtype)
    assert (x + scalar).dtype == expected
    assert (scalar + x).dtype == expected if not isinstance(scalar, np.generic) else True


def test_numpy_operands_take_the_array_dtype():
    assert (mx.array([1, 2]) + np.array([1.5, 2.5])).tolist() == [2, 4]
    assert (mx.array([True]) + np.int64(2)).dtype == mx.bool_


@pytest.mark.parametrize(
    "value, dtype, shape",
    [
        (1, mx.int32, ()),
        (True, mx.bool_, ()),
        (1.0, mx.float32, ()),
        (1j, mx.complex64, ()),
        (2**31, mx.int64, ()),
        ([1, 2**40], mx.int64, (2,)),
        ([], mx.float32, (0,)),
        ([[]], mx.float32, (1, 0)),
        ([1, 2.5], mx.float32, (2,)),
        ([True, 2], mx.int32, (2,)),
        ([[1, 2], [3, 4]], mx.int32, (2, 2)),
        ((1, 2), mx.int32, (2,)),
        (b"abc", mx.uint8, (3,)),
        (np.zeros(3), mx.float32, (3,)),
        (np.zeros(3, np.int64), mx.int64, (3,)),
        (np.zeros(3, np.complex128), mx.complex64, (3,)),
        (np.zeros((2, 3), np.float16), mx.float16, (2, 3)),
    ],
    ids=str,
)
def test_creation(value, dtype, shape):
    x = mx.array(value)
    assert x.dtype == dtype and x.shape == shape


def test_creation_with_dtype():
    assert mx.array(300, mx.uint8).item() == 44
    assert mx.array(1.9, mx.int32).item() == 1
    assert mx.array([mx.array([1, 2]), mx.array([3.0, 4.0])]).dtype == mx.float32


def test_constructors():
    assert mx.arange(5).dtype == mx.int32
    assert mx.arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert mx.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert mx.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert mx.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert mx.tri(2, 3).tolist() == [[1, 0, 0], [1, 1, 0]]
    assert mx.full((2,), 7).dtype == mx.int32
    assert mx.full((2,), 7.0).dtype == mx.float32
    assert mx.zeros_like(mx.ones((2,), mx.int8)).dtype == mx.int8
    assert mx.ones(3).shape == (3,)


def test_attributes():
    x = mx.zeros((2, 3), mx.float16)
    assert (x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == (2, 6, 2, 12, 2)
    assert x.T.shape == (3, 2)
    assert mx.array([1 + 2j]).real.item() == 1 and mx.array([1 + 2j]).imag.item() == 2
    assert x.dtype.size == 2


def test_item_and_conversions():
    assert mx.array(3).item() == 3 and isinstance(mx.array(3).item(), int)
    assert isinstance(mx.array(True).item(), bool)
    assert mx.array([[2.5]]).item() == 2.5
    assert float(mx.array(1.5)) == 1.5 and int(mx.array(2.7)) == 2 and bool(mx.array(1))
    assert [10, 20, 30][mx.array(1)] == 20
    assert mx.array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert [row.tolist() for row in mx.array([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


def test_operators():
    a, b = mx.array([7, -7, 7, -7]), mx.array([2, 2, -2, -2])
    assert (a // b).tolist() == [3, -4, -4, 3]
    assert (a % b).tolist() == [1, 1, -1, -1]
    assert (a / b).dtype == mx.float32
    assert [x.tolist() for x in mx.divmod(a, b)] == [[3, -4, -4, 3], [1, 1, -1, -1]]
    assert (2 ** mx.array([3])).tolist() == [8]
    assert (mx.array([2]) ** mx.array([-1])).tolist() == [0]
    assert (1 - mx.array([3])).tolist() == [-2]
    assert (mx.array([5]) // 0).tolist() == [0] and (mx.array([5]) % 0).tolist() == [5]
    assert (~mx.array([True, False])).tolist() == [False, True]
    assert (~mx.array([0, 5])).tolist() == [-1, -6]
    assert (mx.array([6]) & 3).tolist() == [2] and (mx.array([6]) | 1).tolist() == [7]
    assert (mx.array([6]) ^ 3).tolist() == [5]
    assert (mx.array([1]) << 33).tolist() == [2]
    assert (mx.array([True]) + mx.array([True])).dtype == mx.bool_
    assert (mx.array([True]) << mx.array([True])).dtype == mx.uint8
    assert (mx.array([1.0]) // 0).tolist() == [float("inf")]
    assert abs(mx.array([-2])).tolist() == [2]
    assert mx.array([120], mx.int8).__add__(mx.array([10], mx.int8)).tolist() == [-126]


def test_comparisons():
    x = mx.array([1, 2, 3])
    assert (x == 2).tolist() == [False, True, False]
    assert (x >= mx.array([2, 2, 2])).tolist() == [False, True, True]
    assert (x == "text") is False and (x != "text") is True
    assert mx.array([1 + 1j]).__lt__(mx.array([1 + 2j])).tolist() == [True]


def test_in_place_operators_keep_identity():
    x = mx.array([1, 2])
    alias = x
    x += 1.5
    assert alias is x and alias.dtype == mx.float32 and alias.tolist() == [2.5, 3.5]
    y = mx.zeros((1,))
    y += mx.ones((3,))
    assert y.shape == (3,)


def test_rounding_and_reductions():
    assert mx.round(mx.array([0.5, 1.5, 2.5])).tolist() == [0, 2, 2]
    assert mx.round(mx.array([15, 25]), -1).tolist() == [20, 20]
    assert mx.sum(mx.ones((3,), mx.int8)).dtype == mx.int32
    assert mx.sum(mx.ones((3,), mx.uint16)).dtype == mx.uint32
    assert mx.prod(mx.ones((3,), mx.bool_)).dtype == mx.int32
    assert mx.mean(mx.array([1, 2])).item() == 1.5
    assert mx.sum(mx.zeros((0,))).item() == 0 and mx.prod(mx.zeros((0,))).item() == 1
    assert not mx.any(mx.zeros((0,))).item() and mx.all(mx.zeros((0,))).item()
    assert np.isnan(mx.mean(mx.zeros((0,))).item())
    assert np.isnan(mx.max(mx.array([1.0, np.nan])).item())
    assert mx.max(mx.array([[1, 5], [7, 2]]), axis=()).tolist() == [[1, 5], [7, 2]]
    assert mx.argmax(mx.array([[1, 5], [7, 2]])).item() == 2


def test_casts():
    assert mx.array([1.9, -1.9]).astype(mx.int32).tolist() == [1, -1]
    assert mx.array([-1.0]).astype(mx.int32).astype(mx.uint8).tolist() == [255]
    assert mx.array([0.0, 0.5, np.nan]).astype(mx.bool_).tolist() == [False, True, True]
    assert mx.array([1 + 2j]).astype(mx.float32).tolist() == [1.0]
    assert mx.array([1.0]).view(mx.int32).item() == 0x3F800000
    assert mx.array([1, 2], mx.int16).view(mx.int32).shape == (1,)
    # 1 + 2^-8 is half way between two bfloat16: ties go to even.
    assert mx.array([1 + 2**-8, 1 + 3 * 2**-8]).astype(mx.bfloat16).tolist() == [1.0, 1 + 2**-6]


def test_copies_and_pickle():
    x = mx.array([1.0, 2.0])
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), mx.array(x)):
        assert other is not x and other.tolist() == [1.0, 2.0]
        other[0] = 9.0
        assert x.tolist() == [1.0, 2.0]
    half = mx.array([1.5], mx.bfloat16)
    assert pickle.loads(pickle.dumps(half)).dtype == mx.bfloat16


def test_hash_and_subclass():
    x, y = mx.array(1), mx.array(1)
    assert len({x, y, x}) == 2

    class Named(mx.array):
        pass

    assert isinstance(Named([1]), mx.array)
    with pytest.raises(AttributeError):
        x.extra = 1


def test_dtypes():
    assert mx.float32 == mx.float32 and mx.float32 != np.float32 and mx.float32 != "float32"
    assert hash(mx.int8) != hash(mx.int16) or mx.int8 != mx.int16
    assert mx.issubdtype(mx.float16, mx.floating) and not mx.issubdtype(mx.bool_, mx.number)
    assert mx.issubdtype(mx.bool_, mx.generic)
    assert mx.finfo(mx.float16).max == 65504 and mx.iinfo(mx.int8).min == -128
    assert mx.newaxis is None and mx.inf == float("inf") and abs(mx.pi - np.pi) < 1e-15


def test_mlx_array_protocol():
    class Wrapped:
        def __mlx_array__(self):
            return mx.array([1.0, 2.0])

    assert mx.array(Wrapped()).tolist() == [1.0, 2.0]
    assert (mx.array([1.0, 1.0]) + Wrapped()).tolist() == [2.0, 3.0]


def test_long_chains_are_released():
    """Dropping a deep graph must not use the stack."""
    x = mx.zeros((2,))
    for _ in range(100_000):
        x = x + 1
    del x
    y = mx.zeros((2,))
    for _ in range(20_000):
        y = y + 1
    assert y.tolist() == [20_000, 20_000]


def test_view_of_a_constant():
    x = mx.full((3,), 1.0).view(mx.int32) + 1
    assert x.tolist() == [0x3F800001] * 3
