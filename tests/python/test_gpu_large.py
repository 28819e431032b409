"""Arrays of more than 2^31 elements, where 32-bit index arithmetic would wrap, and memory that runs out.

The operands are bytes, so that most GPUs can run these; results are read in a few places, so
that little crosses to the host.
"""

import numpy as np
import oxmlx
import oxmlx.core as mx
import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

N = (1 << 31) + 4099
NEAR_THE_END = N - 7
ROWS, COLUMNS = (1 << 16) + 3, (1 << 15) + 5  # also more than 2^31
NEEDED = 24 << 30


@pytest.fixture(autouse=True, scope="module")
def _room():
    if mx.device_info(mx.gpu)["memory_size"] < 2 * NEEDED:
        pytest.skip("needs 48 GiB of device memory")
    yield
    mx.clear_cache()


@pytest.fixture(autouse=True)
def _release():
    yield
    mx.synchronize()
    mx.clear_cache()


def marked():
    """Zeros with a 3 near the end, evaluated."""
    x = mx.zeros((N,), mx.uint8)
    x[NEAR_THE_END] = 3
    mx.eval(x)
    return x


def at(x, *places):
    return [x[i].item() for i in places]


def test_elementwise():
    y = marked() * 2 + 1
    assert at(y, 0, NEAR_THE_END - 1, NEAR_THE_END, N - 1) == [1, 1, 7, 1]


def test_elementwise_on_views():
    x = marked()
    y = x[::-1] + 1
    assert at(y, 0, N - 1 - NEAR_THE_END, N - 1) == [1, 4, 1]
    wide = mx.broadcast_to(mx.arange(3, dtype=mx.uint8)[:, None], (3, N // 3 + 1)) + 1
    assert [wide[i, -1].item() for i in range(3)] == [1, 2, 3]


def test_where_and_casts():
    x = marked()
    y = mx.where(x > 2, mx.array(9, mx.uint8), x).astype(mx.bool_)
    assert at(y, 0, NEAR_THE_END, N - 1) == [False, True, False]


@pytest.mark.parametrize("name", ["sum", "max", "any"])
def test_reductions_of_everything(name):
    found = getattr(mx, name)(marked()).item()
    assert found == {"sum": 3, "max": 3, "any": True}[name]


def test_argmax():
    assert mx.argmax(marked()).item() == NEAR_THE_END


def test_reductions_of_rows_and_columns():
    x = mx.zeros((ROWS, COLUMNS), mx.uint8)
    x[-2, -3] = 5
    mx.eval(x)
    rows, columns = x.sum(axis=1), x.max(axis=0)
    assert at(rows, 0, -2, -1) == [0, 5, 0] and at(columns, 0, -3, -1) == [0, 5, 0]
    assert mx.argmax(x, axis=1)[-2].item() == COLUMNS - 3


def test_row_groups():
    x = mx.zeros((ROWS, COLUMNS), mx.float16)
    y = mx.softmax(x, axis=-1)
    assert y[-1, -1].item() == pytest.approx(1 / COLUMNS, rel=1e-2)
    assert y[-1].sum().item() == pytest.approx(1, rel=2e-2)


def test_copies_and_transposes():
    x = mx.zeros((ROWS, COLUMNS), mx.uint8)
    x[-2, -3] = 5
    y = mx.contiguous(x.T)
    assert y[-3, -2].item() == 5 and y[-3, -1].item() == 0 and y[-1, -2].item() == 0


def test_slices_and_concatenations():
    x = marked()
    assert x[NEAR_THE_END - 1 : NEAR_THE_END + 2].tolist() == [0, 3, 0]
    y = mx.concatenate([mx.ones((5,), mx.uint8), x])
    assert at(y, 4, 5, NEAR_THE_END + 5, N + 4) == [1, 0, 3, 0]
    z = mx.pad(x, [(0, 3)], constant_values=mx.array(8, mx.uint8))
    assert at(z, NEAR_THE_END, N - 1, N + 2) == [3, 0, 8]


def test_gathers_and_scatters():
    x = marked()
    index = mx.array([NEAR_THE_END, 0, N - 1, -1], mx.int64)
    assert x[index].tolist() == [3, 0, 0, 0]
    x[index] = mx.array([1, 2, 4, 4], mx.uint8)
    assert at(x, 0, NEAR_THE_END, N - 1) == [2, 1, 4]
    table = mx.zeros((ROWS, COLUMNS), mx.uint8)
    table[-1] = 6
    assert table[mx.array([0, ROWS - 1])][:, -1].tolist() == [0, 6]


def test_arange_and_random():
    x = mx.arange(N, dtype=mx.int64)
    assert at(x, 0, 1 << 31, N - 1) == [0, 1 << 31, N - 1]
    del x
    key = mx.random.key(4)
    bits = mx.random.bits((N,), width=1, key=key) if hasattr(mx.random, "bits") else None
    if bits is not None:
        assert 120 < bits[1 << 31 :].astype(mx.float32).mean().item() < 135
    drawn = mx.random.uniform(shape=(N,), dtype=mx.float16, key=key)
    tail = np.array(drawn[1 << 31 :]).astype(np.float32)
    assert 0.45 < tail.mean() < 0.55 and len(set(tail.tolist())) > 500


def test_matrix_products():
    a, b = mx.zeros((ROWS, COLUMNS), mx.float16), mx.ones((COLUMNS, 8), mx.float16)
    a[-1, -1] = 2
    y = a @ b
    assert y[-1].tolist() == [2.0] * 8 and y[0].tolist() == [0.0] * 8


def test_reading_it_back():
    view = np.asarray(marked() + 1)
    assert view.shape == (N,) and view[0] == 1 and view[NEAR_THE_END] == 4 and view[-1] == 1


@pytest.mark.long
def test_memory_that_is_really_full():
    """Takes all of the device's memory, so that nothing else may run on it meanwhile."""
    before = mx.get_active_memory()
    limit = mx.set_memory_limit(1 << 50)
    kept = []
    try:
        with pytest.raises(oxmlx.OutOfMemoryError):
            for i in range(4096):
                kept.append(mx.full((1 << 32,), i % 200, mx.uint8) + mx.array(1, mx.uint8))
                mx.eval(kept[-1])
        full = len(kept) - 1
        assert full * (1 << 32) > 0.8 * mx.device_info(mx.gpu)["memory_size"]
        assert at(kept[full - 1], 0, -1) == [(full - 1) % 200 + 1] * 2
        del kept[full:]
        kept.clear()
        assert (mx.ones((1 << 30,), mx.uint8) + 1)[-1].item() == 2
    finally:
        mx.set_memory_limit(limit)
    mx.synchronize()
    assert mx.get_active_memory() - before < 1 << 20
