"""What one call from Python costs: binding, node, and the old node's end. Nothing is evaluated.

    python benches/python/calls.py

Compare builds (stable ABI, one interpreter's own ABI) on one machine in one sitting: the figures move with
it.
"""

import timeit

import oxmlx.core as mx

x, y = mx.ones((16,)), mx.ones((16,))
mx.eval(x, y)

CALLS = {
    "x + y": lambda: x + y,
    "mx.add(x, y)": lambda: mx.add(x, y),
    "x * 2.0": lambda: x * 2.0,
    "mx.exp(x)": lambda: mx.exp(x),
    "x[0]": lambda: x[0],
    "x.sum(axis=0)": lambda: x.sum(axis=0),
    "x.shape": lambda: x.shape,
}

for name, call in CALLS.items():
    best = min(timeit.repeat(call, number=100_000, repeat=7)) / 100_000
    print(f"{name:16} {best * 1e9:6.0f} ns")
