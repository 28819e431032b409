"""Small programs that launch every kernel: what `sanitize.py` runs under compute-sanitizer.

A case is a name and a function that returns arrays. Which kernels a case launches is not written here: the
runner sees it in the trace, keeps a case if it launches a kernel that none before it did, and says which
kernels of the generated list no case launches. So a new kernel needs no line here as long as some case
reaches it, and the check fails where none does.
"""

import sys
from pathlib import Path

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from op_table import ELEMENTWISE, inputs
from op_table_structured import STRUCTURED

FLOATS = ("float16", "float32", "float64", "bfloat16")
WHOLE = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
DTYPES = ("bool_", *WHOLE, *FLOATS, "complex64")
NUMBERS = DTYPES[1:]

CASES = {}


def case(name, function):
    assert name not in CASES, name
    CASES[name] = function


def values(shape, dtype, seed=0):
    """Small whole numbers of a dtype, not constant: nothing folds and no sum overflows."""
    found = np.random.RandomState(seed).randint(0, 3, shape).astype(np.float32)
    return mx.array(found).astype(getattr(mx, dtype))


def indices(shape, below, seed=1, dtype="int32"):
    low = 0 if dtype.startswith("u") else -below
    return mx.array(np.random.RandomState(seed).randint(low, below, shape)).astype(getattr(mx, dtype))


# Rows that are short and long, divide into vectors and do not; one axis that is long enough for two stages.
SHAPES = ((3, 5), (33, 129), (2, 4096), (4096, 2), (7, 70_001), (70_001, 7), (300_000,), (5, 64, 33))


def copies():
    views = {
        "contiguous": lambda x: mx.contiguous(x) + 0,
        "transposed": lambda x: mx.contiguous(x.T),
        "stepped": lambda x: mx.contiguous(x[..., ::2]),
        "reversed": lambda x: mx.contiguous(x[::-1]),
        "window": lambda x: mx.contiguous(x[1:, ..., 1:] if x.ndim > 1 else x[1:]),
        "broadcast": lambda x: mx.contiguous(mx.broadcast_to(x[:1], (3, *x.shape[1:]))),
        "padded": lambda x: mx.pad(x, [(1, 2)] * x.ndim),
        "joined": lambda x: mx.concatenate([x, x[:1], x], axis=0),
        "joined last": lambda x: mx.concatenate([x, x[..., :1]], axis=-1),
        "repeated": lambda x: mx.repeat(x, 2, axis=-1),
        "rolled": lambda x: mx.roll(x, 1, axis=-1),
        "filled": lambda x: mx.contiguous(mx.full(x.shape, 1, x.dtype)),
        "zeros": lambda x: mx.contiguous(mx.zeros(x.shape, x.dtype)),
        "written": lambda x: written(x),
        "reshaped": lambda x: mx.contiguous(x.T.reshape(-1)),
    }
    for dtype in ("uint8", "float16", "float32", "float64", "complex64"):
        for shape in ((33, 129), (64, 256), (5, 64, 34), (4099,)):
            for name, view in views.items():
                case(f"copy {name} {dtype} {shape}", lambda d=dtype, s=shape, v=view: [v(values(s, d))])
    for dtype in DTYPES:
        case(f"arange {dtype}", lambda d=dtype: arange(d))


def arange(dtype):
    if dtype == "bool_":
        return []
    return [mx.arange(0, 100, 3, dtype=getattr(mx, dtype))]


def written(x):
    x = x + 0
    x[1:3] = x[:1] if x.ndim > 1 else x[:2]
    x[..., ::2] = 1
    return x


def reductions():
    for dtype in DTYPES:
        for shape in SHAPES:
            for axis in (None, *range(len(shape)), *([(0, 2)] if len(shape) == 3 else [])):
                for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "argmin"):
                    if isinstance(axis, tuple) and name.startswith("arg"):
                        continue
                    reduce = lambda d=dtype, s=shape, a=axis, n=name: [getattr(mx, n)(values(s, d), axis=a)]
                    case(f"{name} {dtype} {shape} axis {axis}", reduce)
                    strided = lambda d=dtype, s=shape, a=axis, n=name: [
                        getattr(mx, n)(values((*s, 2), d)[..., 0], axis=a)
                    ]
                    case(f"{name} {dtype} {shape} strided axis {axis}", strided)


