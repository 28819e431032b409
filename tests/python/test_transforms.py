"""grad, vjp, jvp, vmap and compile: what they take, return and refuse."""

import numpy as np
import oxmlx.core as mx
import pytest


def test_grad_returns_what_argnums_asks_for():
    f = lambda x, y: (x * x * y).sum()  # noqa: E731
    x, y = mx.array([2.0]), mx.array([3.0])
    assert mx.grad(f)(x, y).tolist() == [12]
    assert mx.grad(f, argnums=1)(x, y).tolist() == [4]
    both = mx.grad(f, argnums=[0, 1])(x, y)
    assert isinstance(both, tuple) and [g.tolist() for g in both] == [[12], [4]]
    none, named = mx.grad(f, argnames="y")(x, y=y)
    assert none is None and named["y"].tolist() == [4]
    value, gradient = mx.value_and_grad(f)(x, y)
    assert value.item() == 12 and gradient.tolist() == [12]


def test_grad_of_trees_and_auxiliary_values():
    def f(p):
        return (p["a"] * p["b"][0]).sum(), {"note": p["a"]}

    (value, aux), grads = mx.value_and_grad(f)({"a": mx.array([1.0, 2.0]), "b": [mx.array([3.0, 4.0])]})
    assert value.item() == 11 and aux["note"].tolist() == [1, 2]
    assert grads["a"].tolist() == [3, 4] and grads["b"][0].tolist() == [1, 2]


def test_higher_derivatives():
    f = lambda x: mx.sin(x) * x**3  # noqa: E731
    x = 0.7
    third = mx.grad(mx.grad(mx.grad(f)))(mx.array(x))
    expected = 6 * np.sin(x) + 18 * x * np.cos(x) - 9 * x**2 * np.sin(x) - x**3 * np.cos(x)
    assert third.item() == pytest.approx(expected, rel=1e-4)
    hessian_row = mx.grad(lambda v: mx.grad(lambda u: (u**3).sum())(v)[0])(mx.array([2.0, 1.0]))
    assert hessian_row.tolist() == [12, 0]


def test_stop_gradient_and_ties():
    assert mx.grad(lambda x: (mx.stop_gradient(x) * x).sum())(mx.array([3.0])).tolist() == [3]
    assert mx.grad(lambda x: x.max())(mx.array([1.0, 5.0, 5.0])).tolist() == [0, 0.5, 0.5]
    assert mx.grad(lambda x: mx.abs(x).sum())(mx.array([0.0])).tolist() == [0]


def test_unused_arguments_have_zero_gradients():
    assert mx.grad(lambda x, y: x.sum(), argnums=1)(mx.ones(2), mx.ones(3)).tolist() == [0, 0, 0]


def test_jvp_and_vjp():
    f = lambda x, y: (x * y, x + y)  # noqa: E731
    x, y = mx.array([2.0]), mx.array([5.0])
    outputs, tangents = mx.jvp(f, [x, y], [mx.array([1.0]), mx.array([10.0])])
    assert [o.tolist() for o in outputs] == [[10], [7]]
    assert [t.tolist() for t in tangents] == [[25], [11]]
    outputs, grads = mx.vjp(f, [x, y], [mx.array([1.0]), mx.array([2.0])])
    assert [g.tolist() for g in grads] == [[7], [4]]


def test_vmap_axes():
    x = mx.arange(6.0).reshape(2, 3)
    assert mx.vmap(lambda r: r.sum())(x).tolist() == [3, 12]
    assert mx.vmap(lambda c: c.sum(), in_axes=1)(x).tolist() == [3, 5, 7]
    assert mx.vmap(lambda r: r * 2, out_axes=1)(x).shape == (3, 2)
    a, b = mx.vmap(lambda r, s: (r + s, r.max()), in_axes=(0, None))(x, mx.array(1.0))
    assert a.shape == (2, 3) and b.tolist() == [2, 5]
    outer = mx.vmap(mx.vmap(lambda p, q: p * q, in_axes=(None, 0)), in_axes=(0, None))
    assert outer(mx.arange(3), mx.arange(4)).tolist() == np.outer(range(3), range(4)).tolist()
    with pytest.raises(ValueError):
        mx.vmap(lambda p, q: p + q)(mx.zeros((2,)), mx.zeros((3,)))


