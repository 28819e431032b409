"""What a repeated step costs on a GPU, and that it costs no memory: asserted with counters, not with a clock.

A step that was seen three times is one graph launch a Program: nothing is planned, lowered, compiled or
instantiated, whatever numbers, batches and (within a bucket) lengths run through it.
"""

import os
from pathlib import Path

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
import pytest
from op_table import ELEMENTWISE, FLOATS, RTOL, inputs, to_numpy
from op_table_structured import STRUCTURED
from oxmlx import debug
from test_plan_cache import counted

pytestmark = pytest.mark.gpu

QUIET = (
    "plans",
    "sizings",
    "lowerings",
    "encodings",
    "instantiations",
    "kernel_compiles",
    "kernel_disk_hits",
    "direct_launches",
)


def assert_replayed(gained):
    assert {name: gained[name] for name in QUIET if gained[name]} == {}
    assert gained["programs"] >= 1
    assert gained["graph_launches"] == gained["programs"]


# ---- counters ----


def realistic_step():
    """The yardstick's train_realistic: warm-up, dropout, clipping, AdamW, a new numpy batch, loss.item()."""
    model = nn.Sequential(
        nn.Linear(256, 512),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.LayerNorm(512),
        nn.Linear(512, 512),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.LayerNorm(512),
        nn.Linear(512, 64),
    )
    mx.eval(model.parameters())
    schedule = optim.join_schedules(
        [optim.linear_schedule(0.0, 1e-3, 100), optim.cosine_decay(1e-3, 10000)], [100]
    )
    optimizer = optim.AdamW(learning_rate=schedule)
    rng = np.random.default_rng(0)
    data = [(rng.random((128, 256), np.float32), rng.integers(0, 64, 128)) for _ in range(8)]
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean")
    )
    count = [0]

    def step():
        x, y = data[count[0] % 8]
        count[0] += 1
        loss, grads = loss_and_grad(model, mx.array(x), mx.array(y))
        grads, _ = optim.clip_grad_norm(grads, 1.0)
        optimizer.update(model, grads)
        mx.eval(model.state, optimizer.state)
        return loss.item()

    return step


def test_a_warm_training_step_is_replayed():
    step = realistic_step()
    for _ in range(3):
        step()
    for _ in range(5):
        gained = counted(step)
        assert_replayed(gained)
        assert gained["programs"] <= 3


def test_a_loop_that_writes_one_row_further_is_replayed():
    """Into a preallocated buffer, reading up to that row: what decoding with a cache does."""
    cache, weights = mx.zeros((256, 8)), mx.random.normal((8, 3))
    mx.eval(cache, weights)
    seen = []

    def step(i):
        cache[i : i + 1] = mx.full((1, 8), float(i)) * 0.5
        y = (mx.softmax(mx.tanh(cache[: i + 1]) @ weights, axis=0) * 0.5).sum()
        mx.eval(cache, y)
        seen.append(y.item())

    for i in range(40, 43):
        step(i)
    for i in range(43, 48):
        assert_replayed(counted(step, i))
    more = [counted(step, i) for i in range(48, 112)]
    assert sum(g["plans"] for g in more) == 0
    # Buckets of 16 rows and more: at most an instantiation each.
    assert sum(g["instantiations"] for g in more) <= 4
    np.testing.assert_allclose(seen, 1.5, rtol=1e-5)
    np.testing.assert_array_equal(np.array(cache)[40:112, 0], np.arange(40, 112) * 0.5)


def test_a_loop_that_concatenates_is_replayed():
    box, weights = [mx.zeros((40, 8))], mx.random.normal((8, 3))
    mx.eval(box, weights)

    def step():
        box[0] = mx.concatenate([box[0], mx.ones((1, 8))], axis=0)
        mx.eval(mx.softmax(mx.tanh(box[0]) @ weights, axis=0).sum(), box[0])

    step()  # its operand was made by another program: not yet the step that repeats
    for _ in range(3):
        step()
    for _ in range(4):
        assert_replayed(counted(step))
    assert box[0].shape == (48, 8) and box[0].sum().item() == 64