FOLDS = ("add", "multiply", "maximum", "minimum")


def indexing():
    for dtype in DTYPES:
        for width in (1, 2, 3, 4, 8, 16, 256):
            gather = lambda d=dtype, w=width: [values((50, w), d)[indices((40,), 50)]]
            case(f"gather rows {dtype} {width}", gather)
        case(f"take {dtype}", lambda d=dtype: [mx.take(values((9, 30), d), indices((7,), 30), axis=1)])
        case(
            f"take_along {dtype}",
            lambda d=dtype: [mx.take_along_axis(values((9, 30), d), indices((4, 30), 9), axis=0)],
        )
        # A few indices, many, rows of many, and into columns; with each index type once.
        layouts = {
            "few": lambda: ((50,), indices((3,), 50)),
            "many": lambda: ((500,), indices((20_000,), 500, dtype="int64")),
            "few rows": lambda: ((50, 33), indices((3,), 50, dtype="uint8")),
            "many rows": lambda: ((100, 65), indices((3000,), 100)),
            "wide rows": lambda: ((20, 1024), indices((600,), 20, dtype="uint32")),
        }
        for name, make in layouts.items():
            case(f"write {name} {dtype}", lambda d=dtype, m=make: [put(d, *m())])
            for fold in FOLDS:
                if dtype == "bool_":
                    continue
                case(f"{fold} at {name} {dtype}", lambda d=dtype, m=make, f=fold: [fold_at(d, f, *m())])
        case(f"columns {dtype}", lambda d=dtype: [put_along(d)])
        for fold in FOLDS if dtype != "bool_" else ():
            case(f"{fold} columns {dtype}", lambda d=dtype, f=fold: [fold_columns(d, f)])

    for dtype in FLOATS:
        for rows, width in ((4, 30), (300, 30), (300, 5000)):
            gradient = lambda d=dtype, r=rows, w=width: [along_gradient(d, r, w)]
            case(f"take_along gradient {dtype} {rows} {width}", gradient)
    # Places beyond 32 bits, sorted.
    case("add at far places", lambda: [far_places()])


def along_gradient(dtype, rows, width):
    index = indices((rows, width), 9)
    loss = lambda x: (mx.take_along_axis(x, index, axis=0) * 2).sum()
    return mx.grad(loss)(values((9, width), dtype))


def far_places():
    if mx.default_device() == mx.cpu:
        return mx.zeros(())
    index = mx.array(np.random.RandomState(5).randint(0, 1 << 32, 2000).astype(np.int64))
    return mx.zeros(((1 << 32) + 9,), mx.uint8).at[index].add(mx.array(1, mx.uint8))[-9:]


def put(dtype, shape, index):
    x = values(shape, dtype)
    x[index] = values((*index.shape, *shape[1:]), dtype, 3)
    return x


def fold_at(dtype, fold, shape, index):
    return getattr(values(shape, dtype).at[index], fold)(values((*index.shape, *shape[1:]), dtype, 3))


def put_along(dtype):
    return mx.put_along_axis(values((9, 30), dtype), indices((4, 30), 9), values((4, 30), dtype, 3), axis=0)


def fold_columns(dtype, fold):
    return getattr(values((64, 100), dtype).at[:, indices((700,), 100)], fold)(values((64, 700), dtype, 3))


