"""Reading and writing parts of arrays, against numpy's rules and MLX's exceptions from them."""

import numpy as np
import oxmlx.core as mx
import pytest

BASE = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
I = np.array([0, 2, 1])  # noqa: E741
J = np.array([[1, 3, 0], [2, 2, 3]])

# An integer apart from an index array.
APART = (0, slice(None), I)

READS = [
    0,
    -1,
    slice(None),
    slice(1, 3),
    slice(None, None, -1),
    slice(-3, None, 2),
    slice(10, 20),
    slice(3, 1),
    None,
    Ellipsis,
    (0, 1),
    (slice(None), 2),
    (slice(None), slice(1, None, 2), slice(None, None, -2)),
    (Ellipsis, 0),
    (0, Ellipsis),
    (None, 0, Ellipsis, None),
    (slice(1, 2), None, 3),
    I,
    J,
    (I, I),
    (slice(None), J),
    (I, slice(None), I),
    (slice(None), I, J),
    (I, J),
    APART,
    (I, None, I),
    (Ellipsis, I),
    (1, J),
    ([0, 2],),
    (slice(None), [[0, 1], [2, 3]]),
    (-np.array([1, 2]),),
    (slice(1, 4), I, slice(0, 5, 2)),
    np.int64(2),
    (np.int32(1), slice(None)),
]


def to_index(index, convert):
    if isinstance(index, tuple):
        return tuple(to_index(i, convert) for i in index)
    return convert(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", READS, ids=lambda i: repr(i).replace("\n", "")[:50])
def test_read(index):
    x = mx.array(BASE)
    found = x[to_index(index, mx.array)]
    # numpy 2 refuses nested lists inside a tuple no more than MLX does.
    np.testing.assert_array_equal(np.array(found), BASE[to_index(index, np.asarray)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_index_dtypes(dtype):
    assert mx.array([10, 20, 30])[mx.array([2, 0], getattr(mx, dtype))].tolist() == [30, 10]


# MLX has writing rules of its own for a lone new axis and for APART.
WRITES = [i for i in READS if i is not None and i is not APART]


@pytest.mark.parametrize("index", WRITES, ids=lambda i: repr(i).replace("\n", "")[:50])
def test_write_scalar_and_array(index):
    """Assignment of a scalar and of values of the selected shape, as numpy does it."""
    x, expected = mx.array(BASE), BASE.copy()
    x[to_index(index, mx.array)] = -1.0
    expected[to_index(index, np.asarray)] = -1.0
    np.testing.assert_array_equal(np.array(x), expected)

    shape = BASE[to_index(index, np.asarray)].shape
    values = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    x[to_index(index, mx.array)] = mx.array(values)
    expected[to_index(index, np.asarray)] = values
    np.testing.assert_array_equal(np.array(x), expected)


def test_write_broadcasts_and_casts():
    x = mx.zeros((3, 4), mx.int32)
    x[1] = 1.7
    x[:, 0] = mx.array([7.0, 8.0, 9.0])
    x[2, 1:] = np.array([4, 5, 6])
    assert x.tolist() == [[7, 0, 0, 0], [8, 1, 1, 1], [9, 4, 5, 6]]


def test_write_is_in_place_but_does_not_alias():
    x = mx.zeros((2, 2))
    same, row = x, x[0]
    row[0] = 9
    x[1, 1] = 5
    assert same is x and x.tolist() == [[0, 0], [0, 5]] and row.tolist() == [9, 0]


def test_boolean_masks_write():
    x = mx.array([1, 2, 3, 4])
    x[x > 2] = 0
    assert x.tolist() == [1, 2, 0, 0]
    x[mx.array([True, False, True, False])] = mx.arange(4)
    assert x.tolist() == [0, 2, 1, 0]
    y = mx.zeros((2, 3))
    y[mx.array([False, True])] = 5
    assert y.tolist() == [[0, 0, 0], [5, 5, 5]]


def test_duplicate_indices():
    x = mx.zeros((3,))
    x[mx.array([0, 0, 1])] = mx.array([1.0, 2.0, 3.0])
    assert x.tolist() == [2, 3, 0]
    x[mx.array([0, 0])] += 1
    assert x.tolist() == [3, 3, 0]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("add", [4.0, 5.0, 2.0]),
        ("subtract", [0.0, -1.0, 2.0]),
        ("multiply", [2.0, 6.0, 2.0]),
        ("divide", [2.0, 2 / 3, 2.0]),
        ("maximum", [2.0, 3.0, 2.0]),
        ("minimum", [1.0, 2.0, 2.0]),
    ],
)
def test_at(name, expected):
    """`.at` accumulates over duplicate indices and returns a new array."""
    x = mx.full((3,), 2.0)
    found = getattr(x.at[mx.array([0, 0, 1])], name)(mx.array([1.0, 1.0, 3.0]))
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6)
    assert x.tolist() == [2, 2, 2]


def test_at_with_slices():
    x = mx.zeros((3, 4))
    assert x.at[1:, ::2].add(1).tolist() == [[0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]
    assert x.at[:, 1].add(mx.array([1.0, 2.0, 3.0]))[:, 1].tolist() == [1, 2, 3]


def test_gradients_of_indexing():
    x = mx.arange(5.0)
    g = mx.grad(lambda x: (x[mx.array([0, 0, 3])] * mx.array([1.0, 2.0, 5.0])).sum())(x)
    assert g.tolist() == [3, 0, 0, 5, 0]

    def write(x, v):
        x = x * 1
        x[1:3] = v
        return (x * mx.arange(1.0, 6.0)).sum()

    gx, gv = mx.grad(write, argnums=(0, 1))(x, mx.zeros((2,)))
    assert gx.tolist() == [1, 0, 0, 4, 5] and gv.tolist() == [2, 3]


def test_functions_that_take_indices():
    x = mx.array(BASE)
    np.testing.assert_array_equal(np.array(mx.take(x, mx.array(I), axis=1)), np.take(BASE, I, axis=1))
    np.testing.assert_array_equal(np.array(mx.take(x, 2, axis=0)), BASE[2])
    assert mx.take_along_axis(mx.array([[3, 1], [2, 4]]), mx.array([[1], [0]]), axis=1).tolist() == [[1], [2]]
    found = mx.put_along_axis(mx.zeros((2, 3)), mx.array([[1], [2]]), mx.array(9.0), axis=1)
    assert found.tolist() == [[0, 9, 0], [0, 0, 9]]


def test_zero_dimensional():
    x = mx.array(5)
    assert x[None].shape == (1,) and x[...].item() == 5 and x[()].item() == 5