def test_grad_of_vmap_and_vmap_of_grad():
    w, xs = mx.array([1.0, 2.0]), mx.array([[1.0, 0.5], [2.0, 1.0], [0.0, 3.0]])
    f = lambda w, x: mx.tanh((w * x).sum())  # noqa: E731
    per_example = mx.vmap(mx.grad(f), in_axes=(None, 0))(w, xs)
    expected = mx.stack([mx.grad(f)(w, x) for x in xs])
    assert mx.allclose(per_example, expected)
    summed = mx.grad(lambda w: mx.vmap(f, in_axes=(None, 0))(w, xs).sum())(w)
    assert mx.allclose(summed, expected.sum(axis=0), atol=1e-6)


def test_compile_traces_once_per_signature():
    traces = []

    def f(x, scale=1):
        traces.append(x.shape)
        return mx.exp(x) * scale

    g = mx.compile(f)
    x = mx.array([0.0, 1.0])
    for _ in range(3):
        assert mx.allclose(g(x), mx.exp(x))
    assert len(traces) == 1
    g(mx.zeros((3,)))
    g(x.astype(mx.float16))
    g(x, scale=2)
    assert len(traces) == 4
    assert g.__name__ == "f"


def test_compile_captures_state():
    state = {"n": mx.array(0), "log": [mx.array(1.0)]}

    def step(x):
        state["n"] = state["n"] + 1
        state["log"][0] = state["log"][0] * x
        return state["n"] * 10

    step = mx.compile(step, inputs=state, outputs=state)
    assert [step(mx.array(2.0)).item() for _ in range(3)] == [10, 20, 30]
    assert state["n"].item() == 3 and state["log"][0].item() == 8


def test_compile_inside_transforms():
    f = mx.compile(lambda x: (mx.sin(x) * x).sum())
    x = mx.array([0.5, 1.5])
    assert mx.allclose(mx.grad(f)(x), mx.sin(x) + x * mx.cos(x))
    assert mx.allclose(mx.compile(mx.grad(f))(x), mx.grad(f)(x))


def test_shapeless_compile():
    traces = []

    def f(x):
        traces.append(1)
        return mx.abs(x) + 1

    g = mx.compile(f, shapeless=True)
    assert g(mx.zeros((2,))).shape == (2,) and g(mx.zeros((5,))).shape == (5,)
    assert len(traces) == 1


def test_eval_is_refused_while_tracing():
    with pytest.raises(ValueError):
        mx.compile(lambda x: x * x.item())(mx.array(2.0))


def test_captured_arrays_are_usable_after_grad():
    kept = []

    def f(x):
        kept.append(x * 2)
        return x.sum()

    mx.grad(f)(mx.array([1.0, 2.0]))
    assert kept[0].tolist() == [2, 4]


def test_eval_takes_trees():
    a, b = mx.ones(2) + 1, mx.ones(2) * 3
    assert mx.eval({"a": [a], "n": None}, (b, 3)) is None
    mx.async_eval(a + b)
    mx.synchronize()


def test_arrays_evaluate_in_any_thread():
    import threading

    x = mx.arange(1000.0)
    results = []

    def work(i):
        # Made and evaluated here: MLX ties pending work to the thread that made it.
        results.append(float((mx.array(np.arange(1000.0, dtype=np.float32)) * i).sum().item()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [float(x.sum().item() * i) for i in range(8)]


@pytest.mark.beyond_mlx
def test_pending_work_moves_between_threads():
    import threading

    x = mx.arange(10.0) * 2
    found = []
    thread = threading.Thread(target=lambda: found.append((x + 1).tolist()))
    thread.start()
    thread.join()
    assert found == [[2.0 * i + 1 for i in range(10)]]


def test_compiled_functions_tell_structures_apart():
    f = mx.compile(lambda d: sum(v for v in d.values() if v is not None) * len(d))
    x = mx.array(2.0)
    assert f({"a": None, "b": x}).item() == 4
    assert f({"a:Nb": x}).item() == 2
    g = mx.compile(lambda x, k: x * (3 if isinstance(k, str) else 5))
    assert g(x, 1).item() == 10 and g(x, "1").item() == 6 and g(x, True).item() == 10
