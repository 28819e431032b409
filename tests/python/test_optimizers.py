"""Update rules against official MLX's numbers; schedules, clipping, state files and whole training loops."""

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
import pytest
from nn_cases import OPTIMIZERS, VALUES, run_optimizer
from oxmlx.utils import tree_flatten, tree_unflatten
from test_nn import close

STATE_NAMES = {
    "SGD": ["v"],
    "RMSprop": ["v"],
    "Adagrad": ["v"],
    "AdaDelta": ["v", "u"],
    "Adam": ["m", "v"],
    "AdamW": ["m", "v"],
    "Adamax": ["m", "v"],
    "Lion": ["m"],
    "Muon": ["v"],
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_update_rule(name):
    """Parameters and state after five steps equal those of MLX."""
    found = run_optimizer(name)
    for part, numbers in VALUES["optimizers"][name].items():
        close(found[part], numbers)


@pytest.mark.parametrize("name", ["SGD(0.1, momentum=0.9)", "AdamW(0.01)", "Lion(0.01)", "Adafactor()"])
def test_half_precision_state(name):
    optimizer = eval(f"optim.{name}")
    stepped = optimizer.apply_gradients(
        {"w": mx.ones((3, 2), mx.float16)}, {"w": mx.ones((3, 2), mx.float16)}
    )
    assert stepped["w"].dtype == mx.float16
    for key, value in tree_flatten(optimizer.state["w"]):
        assert value.dtype == mx.float16, key


@pytest.mark.parametrize("name", STATE_NAMES)
def test_state_names(name):
    optimizer = getattr(optim, name)(learning_rate=0.1)
    optimizer.init({"a": mx.ones((2, 3)), "b": [mx.ones(3)]})
    expected = ["step", "learning_rate"]
    for parameter in ("a", "b.0"):
        expected += [f"{parameter}.{part}" for part in STATE_NAMES[name]]
    assert [k for k, _ in tree_flatten(optimizer.state)] == expected
    assert optimizer.step.dtype == mx.uint64 and optimizer.step.item() == 0


def test_adafactor_state_names():
    optimizer = optim.Adafactor(beta_1=0.9)
    optimizer.init({"a": mx.ones((2, 3)), "b": mx.ones(3)})
    assert list(optimizer.state["a"]) == ["exp_avg_sq_row", "exp_avg_sq_col", "exp_avg"]
    assert list(optimizer.state["b"]) == ["exp_avg_sq", "exp_avg"]
    assert optimizer.state["a"]["exp_avg_sq_row"].shape == (2,)


def values(schedule, steps):
    return [float(schedule(mx.array(s, mx.uint64)).item()) for s in steps]


def test_schedules():
    close_to = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)  # noqa: E731
    close_to(values(optim.exponential_decay(0.1, 0.9), [0, 2]), [0.1, 0.081])
    close_to(values(optim.step_decay(0.1, 0.9, 10), [9, 21]), [0.1, 0.081])
    close_to(values(optim.cosine_decay(0.1, 10), [0, 3, 10, 99]), [0.1, 0.0793893, 0, 0])
    close_to(values(optim.cosine_decay(0.1, 10, end=0.05), [10, 50]), [0.05, 0.05])
    close_to(values(optim.linear_schedule(0, 0.1, 10), [0, 3, 20]), [0, 0.03, 0.1])
    joined = optim.join_schedules([optim.linear_schedule(0, 0.1, 10), optim.cosine_decay(0.1, 10)], [10])
    close_to(values(joined, [5, 10, 13, 40]), [0.05, 0.1, 0.0793893, 0])
    with pytest.raises(ValueError):
        optim.join_schedules([], [])
    with pytest.raises(ValueError):
        optim.join_schedules([optim.cosine_decay(0.1, 10)], [1])
    with pytest.raises(ValueError):
        optim.linear_schedule(0, 1, 0)


def test_scheduled_learning_rate():
    optimizer = optim.SGD(optim.linear_schedule(0, 0.1, 10))
    parameters = {"w": mx.zeros(1)}
    for i in range(3):
        parameters = optimizer.apply_gradients({"w": mx.ones(1)}, parameters)
        assert abs(optimizer.learning_rate.item() - 0.01 * i) < 1e-7
    assert optimizer.step.item() == 3 and abs(parameters["w"].item() + 0.03) < 1e-6
    optimizer = optim.SGD(0.5)
    optimizer.learning_rate = 0.25
    assert optimizer.learning_rate.item() == 0.25 and optimizer.state["learning_rate"].item() == 0.25


