"""What only a GPU has: devices, memory of its own, the way between host and device, faults and their errors.

What both devices do is tested by the rest of the suite, which runs on the GPU as well (`--device gpu`).
"""

import json
import threading

import numpy as np
import oxmlx
import oxmlx.core as mx
import pytest
from oxmlx import debug
from support import bits, python
from test_interop import LAYOUTS, PAIRS

pytestmark = pytest.mark.gpu

UNSET = ""  # as if the variable were not set


# ---- devices and streams ----


def test_the_gpu_is_the_default_device():
    code = "import oxmlx.core as mx; print(mx.default_device(), (mx.ones((3,)) + 1).sum().item())"
    assert python(code, OXMLX_DEVICE=UNSET) == "Device(gpu, 0) 6.0\n"
    assert python(code, OXMLX_DEVICE="gpu") == "Device(gpu, 0) 6.0\n"
    assert python(code, OXMLX_DEVICE="cpu") == "Device(cpu, 0) 6.0\n"


def test_a_hidden_gpu_is_no_gpu():
    code = (
        "import oxmlx.core as mx\nprint(mx.default_device(), mx.device_count(mx.gpu), mx.cuda.is_available())"
    )
    assert python(code, OXMLX_DEVICE=UNSET, CUDA_VISIBLE_DEVICES="-1") == "Device(cpu, 0) 0 False\n"


def test_queries():
    assert mx.cuda.is_available() and not mx.metal.is_available()
    assert mx.is_available(mx.gpu) and mx.device_count(mx.gpu) >= 1 and mx.device_count(mx.cpu) == 1
    info = mx.device_info(mx.gpu)
    assert info["device_name"] and info["architecture"].startswith("sm_")
    assert info["memory_size"] > 1 << 30
    assert mx.device_info(mx.cpu)["architecture"] != info["architecture"]


def test_a_device_that_is_not_there():
    nowhere = mx.Device(mx.gpu, 60)
    assert not mx.is_available(nowhere)
    for use in (mx.set_default_device, mx.new_stream, lambda d: mx.add(mx.ones(2), 1, stream=d)):
        with pytest.raises(ValueError):
            use(nowhere)


def test_a_program_on_both_devices():
    """Each op says where it runs; arrays go where they are read, in both directions and more than once."""
    x = mx.arange(1000.0)
    on_gpu = mx.exp(x * 1e-3, stream=mx.gpu)
    on_cpu = mx.add(on_gpu, 1.0, stream=mx.cpu)
    back = mx.multiply(on_cpu, on_gpu, stream=mx.gpu)
    with mx.stream(mx.cpu):
        total = (back - on_cpu).sum()
    e = np.exp(np.arange(1000, dtype=np.float64) * 1e-3)
    np.testing.assert_allclose(np.array(back), (e + 1) * e, rtol=1e-5)
    assert total.item() == pytest.approx(((e + 1) * e - e - 1).sum(), rel=1e-5)


def test_training_alternates_between_devices():
    """The state is written on one device and read on the other, step by step."""
    w = mx.zeros((64,))
    for i in range(20):
        with mx.stream(mx.cpu if i % 2 else mx.gpu):
            w = w - 0.1 * (w - 1)
            mx.eval(w)
    assert np.allclose(np.array(w), 1 - 0.9**20, rtol=1e-5)


def test_streams_of_one_device_wait_for_each_other():
    streams = [mx.new_stream(mx.gpu) for _ in range(3)]
    x = mx.ones((1 << 20,))
    for i in range(60):
        x = mx.add(x, 1.0, stream=streams[i % 3])
        if i % 7 == 0:
            mx.async_eval(x)
    assert x.min().item() == x.max().item() == 61


def test_memory_is_reused_in_the_order_of_its_stream():
    """What is freed while it is read must not be overwritten by another stream."""
    side = mx.new_stream(mx.gpu)
    for i in range(50):
        x = mx.full((1 << 20,), float(i)) + mx.zeros((1,))
        mx.eval(x)
        y = mx.sqrt(x * x, stream=side)
        mx.async_eval(y)
        del x
        noise = mx.full((1 << 20,), -1.0) * 2
        mx.async_eval(noise)
        assert y.max().item() == y.min().item() == float(i)