def test_a_compiled_step_is_replayed():
    x, y = mx.random.normal((256, 64)), mx.random.randint(0, 10, (256,))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = optim.SGD(0.1)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    mx.eval(x, y, state)
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean")
    )

    def train(x, y):
        loss, grads = loss_and_grad(model, x, y)
        optimizer.update(model, grads)
        return loss

    train = mx.compile(train, inputs=state, outputs=state)

    def step():
        mx.eval(train(x, y), state)

    for _ in range(3):
        step()
    assert_replayed(counted(step))


def test_launches_do_not_grow_with_the_layers_of_an_optimizer():
    """An update of many parameters is a few launches: the plan sees the pattern."""

    def kernels(layers):
        parameters = {str(i): mx.random.normal((33, 65)) for i in range(layers)}
        gradients = {str(i): mx.random.normal((33, 65)) for i in range(layers)}
        box, optimizer = [parameters], optim.AdamW(1e-2)
        mx.eval(parameters, gradients)

        def step():
            box[0] = optimizer.apply_gradients(gradients, box[0])
            mx.eval(box[0], optimizer.state)

        for _ in range(3):
            step()
        return counted(step)["kernels"]

    few, many = kernels(4), kernels(24)
    assert many <= 2 * few + 4, (few, many)


# ---- the same values on both devices ----

PAIRS = [pytest.param(op, d, id=f"{op}-{d}") for op in ELEMENTWISE + STRUCTURED for d in op.dtypes]


@pytest.mark.parametrize("op, dtype", PAIRS)
def test_both_devices_agree(op, dtype):
    """The values of a row: whole numbers are equal, others within the tolerance of the row."""
    found = []
    for device in (mx.cpu, mx.gpu):
        with mx.stream(device):
            arrays, _ = inputs(op, dtype, op.shapes or ((3, 5),) * op.arity)
            out = op(*arrays)
            mx.eval(out)
        found.append(to_numpy(out))
    on_cpu, on_gpu = found
    assert on_cpu.dtype == on_gpu.dtype and on_cpu.shape == on_gpu.shape
    if on_cpu.dtype.kind not in "fc":
        np.testing.assert_array_equal(on_gpu, on_cpu)
        return
    loose = op.loose64 and dtype == "float64"
    rtol = RTOL["float32" if loose else op.out_dtype(dtype)] * op.tolerance
    scale = float(np.abs(on_cpu).max()) if on_cpu.size else 0.0
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=rtol, atol=rtol * min(scale, 1.0) * 0.25)


EXACT = {
    "bits": lambda: mx.random.bits((1001,)),
    "uniform": lambda: mx.random.uniform(-2, 3, (1001,)),
    "uniform, half": lambda: mx.random.uniform(shape=(1001,), dtype=mx.float16),
    "randint": lambda: mx.random.randint(-5, 1000, (1001,)),
    "bernoulli": lambda: mx.random.bernoulli(0.3, (1001,)),
    "permutation": lambda: mx.random.permutation(1001),
    "split": lambda: mx.random.split(mx.random.key(9), 17),
}
CLOSE = {
    "normal": lambda: mx.random.normal((100_001,)),
    "laplace": lambda: mx.random.laplace((100_001,)),
    "gumbel": lambda: mx.random.gumbel((100_001,)),
    "truncated_normal": lambda: mx.random.truncated_normal(-1.0, 2.0, (100_001,)),
}


def drawn(make):
    found = []
    for device in (mx.cpu, mx.gpu):
        with mx.stream(device):
            mx.random.seed(11)
            out = make()
            mx.eval(out)
        found.append(np.array(out))
    return found


@pytest.mark.parametrize("name", EXACT)
def test_draws_are_equal(name):
    try:
        on_cpu, on_gpu = drawn(EXACT[name])
    except (AttributeError, NotImplementedError):
        pytest.skip("this build has no such distribution")
    np.testing.assert_array_equal(on_gpu, on_cpu)


