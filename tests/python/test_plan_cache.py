"""What a repeated program costs, asserted with the engine's counters and never with a clock.

A step that was seen before must be neither planned nor lowered again, whatever numbers run through it.
"""

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
import pytest
from oxmlx import debug

pytestmark = pytest.mark.skipif("programs" not in debug.cache_stats(), reason="another engine runs")


def counted(function, *arguments):
    """Run a function; what each counter gained."""
    before = debug.cache_stats()
    function(*arguments)
    mx.synchronize()
    after = debug.cache_stats()
    return {name: after[name] - before[name] for name in after}


def test_a_warm_training_step_plans_nothing():
    """Warm-up schedule, dropout, clipping, AdamW, a new numpy batch and loss.item(), as scripts do it."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(32), nn.Linear(32, 4))
    schedule = optim.join_schedules([optim.linear_schedule(0.0, 1e-3, 5), optim.cosine_decay(1e-3, 100)], [5])
    optimizer = optim.AdamW(learning_rate=schedule)
    rng = np.random.RandomState(0)

    def loss_fn(model, x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    loss_and_grad = nn.value_and_grad(model, loss_fn)

    def step():
        x = mx.array(rng.rand(8, 16).astype(np.float32))
        y = mx.array(rng.randint(0, 4, 8))
        loss, grads = loss_and_grad(model, x, y)
        grads, _ = optim.clip_grad_norm(grads, 1.0)
        optimizer.update(model, grads)
        mx.eval(model.state, optimizer.state)
        loss.item()

    for _ in range(3):
        step()
    first, second = counted(step), counted(step)
    for gained in (first, second):
        assert gained["plans"] == gained["sizings"] == gained["lowerings"] == 0
        assert gained["level2_hits"] == gained["programs"]
    assert first["programs"] == second["programs"] <= 3
    assert first["nodes"] == second["nodes"]


def test_immediates_are_no_part_of_a_plan():
    x = mx.ones((64,))

    def run(scale):
        mx.eval(mx.tanh(x * scale) + scale)

    run(1.5)
    run(2.5)
    for scale in (0.3, -7.25, 1e-8):
        assert counted(run, scale)["plans"] == 0


def test_slice_starts_are_no_part_of_a_plan():
    x = mx.arange(100.0)
    mx.eval(x)

    def run(start):
        mx.eval(x[start : start + 8] * 2.0)

    run(3)
    run(17)
    assert counted(run, 41)["plans"] == 0


def test_a_new_size_is_no_new_plan():
    def run(n):
        x = mx.ones((n, 8))
        mx.eval(mx.softmax(mx.tanh(x) * 2.0, axis=-1).sum(axis=0))

    run(16)
    run(24)
    assert counted(run, 37)["plans"] == 0


def test_an_elementwise_chain_is_one_kernel():
    x, y = mx.random.normal((1000,)), mx.random.normal((1000,))
    mx.eval(x, y)

    def run():
        z = x
        for _ in range(4):
            z = mx.tanh(z * y) + x
        mx.eval(z)

    run()
    gained = counted(run)
    assert gained["programs"] == 1 and gained["kernels"] == 1


def test_host_scalars_fold():
    """A counter that nobody evaluates must not grow a graph."""

    def count():
        step = mx.array(0, mx.uint64)
        for _ in range(100):
            step = step + 1
        assert step.item() == 100

    gained = counted(count)
    assert gained["folded"] >= 100 and gained["programs"] == 0


def test_an_unchanged_program_is_replayed_to_the_same_bits():
    x = mx.random.normal((333,))
    mx.eval(x)

    def run():
        return np.array(mx.logsumexp(mx.sin(x) * 3.0)).tobytes()

    assert len({run() for _ in range(5)}) == 1


def test_a_state_that_changes_with_a_schedule():
    """x = f(x) with a learning rate that is another number each step."""
    box = [mx.ones((32,))]

    def run(rate):
        box[0] = box[0] - rate * mx.sin(box[0])
        mx.eval(box[0])

    for i in range(3):
        run(0.1 / (i + 1))
    for i in range(5):
        assert counted(run, 0.1 / (i + 4))["plans"] == 0


def test_a_length_that_grows_is_planned_a_bounded_number_of_times():
    cache = [mx.zeros((1, 8))]

    def run():
        cache[0] = mx.concatenate([cache[0], mx.ones((1, 8))], axis=0)
        mx.eval(mx.softmax(mx.tanh(cache[0]) @ mx.ones((8, 3)), axis=0).sum(), cache[0])

    gained = {"plans": 0, "sizings": 0}
    for _ in range(200):
        for name, value in counted(run).items():
            if name in gained:
                gained[name] += value
    # Lengths that coincide with another (1, 3 and 8 here) have plans of their own.
    assert gained["plans"] <= 6
    assert gained["sizings"] <= 40


def test_an_interior_that_is_read_later_is_not_computed_twice():
    x = mx.random.normal((50,))
    mx.eval(x)
    h = mx.exp(x)
    assert counted(lambda: mx.eval(h.sum()))["programs"] == 1
    assert counted(lambda: h.tolist())["programs"] == 0