def test_several_gpus():
    if mx.device_count(mx.gpu) < 2:
        pytest.skip("needs two GPUs")
    first, second = mx.Device(mx.gpu, 0), mx.Device(mx.gpu, 1)
    x = mx.add(mx.arange(1000.0), 1.0, stream=first)
    y = mx.multiply(x, 2.0, stream=second)
    z = mx.add(x, y, stream=first)
    np.testing.assert_array_equal(np.array(z), 3 * np.arange(1, 1001, dtype=np.float32))


# ---- host and device ----


@pytest.mark.parametrize("name, numpy_type, code", PAIRS, ids=[p[0] for p in PAIRS])
def test_round_trip_through_a_kernel(name, numpy_type, code):
    """Up, through a copy on the device (transposed, so that a kernel runs), and down again."""
    rng = np.random.RandomState(0)
    values = (rng.rand(37, 53) * 200).astype(numpy_type)
    back = np.array(mx.contiguous(mx.array(values).T))
    assert back.dtype == numpy_type
    np.testing.assert_array_equal(back, values.T)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_reach_the_device(name):
    np.testing.assert_array_equal(np.array(mx.array(LAYOUTS[name]) + 0), LAYOUTS[name])


@pytest.mark.parametrize("n", [1, 4095, (1 << 20) + 3, (1 << 24) + 1, (1 << 26) + 5])
def test_large_copies_in_both_directions(n):
    """Sizes around those of the staging buffers; the source is overwritten right after it was taken."""
    values = np.arange(n, dtype=np.uint32)
    x = mx.array(values)
    values[:] = 0
    y = x + 1
    del x
    found = np.asarray(y)
    assert found[0] == 1 and found[-1] == n
    np.testing.assert_array_equal(found[:: max(1, n // 9973)], np.arange(1, n + 1, max(1, n // 9973)))


def test_many_batches_in_flight():
    """A loader that runs ahead: more uploads than the ring has slots."""
    total = mx.zeros(())
    for i in range(64):
        total = total + mx.array(np.full((1 << 18,), i, np.float32)).mean()
        mx.async_eval(total)
    assert total.item() == sum(range(64))


def test_a_view_stays_while_the_array_is_used():
    x = mx.arange(1 << 16) * 2
    view = np.asarray(x)
    y = x + 1
    mx.eval(y)
    del x
    for _ in range(8):
        mx.eval(mx.zeros((1 << 16,), mx.int32) - 1)
    np.testing.assert_array_equal(view, np.arange(1 << 16) * 2)
    np.testing.assert_array_equal(np.array(y), np.arange(1 << 16) * 2 + 1)


def test_writes_through_a_view_reach_the_device():
    x = mx.zeros((4,))
    view = np.asarray(x)
    for i in range(1, 4):
        view[i] = i
        assert (x * 2).tolist() == [2.0 * min(j, i) if j <= i else 0.0 for j in range(4)]


def test_scalars_are_read_in_order():
    x = mx.zeros(())
    found = []
    for _ in range(100):
        x = x + mx.ones((3,)).sum()
        found.append(x.item())
    assert found == [3.0 * i for i in range(1, 101)]


def test_threads_evaluate_at_once():
    def work(i, results):
        mx.random.seed(i)
        w = mx.random.normal((64, 64), key=mx.random.key(i))
        for _ in range(30):
            w = mx.tanh(w @ w * 0.1 + mx.array(np.full((64,), 0.01 * i, np.float32)))
            mx.async_eval(w)
        results[i] = np.array(w).tobytes()

    alone, together = {}, {}
    for i in range(6):
        work(i, alone)
    threads = [threading.Thread(target=work, args=(i, together)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert alone == together


# ---- errors ----


def test_out_of_memory_is_an_error_and_the_process_goes_on():
    total = mx.device_info(mx.gpu)["memory_size"]
    kept = mx.ones((1000,)) * 3
    mx.eval(kept)
    with pytest.raises(oxmlx.OutOfMemoryError) as caught:
        mx.eval(mx.zeros((total,), mx.uint8) + mx.ones((2, 1), mx.uint8))
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, RuntimeError)
    assert kept.sum().item() == 3000


def test_the_memory_limit_holds_and_lifts():
    block = 64 << 20
    before = mx.set_memory_limit(mx.get_active_memory() + 4 * block)
    kept = []
    try:
        with pytest.raises(oxmlx.OutOfMemoryError):
            for i in range(64):
                kept.append(mx.full((block,), i, mx.uint8) + mx.array(1, mx.uint8))
                mx.eval(kept[-1])
        assert 2 <= len(kept) <= 6
        pending = kept.pop()
        del kept[1:]
        assert pending[0].item() == pending[-1].item()  # what failed runs once there is room
    finally:
        mx.set_memory_limit(before)
    assert kept[0].max().item() == 1


def test_the_cache_is_given_back():
    mx.eval(mx.zeros((1 << 26,)) + 1)
    mx.clear_cache()
    assert mx.get_cache_memory() < 64 << 20


FORK = """
import os, oxmlx.core as mx
x = mx.ones((8,)) + 1; mx.eval(x)
pid = os.fork()
if pid == 0:
    status = 1
    try:
        (x + 1).tolist()
    except RuntimeError as error:
        status = 0 if "fork" in str(error).lower() else 2
    os._exit(status)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), (x + 1).tolist() == [3] * 8)
"""


def test_a_forked_child_is_told_so():
    assert python(FORK, timeout=60) == "0 True\n"


def test_a_forked_child_has_the_cpu():
    code = FORK.replace(
        "(x + 1).tolist()\n    except", "pass\n        raise RuntimeError('fork')\n    except"
    )
    code = code.replace("pass", "with mx.stream(mx.cpu): assert (mx.ones((3,)) + 1).sum().item() == 6")
    assert python(code, timeout=60) == "0 True\n"


@pytest.mark.parametrize("index", [[7, -9], [2**31 - 1, -(2**31)]], ids=str)
def test_gathers_clamp(index):
    """An index array is read on the device: out of range it is clamped, and nothing else is read."""
    found = mx.arange(3.0)[mx.array(index)].tolist()
    assert found == [2.0, 0.0]


def test_scatters_drop_what_is_out_of_range():
    x = mx.zeros((3,))
    x[mx.array([1, 5, -7])] = mx.array([1.0, 2.0, 3.0])
    assert x.tolist() == [0, 1, 0]


# ---- settings ----


@pytest.mark.parametrize("setting", ["OXMLX_POISON=1", "OXMLX_MEMORY=managed"])
def test_other_memory_gives_the_same_bits(setting):
    """Memory that is filled with 0xFF before and after use, and managed memory."""
    other = bits(**dict([setting.split("=")]))
    assert [a for a, b in zip(bits(), other) if a != b] == []


def test_tf32_is_on_as_in_mlx_and_can_be_turned_off():
    code = (
        "import numpy as np, oxmlx.core as mx\n"
        "a, b = (np.random.RandomState(i).rand(512, 512).astype(np.float32) for i in (0, 1))\n"
        "exact = a.astype(np.float64) @ b\n"
        "print(float(np.abs(np.array(mx.array(a) @ mx.array(b)) / exact - 1).max()))"
    )
    assert 1e-6 < float(python(code, OXMLX_TF32=UNSET, MLX_ENABLE_TF32=UNSET)) < 2e-3
    assert float(python(code, OXMLX_TF32="0")) < 2e-6
    assert float(python(code, OXMLX_TF32=UNSET, MLX_ENABLE_TF32="0")) < 2e-6


def test_a_trace_is_written(tmp_path):
    path = tmp_path / "trace.json"
    code = (
        "import numpy as np, oxmlx.core as mx\n"
        "for _ in range(4): mx.eval(mx.tanh(mx.array(np.ones(100_000, np.float32)) * 2).sum())"
    )
    python(code, OXMLX_TRACE=str(path))
    trace = json.loads(path.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    assert len(events) > 4 and all("ph" in e and "name" in e for e in events)


def test_counters_have_their_names():
    stats = debug.cache_stats()
    for name in ("instantiations", "kernel_compiles", "graph_launches", "direct_launches"):
        assert stats[name] >= 0
