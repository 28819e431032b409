"""Exchange with numpy and other libraries: the buffer protocol, DLPack, and who owns the memory."""

import gc

import numpy as np
import oxmlx.core as mx
import pytest

PAIRS = [
    ("bool_", np.bool_, "?"),
    ("uint8", np.uint8, "B"),
    ("uint16", np.uint16, "H"),
    ("uint32", np.uint32, "I"),
    ("uint64", np.uint64, "Q"),
    ("int8", np.int8, "b"),
    ("int16", np.int16, "h"),
    ("int32", np.int32, "i"),
    ("int64", np.int64, "q"),
    ("float16", np.float16, "e"),
    ("float32", np.float32, "f"),
    ("complex64", np.complex64, "Zf"),
]


@pytest.mark.parametrize("name, numpy_type, code", PAIRS, ids=[p[0] for p in PAIRS])
def test_both_ways(name, numpy_type, code):
    values = np.array([[0, 1, 2], [3, 4, 5]]).astype(numpy_type)
    x = mx.array(values)
    assert x.dtype == getattr(mx, name)
    assert memoryview(x).format == code
    for back in (np.array(x), np.asarray(x), np.from_dlpack(x)):
        assert back.dtype == numpy_type
        np.testing.assert_array_equal(back, values)


def test_float64_is_kept_on_request():
    x = mx.array(np.array([0.1]), dtype=mx.float64)
    assert x.dtype == mx.float64 and x.item() == 0.1
    assert mx.array(np.array([0.1])).dtype == mx.float32


def test_asarray_is_a_view():
    x = mx.zeros((2, 3))
    view = np.asarray(x)
    view[0, 1] = 7
    assert x[0, 1].item() == 7 and (x + 0)[0, 1].item() == 7
    copied = np.array(x)
    copied[0, 0] = 9
    assert x[0, 0].item() == 0


def test_views_keep_strides():
    x = mx.arange(6).reshape(2, 3)
    transposed = np.asarray(x.T)
    np.testing.assert_array_equal(transposed, np.arange(6).reshape(2, 3).T)
    wide = np.asarray(mx.broadcast_to(mx.arange(3), (2, 3)))
    np.testing.assert_array_equal(wide, np.broadcast_to(np.arange(3), (2, 3)))


def test_views_outlive_the_array():
    x = mx.arange(1000) * 2
    view = np.asarray(x)
    del x
    gc.collect()
    np.testing.assert_array_equal(view, np.arange(1000) * 2)


def test_arrays_from_numpy_are_copies():
    values = np.ones(4, np.float32)
    x = mx.array(values)
    values[:] = 5
    assert x.tolist() == [1, 1, 1, 1]


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LAYOUTS = {
    "transposed": BASE.T,
    "stepped": BASE[:, ::2, 1::2],
    "fortran": np.asfortranarray(BASE),
    "sliced": BASE[1:, 1],
    "broadcast": np.broadcast_to(BASE, (2, 2, 3, 4)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_from_numpy(name):
    np.testing.assert_array_equal(np.array(mx.array(LAYOUTS[name])), LAYOUTS[name])


@pytest.mark.beyond_mlx
def test_negative_strides_from_numpy():
    np.testing.assert_array_equal(np.array(mx.array(BASE[:, ::-1])), BASE[:, ::-1])


def test_bfloat16_has_no_numpy_type():
    x = mx.array([1.5], mx.bfloat16)
    with pytest.raises((ValueError, TypeError)):
        np.array(x)
    assert np.array(x.astype(mx.float32)).tolist() == [1.5]


def test_dlpack():
    x = mx.arange(4.0)
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == [0, 1, 2, 3]


def test_mixed_expressions():
    """numpy on the left keeps numpy, an array on the left keeps an array."""
    a, x = np.ones(2, np.float32), mx.ones((2,))
    assert isinstance(a + x, np.ndarray)
    assert isinstance(x + a, mx.array)
    assert isinstance(np.float32(2) * x, np.ndarray)


def test_array_namespace():
    assert mx.array(1).__array_namespace__().__name__.endswith("core")


def test_buffers_become_arrays():
    assert mx.array(memoryview(b"\x01\x02")).tolist() == [1, 2]
    assert mx.array(bytearray(b"\x03")).dtype == mx.uint8


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_files(tmp_path, suffix):
    """numpy reads what is written, and every dtype comes back as it was."""
    path = str(tmp_path / f"x.{suffix}")
    arrays = {
        "a": mx.arange(6.0).reshape(2, 3).T,
        "b": mx.array([1.5, -2], mx.bfloat16),
        "c": mx.array([True, False]),
        "d": mx.array(3, mx.int8),
        "e": mx.zeros((0, 2), mx.float16),
    }
    if suffix == "npy":
        mx.save(path, arrays["a"])
        np.testing.assert_array_equal(np.load(path), np.array(arrays["a"]))
        assert mx.array_equal(mx.load(path), arrays["a"])
        return
    if suffix == "npz":
        mx.savez(path, **arrays)
    else:
        mx.save_safetensors(path, arrays)
    loaded = mx.load(path)
    assert loaded.keys() == arrays.keys()
    for name, value in arrays.items():
        assert loaded[name].dtype == value.dtype and loaded[name].shape == value.shape
        assert mx.array_equal(loaded[name], value)
    if suffix == "npz":
        np.testing.assert_array_equal(np.load(path)["a"], np.array(arrays["a"]))


def test_safetensors_metadata(tmp_path):
    path = str(tmp_path / "m.safetensors")
    mx.save_safetensors(path, {"x": mx.ones((2,))}, {"format": "test"})
    arrays, metadata = mx.load(path, return_metadata=True)
    assert metadata == {"format": "test"} and arrays["x"].tolist() == [1, 1]
