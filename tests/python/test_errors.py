"""Which exception an error raises: programs catch by class, so the classes are those of MLX.

Where MLX reads out of bounds or ends the process, this engine raises; those tests are marked `beyond_mlx`,
and the ones that would crash MLX are skipped there.
"""

import numpy as np
import oxmlx.core as mx
import pytest
from support import IS_OFFICIAL_MLX

A = mx.arange(6.0).reshape(2, 3)
V = mx.arange(3.0)

BAD_AXIS = {
    "sum": lambda: mx.sum(A, axis=2),
    "sum 0-d": lambda: mx.sum(mx.array(3), axis=0),
    "softmax": lambda: mx.softmax(A, axis=-3),
    "argmax": lambda: mx.argmax(A, axis=5),
    "max": lambda: mx.max(A, axis=5),
    "squeeze": lambda: mx.squeeze(A, 7),
    "expand_dims": lambda: mx.expand_dims(A, 7),
    "transpose": lambda: mx.transpose(A, (0, 2)),
    "swapaxes": lambda: mx.swapaxes(A, 0, 2),
    "moveaxis": lambda: mx.moveaxis(A, 0, 2),
    "concatenate": lambda: mx.concatenate([A, A], axis=2),
    "split": lambda: mx.split(A, 2, axis=2),
    "take_along_axis": lambda: mx.take_along_axis(A, mx.array([[0]]), axis=2),
    "vmap": lambda: mx.vmap(lambda x: x, in_axes=3)(A),
}


@pytest.mark.parametrize("name", BAD_AXIS)
def test_bad_axis(name):
    with pytest.raises(IndexError):
        BAD_AXIS[name]()


@pytest.mark.beyond_mlx
@pytest.mark.parametrize("name", ["sum", "max", "squeeze"])
def test_bad_axis_is_also_a_value_error(name):
    """Older MLX raised ValueError for some of these: our class is both."""
    with pytest.raises(ValueError):
        BAD_AXIS[name]()


VALUE_ERRORS = {
    "broadcast": lambda: A + mx.zeros((4,)),
    "reshape": lambda: mx.reshape(A, (4, 2)),
    "reshape two unknown": lambda: mx.reshape(A, (-1, -1)),
    "reshape unknown of empty": lambda: mx.reshape(mx.zeros((0,)), (-1, 0)),
    "duplicate axes": lambda: mx.sum(A, axis=(0, 0)),
    "transpose duplicate": lambda: mx.transpose(A, (0, 0)),
    "concatenate nothing": lambda: mx.concatenate([]),
    "stack nothing": lambda: mx.stack([]),
    "stack shapes": lambda: mx.stack([A, V]),
    "concatenate shapes": lambda: mx.concatenate([A, A.T]),
    "uneven split": lambda: mx.split(A, 2, axis=1),
    "negative size": lambda: mx.zeros((-1,)),
    "finfo of int": lambda: mx.finfo(mx.int32),
    "iinfo of float": lambda: mx.iinfo(mx.float32),
    "ragged": lambda: mx.array([[1, 2], [3]]),
    "string": lambda: mx.array(["a"]),
    "int matmul": lambda: mx.array([[1]]) @ mx.array([[1]]),
    "0-d matmul": lambda: mx.array(1.0) @ mx.array(1.0),
    "matmul shapes": lambda: A @ A,
    "bitwise float": lambda: A & A,
    "invert float": lambda: ~A,
    "negative bool": lambda: -mx.array([True]),
    "subtract list": lambda: A - [1, 2, 3],
    "int /= ": lambda: mx.array([2]).__itruediv__(2),
    "item of many": lambda: A.item(),
    "bool of many": lambda: bool(A),
    "max of empty": lambda: mx.max(mx.zeros((0,))),
    "argmax of empty": lambda: mx.argmax(mx.zeros((0,))),
    "overflow": lambda: mx.array([1], mx.int8) + 1000,
    "arange step 0": lambda: mx.arange(0, 5, 0),
    "clip of none": lambda: mx.clip(A, None, None),
    "too many indices": lambda: A[0, 0, 0],
    "bool read": lambda: A[mx.array([True, False])],
    "float index": lambda: A[mx.array([0.5])],
    "float slice": lambda: A[0.5:1],
    "string index": lambda: A["a"],
    "grad of vector": lambda: mx.grad(lambda x: x)(V),
    "squeeze long axis": lambda: mx.squeeze(A, 0),
    "view": lambda: mx.array([1, 2, 3], mx.int16).view(mx.int32),
    "eval in compile": lambda: mx.compile(lambda x: mx.eval(x))(V),
}


@pytest.mark.parametrize("name", VALUE_ERRORS)
def test_value_errors(name):
    with pytest.raises(ValueError):
        VALUE_ERRORS[name]()


TYPE_ERRORS = {
    "None": lambda: mx.array(None),
    "add None": lambda: A + None,
    "dtype of numpy": lambda: mx.array([1], dtype=np.float32),
    "dtype string": lambda: mx.zeros((2,), dtype="float32"),
    "unknown keyword": lambda: mx.sum(A, axes=1),
    "len of 0-d": lambda: len(mx.array(1)),
    "iter of 0-d": lambda: iter(mx.array(1)).__next__(),
    "== None": lambda: A == None,  # noqa: E711
}


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_type_errors(name):
    with pytest.raises(TypeError):
        TYPE_ERRORS[name]()


def test_messages_name_the_op():
    with pytest.raises(ValueError, match=r"\[reshape\] Cannot reshape array of size 6 into shape \(4,2\)"):
        mx.reshape(A, (4, 2))
    with pytest.raises(ValueError, match=r"\[broadcast_shapes\] Shapes \(2\) and \(3\) cannot be broadcast"):
        mx.eval(mx.zeros((2,)) + mx.zeros((3,)))


OUT_OF_BOUNDS = {
    "index": lambda: V[3],
    "negative index": lambda: V[-4],
    "tuple": lambda: A[1, 5],
    "assignment": lambda: V.__setitem__(3, 1.0),
}


@pytest.mark.skipif(IS_OFFICIAL_MLX, reason="official MLX reads out of bounds")
@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_index_out_of_bounds(name):
    """A Python integer out of range is an IndexError, as in numpy."""
    with pytest.raises(IndexError):
        OUT_OF_BOUNDS[name]()


@pytest.mark.skipif(IS_OFFICIAL_MLX, reason="official MLX ends the process")
def test_zero_step():
    with pytest.raises(ValueError):
        V[::0]


@pytest.mark.skipif(IS_OFFICIAL_MLX, reason="official MLX reads out of bounds")
def test_array_indices_out_of_bounds_are_safe():
    """An index array is known only at evaluation: it raises or is clamped, but never reads elsewhere."""
    try:
        found = np.array(V[mx.array([7, -9])])
    except (IndexError, ValueError):
        return
    assert set(found.tolist()) <= {0.0, 1.0, 2.0}


def test_library_survives_errors():
    """After every kind of failure the engine still computes."""
    for make in (*VALUE_ERRORS.values(), *TYPE_ERRORS.values(), *BAD_AXIS.values()):
        with pytest.raises((ValueError, TypeError, IndexError)):
            make()
    assert (V + 1).tolist() == [1, 2, 3]


def test_files(tmp_path):
    with pytest.raises(RuntimeError):
        mx.load(str(tmp_path / "missing.npy"))
    with pytest.raises(ValueError):
        mx.load(str(tmp_path / "missing.unknown"))
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{}")
    with pytest.raises((RuntimeError, ValueError)):
        mx.load(str(broken))