def test_clip_grad_norm():
    clipped, norm = optim.clip_grad_norm({"a": mx.ones(4)}, 1.0)
    assert norm.item() == 2.0
    np.testing.assert_allclose(np.array(clipped["a"]), 0.5, rtol=1e-5)
    kept, _ = optim.clip_grad_norm({"a": mx.ones(4)}, 10.0)
    assert kept["a"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.SGD(0.1, nesterov=True),
        lambda: optim.SGD(0.1, momentum=0.9, dampening=0.1, nesterov=True),
        lambda: optim.RMSprop(0.1, alpha=-1),
        lambda: optim.RMSprop(0.1, eps=-1),
        lambda: optim.Adagrad(0.1, eps=-1),
        lambda: optim.AdaDelta(0.1, rho=-1),
        lambda: optim.Adamax(0.1, eps=-1),
        lambda: optim.MultiOptimizer([optim.SGD(0.1)], [lambda *a: True]),
    ],
)
def test_bad_settings(make):
    with pytest.raises(ValueError):
        make()


def model_and_data():
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    x = mx.random.normal((64, 4))
    return model, x, mx.sin(x.sum(axis=1, keepdims=True))


def loss_fn(model, x, y):
    return nn.losses.mse_loss(model(x), y)


@pytest.mark.parametrize(
    "name",
    ["SGD(0.1, momentum=0.9)", "Adam(0.02)", "AdamW(0.02)", "RMSprop(0.01)", "Lion(0.02)", "Muon(0.05)"],
)
def test_training_converges(name):
    model, x, y = model_and_data()
    optimizer = eval(f"optim.{name}")
    step = nn.value_and_grad(model, loss_fn)
    first = loss_fn(model, x, y).item()
    for _ in range(60):
        _, grads = step(model, x, y)
        optimizer.update(model, grads)
        mx.eval(model.state, optimizer.state)
    assert loss_fn(model, x, y).item() < 0.3 * first


def test_compiled_training_equals_eager():
    """A compiled step, with the model and the optimizer as captured state, walks the same path."""
    results = []
    for compiled in (False, True):
        model, x, y = model_and_data()
        optimizer = optim.AdamW(optim.cosine_decay(0.02, 20))
        optimizer.init(model.trainable_parameters())
        value_and_grad = nn.value_and_grad(model, loss_fn)

        def step(x, y, model=model, optimizer=optimizer, value_and_grad=value_and_grad):
            loss, grads = value_and_grad(model, x, y)
            optimizer.update(model, grads)
            return loss

        state = [model.state, optimizer.state]
        if compiled:
            step = mx.compile(step, inputs=state, outputs=state)
        losses = []
        for _ in range(10):
            loss = step(x, y)
            mx.eval(loss, state)
            losses.append(loss.item())
        results.append(losses)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4)


def test_state_moves_through_a_file(tmp_path):
    """Training that stops, saves, loads and goes on equals training that does not stop."""
    path = str(tmp_path / "state.safetensors")

    def advance(model, optimizer, steps, x, y):
        step = nn.value_and_grad(model, loss_fn)
        for _ in range(steps):
            optimizer.update(model, step(model, x, y)[1])

    model, x, y = model_and_data()
    optimizer = optim.Adam(0.01)
    advance(model, optimizer, 3, x, y)
    mx.save_safetensors(path, tree_flatten(optimizer.state, destination={}))
    saved = model.parameters()
    advance(model, optimizer, 3, x, y)

    other, _, _ = model_and_data()
    other.update(saved)
    again = optim.Adam(0.5)
    again.state = tree_unflatten(list(mx.load(path).items()))
    advance(other, again, 3, x, y)
    assert again.step.item() == 6
    for (_, a), (_, b) in zip(tree_flatten(model.parameters()), tree_flatten(other.parameters())):
        assert mx.allclose(a, b, atol=1e-6)


def test_multi_optimizer():
    optimizer = optim.MultiOptimizer(
        [optim.SGD(0.1), optim.Adam(0.2)], [lambda name, weight: name.startswith("a")]
    )
    parameters = {"a": mx.zeros(1), "b": [mx.zeros(1)]}
    stepped = optimizer.apply_gradients({"a": mx.ones(1), "b": [mx.ones(1)]}, parameters)
    assert abs(stepped["a"].item() + 0.1) < 1e-6 and stepped["b"][0].item() < -0.1
    assert list(optimizer.state) == ["states"] and len(optimizer.state["states"]) == 2
    optimizer.learning_rate = 0.5
    assert optimizer.optimizers[1].learning_rate.item() == 0.5


def test_user_optimizers():
    """A subclass that defines the two single-parameter methods is an optimizer."""

    class Sign(optim.Optimizer):
        def __init__(self, rate):
            super().__init__()
            self._maybe_schedule("learning_rate", rate)

        def init_single(self, parameter, state):
            state["count"] = mx.zeros(())

        def apply_single(self, gradient, parameter, state):
            state["count"] = state["count"] + 1
            return parameter - self.learning_rate * mx.sign(gradient)

    model = nn.Linear(2, 2)
    before = model.bias
    optimizer = Sign(0.5)
    optimizer.update(model, {"bias": mx.array([3.0, -3.0])})
    assert mx.allclose(before - model.bias, mx.array([0.5, -0.5]))
    assert optimizer.state["bias"]["count"].item() == 1