def products():
    # Tall, flat, vectors, few rows, batches, transposed operands; sizes on both sides of the library's.
    shapes = (
        ((3, 4), (4, 5)),
        ((1, 300), (300, 70)),
        ((70, 300), (300, 1)),
        ((4, 300), (300, 64)),
        ((7, 40), (40, 33)),
        ((64, 64), (64, 64)),
        ((130, 257), (257, 140)),
        # Larger tiles, a depth in chunks, the library.
        ((384, 20), (20, 352)),
        ((20, 3000), (3000, 17)),
        ((300, 520), (520, 300)),
        ((5, 33, 17), (5, 17, 9)),
        ((2, 1, 33, 17), (5, 17, 9)),
    )
    for dtype in (*FLOATS, "complex64"):
        for a, b in shapes:
            case(f"matmul {dtype} {a} {b}", lambda d=dtype, a=a, b=b: [values(a, d) @ values(b, d)])
            turned = lambda d=dtype, a=a, b=b: [
                mx.swapaxes(values((*a[:-2], a[-1], a[-2]), d), -1, -2)
                @ mx.swapaxes(values((*b[:-2], b[-1], b[-2]), d), -1, -2)
            ]
            case(f"matmul transposed {dtype} {a} {b}", turned)
        case(f"addmm {dtype}", lambda d=dtype: [addmm(d, (33, 65))])
        case(f"addmm row {dtype}", lambda d=dtype: [addmm(d, (65,))])
    case("matmul of nothing", lambda: [values((3, 0), "float32") @ values((0, 4), "float32")])


def addmm(dtype, shape):
    return mx.addmm(
        values(shape, dtype), values((33, 17), dtype), values((17, 65), dtype), alpha=0.5, beta=2.0
    )


def convolutions():
    for dtype in (*FLOATS, "complex64"):
        for kwargs in ({}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2}):
            for channels in (2, 16, 34, 64):
                case(
                    f"conv2d {dtype} {channels} {kwargs}",
                    lambda d=dtype, c=channels, k=kwargs: convolve(d, c, k),
                )


def convolve(dtype, channels, kwargs):
    x = values((2, 17, 16, channels), dtype)
    w = values((16, 3, 3, channels // kwargs.get("groups", 1)), dtype)
    if dtype == "complex64":
        return [mx.conv2d(x, w, **kwargs)]
    loss = lambda x, w: mx.conv2d(x, w, **kwargs).astype(mx.float32).sum()
    return [mx.conv2d(x, w, **kwargs), *mx.grad(loss, argnums=(0, 1))(x, w)]


def draws():
    for n in (1, 2, 1001, 70_002):
        case(f"uniform {n}", lambda n=n: [mx.random.uniform(shape=(n,))])
    for dtype in ("float16", "bfloat16"):
        case(f"uniform {dtype}", lambda d=dtype: [mx.random.uniform(shape=(1001,), dtype=getattr(mx, d))])
    for name in ("normal", "gumbel", "laplace"):
        case(name, lambda n=name: [getattr(mx.random, n)((1001,))])
    case("randint", lambda: [mx.random.randint(0, 9, (1001,))])
    case("bernoulli", lambda: [mx.random.bernoulli(0.3, (1001,))])
    case("categorical", lambda: [mx.random.categorical(mx.zeros((5, 33)))])
    case("split", lambda: [mx.random.split(mx.random.key(1), 9)])
    case("split many", lambda: [mx.random.uniform(shape=(3,), key=mx.random.split(mx.random.key(1), 9)[4])])


def table():
    """Each row of the op table, in each dtype; generated kernels are compiled for most of them."""
    for op in ELEMENTWISE + STRUCTURED:
        for dtype in op.dtypes:
            case(f"table {op}-{dtype}", lambda op=op, d=dtype: table_row(op, d))


def table_row(op, dtype):
    arrays, _ = inputs(op, dtype, op.shapes or ((33, 65),) * op.arity)
    found = op(*arrays)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def training():
    for dtype in ("float32", "bfloat16"):
        case(f"training {dtype}", lambda d=dtype: train(d))


def train(dtype):
    mx.random.seed(3)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Dropout(0.2), nn.Linear(96, 10))
    model.set_dtype(getattr(mx, dtype))
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean")
    )
    x, y = values((32, 64), dtype), mx.random.randint(0, 10, (32,))
    for optimizer in (optim.AdamW(1e-2), optim.SGD(1e-2, momentum=0.9), optim.Lion(1e-3)):
        for _ in range(3):
            loss, grads = loss_and_grad(model, x, y)
            grads, _ = optim.clip_grad_norm(grads, 1.0)
            optimizer.update(model, grads)
            mx.eval(loss, model.state, optimizer.state)
    return [loss]


for _part in (copies, reductions, indexing, products, convolutions, draws, training, table):
    _part()


def run(name):
    """Run a case to its end."""
    out = CASES[name]()
    mx.eval(out)
    mx.synchronize()
