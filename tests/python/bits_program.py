"""A program that prints what every row of the op table and ten training steps compute, as digests of bits.

Tests run it in processes of their own and compare what it prints: with and without fusion, with memory that
is poisoned, with another memory strategy. Within one process it runs each row several times, so that the
first run, the replays of a kept plan and the compiled function are compared, too; it prints the rows that
differ.

    python bits_program.py
"""

import hashlib

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
from op_table import ELEMENTWISE, inputs
from op_table_structured import STRUCTURED
from oxmlx.utils import tree_flatten

RUNS = 4


def digest(arrays) -> str:
    found = hashlib.sha256()
    for array in arrays:
        array = array.astype(mx.float32) if array.dtype == mx.bfloat16 else array
        found.update(np.array(array).tobytes())
    return found.hexdigest()[:12]


def rows() -> dict[str, list[str]]:
    """Digests of each row and dtype: the first run, replays, and two runs of the compiled op."""
    found = {}
    for op in ELEMENTWISE + STRUCTURED:
        for dtype in op.dtypes:
            arrays, _ = inputs(op, dtype, op.shapes or ((3, 5),) * op.arity)
            compiled = mx.compile(lambda *a, op=op: op(*a))
            seen = []
            for call in (op,) * RUNS + (compiled,) * 2:
                out = call(*arrays)
                seen.append(digest(out if isinstance(out, (list, tuple)) else [out]))
            found[f"{op}-{dtype}"] = seen
    return found


def train(compiled: bool) -> str:
    mx.random.seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = optim.AdamW(1e-2)
    optimizer.init(model.trainable_parameters())
    grads_of = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
    x, y = mx.random.normal((16, 8)), mx.random.randint(0, 4, (16,))
    state = [model.state, optimizer.state, mx.random.state]

    def step(x, y):
        loss, grads = grads_of(model, x, y)
        grads, norm = optim.clip_grad_norm(grads, 1.0)
        optimizer.update(model, grads)
        return loss, norm

    if compiled:
        step = mx.compile(step, inputs=state, outputs=state)
    for _ in range(10):
        loss, norm = step(x, y)
        mx.eval(loss, norm, model.state, optimizer.state)
    return digest([loss, norm, *[p for _, p in tree_flatten(model.parameters())]])


def main():
    found = rows()
    found["training"] = [train(compiled) for compiled in (False, False, True, True)]
    print(sorted((name, seen[0]) for name, seen in found.items()))
    print(sorted(name for name, seen in found.items() if len(set(seen)) > 1))


if __name__ == "__main__":
    main()