@pytest.mark.parametrize("name", CLOSE)
def test_draws_are_close(name):
    """Each device is within 4 units in the last place of the formula; the two, within 8 of each other."""
    on_cpu, on_gpu = drawn(CLOSE[name])
    floor = np.float32(1e-6)  # where a logarithm is near zero, its argument's rounding is most of the value
    ulp = np.spacing(np.maximum(np.abs(on_cpu), floor))
    assert float((np.abs(on_gpu.astype(np.float64) - on_cpu) / ulp).max()) <= 8


def test_every_dtype_is_compared():
    assert set(FLOATS) <= {p.values[1] for p in PAIRS}


# ---- memory that does not grow ----


def footprint():
    """What must not grow, in bytes or pieces."""
    mx.synchronize()
    stats = debug.cache_stats()
    rss = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    pieces = {name: stats[name] for name in PIECES if name in stats}
    assert len(pieces) >= 5
    return {"active": mx.get_active_memory(), "cache": mx.get_cache_memory(), "rss": rss, **pieces}


# How much each may still move: other parts of the process breathe, too.
SLACK = {
    "active": 4096,
    "cache": 32 << 20,
    "rss": 24 << 20,
    "plan_bytes": 1 << 20,
    "pinned_cache_bytes": 8 << 20,
    "graphs": 8,
    "modules": 4,
    "instantiations": 8,
    "kernel_compiles": 4,
}
PIECES = (
    "plan_bytes",
    "pinned_active_bytes",
    "pinned_cache_bytes",
    "graphs",
    "modules",
    "instantiations",
    "kernel_compiles",
)


def assert_flat(before, after, **more):
    """Nothing grew by more than its slack and what a test adds to that."""
    grown = {k: after[k] - before[k] - more.get(k, 0) for k in before}
    assert {k: v for k, v in grown.items() if v > SLACK.get(k, 0)} == {}, (before, after)


def test_two_thousand_shapes_grow_nothing():
    lengths = np.random.RandomState(0).permutation(2000) + 1
    seen = []
    for i, n in enumerate(lengths.tolist()):
        x = mx.ones((n, 24)) * 0.5
        y = mx.softmax(mx.tanh(x) * 2.0, axis=-1).sum(axis=0)
        z = mx.concatenate([x, x[: n // 2]], axis=0) @ mx.ones((24, 3))
        assert y[0].item() == pytest.approx(n / 24, rel=1e-4)
        mx.eval(z)
        if i in (999, 1999):
            del x, y, z
            seen.append(footprint())
    # A bucket that is seen rarely may become a graph late.
    assert_flat(*seen, graphs=64, instantiations=64)


def train_for(steps):
    """The small MLP of MLX's first example; only parameters and loss are evaluated, every tenth is kept."""
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = optim.SGD(learning_rate=1e-2)
    x, y = mx.random.uniform(shape=(256, 784)), mx.random.randint(0, 10, (256,))
    mx.eval(model.parameters(), x, y)
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean")
    )
    kept, marks = [], {}
    for i in range(steps + 1):
        loss, grads = loss_and_grad(model, x, y)
        optimizer.update(model, grads)
        if i % 10 == 0:
            kept.append(loss)
        mx.eval(model.parameters(), loss)
        if i in (steps // 2, steps):
            marks[i] = (len(kept), footprint())
    (first, before), (second, after) = marks[steps // 2], marks[steps]
    losses = [loss.item() for loss in kept[:: max(1, len(kept) // 100)]]
    assert losses[-1] < losses[0] and np.isfinite(losses).all()
    # 512 bytes: the smallest block that a kept scalar takes.
    assert_flat(before, after, active=512 * (second - first))


def test_training_grows_nothing():
    train_for(int(os.environ.get("OXMLX_TEST_STEPS") or "4000"))


@pytest.mark.long
def test_a_hundred_thousand_steps_grow_nothing():
    train_for(100_000)
