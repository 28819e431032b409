"""What a step that repeats costs the host: launches, the time to hand it over, the time until it is done.

    python benches/python/steps.py [--device cpu|gpu]

A row a program. `nodes` are made by Python, `kernels` run on the device, `launches` are what the driver is
asked for (a graph is one). `submit` is the host's time to build a step and hand it over; `step` is the time
from step to step with a wait after each. Medians; the first steps are left out.
"""

import argparse
import statistics
import time

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
from oxmlx import debug

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def training(model, optimizer, x, y, compiled=False):
    """A step of classification; what it returns is to be evaluated."""
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean")
    )
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    mx.eval(x, y, state)

    def step():
        loss, grads = loss_and_grad(model, x, y)
        optimizer.update(model, grads)
        return loss

    if compiled:
        step = mx.compile(step, inputs=state, outputs=state)
    return lambda: [step(), model.parameters(), optimizer.state]


def mlp(compiled):
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    x, y = mx.random.uniform(shape=(256, 784)), mx.random.randint(0, 10, (256,))
    return training(model, optim.SGD(0.1), x, y, compiled)


@program
def MLP_step():
    return mlp(False)


@program
def MLP_step_compiled():
    return mlp(True)


@program
def MLP_step_AdamW():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 64))
    return training(model, optim.AdamW(1e-3), mx.ones((128, 256)), mx.random.randint(0, 64, (128,)))


@program
def convolution_step():
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        lambda x: x.flatten(1),
        nn.Linear(256, 10),
    )
    x = mx.random.uniform(shape=(64, 8, 8, 1))
    return training(model, optim.AdamW(1e-3), x, mx.random.randint(0, 10, (64,)))


@program
def a_batch_from_numpy():
    batch = np.random.rand(128, 256).astype(np.float32)
    w = mx.random.normal((256, 64))
    return lambda: [mx.tanh(mx.array(batch) @ w).sum()]


@program
def one_small_op():
    x = mx.ones((1,))
    mx.eval(x)
    return lambda: [x + 1]


def measure(step, steps):
    submit, total = [], []
    for _ in range(steps):
        begin = time.perf_counter()
        out = step()
        mx.async_eval(out)
        submit.append(time.perf_counter() - begin)
        mx.synchronize()
        total.append(time.perf_counter() - begin)
    return statistics.median(submit), statistics.median(total)


def counts(step):
    before = debug.cache_stats()
    mx.eval(step())
    mx.synchronize()
    after = debug.cache_stats()
    return {name: value - before.get(name, 0) for name, value in after.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    if arguments.device:
        mx.set_default_device(getattr(mx, arguments.device))
    heads = ("nodes", "programs", "kernels", "launches", "submit", "step")
    print(f"{'on ' + str(mx.default_device()):22}" + "".join(f"{h:>10}" for h in heads))
    for name, make in PROGRAMS.items():
        step = make()
        for _ in range(20):
            mx.eval(step())
        gained = counts(step)
        launches = gained.get("graph_launches", 0) + gained.get("direct_launches", 0)
        submit, total = measure(step, arguments.steps)
        numbers = [gained["nodes"], gained["programs"], gained["kernels"], launches]
        times = "".join(f"{t * 1e6:>7.1f} us" for t in (submit, total))
        print(f"{name:22}" + "".join(f"{n:>10}" for n in numbers) + times)


if __name__ == "__main__":
    main()
