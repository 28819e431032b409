"""The rows of ops whose operands have shapes that belong together: reductions, shapes, indexing, products.

They are kept apart from the element-wise rows because their tests cannot choose the operands' shapes.
"""

import numpy as np
import oxmlx.core as mx
from op_table import ALL, FLOATS, INTS, Op

_SHAPE = ((3, 4, 5),)


def _row(name, call, ref, *shapes, **kwargs):
    kwargs.setdefault("domains", ((-3.0, 3.0),))
    return Op(name, ref, call=call, shapes=shapes or _SHAPE, **kwargs)


def _lse(x, axis, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True)
    found = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return found if keepdims else np.squeeze(found, axis)


def _softmax(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _reduction(name, axis, call=None, ref=None, **kwargs):
    """A reduction along `axis`, by the names of mx and numpy unless they are given."""
    label = "all" if axis is None else str(axis).replace(" ", "")
    return _row(
        f"{name}[{label}]",
        lambda x: (call or getattr(mx, name))(x, axis=axis),
        lambda x: (ref or getattr(np, name))(x, axis=axis),
        **kwargs,
    )


_AXES = (None, 0, 1, -1, (0, 2))

REDUCE = [
    *[_reduction("sum", a, tolerance=16) for a in _AXES],
    *[_reduction("mean", a, tolerance=16) for a in _AXES],
    *[_reduction("max", a, dtypes=FLOATS + INTS, differentiable=True) for a in _AXES],
    *[_reduction("min", a, dtypes=FLOATS + INTS) for a in _AXES],
    *[_reduction("prod", a, domains=((0.7, 1.4),), tolerance=32) for a in (0, -1)],
    *[_reduction("all", a, dtypes=ALL, out="bool", differentiable=False) for a in _AXES],
    *[_reduction("any", a, dtypes=ALL, out="bool", differentiable=False) for a in _AXES],
    *[
        _reduction(n, a, out="uint32", differentiable=False)
        for n in ("argmax", "argmin")
        for a in (None, 0, -1)
    ],
    *[_reduction("logsumexp", a, ref=_lse, tolerance=4) for a in (0, -1, (0, 2))],
    *[_reduction("softmax", a, ref=_softmax, tolerance=8) for a in (0, -1)],
    *[_reduction(n, a, tolerance=32) for n in ("var", "std") for a in (None, 1, (0, 2))],
    _row(
        "sum[keepdims]",
        lambda x: mx.sum(x, axis=1, keepdims=True),
        lambda x: np.sum(x, axis=1, keepdims=True),
        tolerance=16,
    ),
    _row(
        "var[ddof]", lambda x: mx.var(x, axis=-1, ddof=1), lambda x: np.var(x, axis=-1, ddof=1), tolerance=32
    ),
]


def _shape(name, call, ref, *shapes, dtypes=ALL, **kwargs):
    return _row(name, call, ref, *shapes, dtypes=dtypes, **kwargs)


SHAPE = [
    _shape("reshape", lambda x: mx.reshape(x, (4, 15)), lambda x: x.reshape(4, 15), vmap=False),
    _shape("reshape[-1]", lambda x: x.reshape(-1, 2, 6), lambda x: x.reshape(-1, 2, 6), vmap=False),
    _shape("transpose", lambda x: mx.transpose(x), lambda x: x.transpose()),
    _shape("transpose[axes]", lambda x: x.transpose(1, 2, 0), lambda x: x.transpose(1, 2, 0), vmap=True),
    _shape("swapaxes", lambda x: mx.swapaxes(x, 0, -1), lambda x: np.swapaxes(x, 0, -1)),
    _shape("moveaxis", lambda x: mx.moveaxis(x, 0, 2), lambda x: np.moveaxis(x, 0, 2)),
    _shape("expand_dims", lambda x: mx.expand_dims(x, (0, 2)), lambda x: np.expand_dims(x, (0, 2))),
    _shape("squeeze", lambda x: mx.squeeze(x, 1), lambda x: np.squeeze(x, 1), (3, 1, 4)),
    _shape("flatten", lambda x: mx.flatten(x, 1), lambda x: x.reshape(3, 20)),
    _shape("unflatten", lambda x: mx.unflatten(x, 1, (2, -1)), lambda x: x.reshape(3, 2, 2, 5)),
    _shape(
        "broadcast_to",
        lambda x: mx.broadcast_to(x, (2, 3, 4)),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        (3, 1),
        vmap=False,
    ),
    _shape(
        "concatenate",
        lambda x, y: mx.concatenate([x, y], axis=1),
        lambda x, y: np.concatenate([x, y], axis=1),
        (3, 2),
        (3, 4),
    ),
    _shape(
        "stack", lambda x, y: mx.stack([x, y], axis=1), lambda x, y: np.stack([x, y], axis=1), (3, 4), (3, 4)
    ),
    _shape("split", lambda x: mx.split(x, 2, axis=1)[1], lambda x: np.split(x, 2, axis=1)[1]),
    _shape("split[at]", lambda x: mx.split(x, [1, 3], axis=1)[1], lambda x: np.split(x, [1, 3], 1)[1]),
    _shape("tile", lambda x: mx.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    _shape("repeat", lambda x: mx.repeat(x, 3, axis=1), lambda x: np.repeat(x, 3, axis=1)),
    _shape(
        "pad",
        lambda x: mx.pad(x, [(1, 0), (0, 2), (1, 1)]),
        lambda x: np.pad(x, [(1, 0), (0, 2), (1, 1)]),
    ),
    _shape("roll", lambda x: mx.roll(x, 2, axis=1), lambda x: np.roll(x, 2, axis=1)),
    _shape("slice", lambda x: x[:, 1:4:2, ::-1], lambda x: x[:, 1:4:2, ::-1]),
    _shape("index", lambda x: x[..., 2], lambda x: x[..., 2]),
    _shape("tril", lambda x: mx.tril(x, 1), lambda x: np.tril(x, 1), (4, 5)),
    _shape("triu", lambda x: mx.triu(x, -1), lambda x: np.triu(x, -1), (4, 5)),
    _shape("diagonal", lambda x: mx.diagonal(x, 1), lambda x: np.diagonal(x, 1), (4, 5), vmap=False),
    _shape("diag", lambda x: mx.diag(x), lambda x: np.diag(x), (4,), vmap=False),
]

_INDEX = np.array([[2, 0], [1, 2]])
_ALONG = np.array([[0, 2, 1, 0], [1, 1, 0, 2]])  # no column names a row twice


def _put(x, v):
    x = x.copy()
    np.put_along_axis(x, _ALONG, v, axis=0)
    return x


INDEX = [
    _shape(
        "take",
        lambda x: mx.take(x, mx.array(_INDEX), axis=1),
        lambda x: np.take(x, _INDEX, axis=1),
        vmap=False,
    ),
    _shape("take[flat]", lambda x: mx.take(x, mx.array(_INDEX)), lambda x: np.take(x, _INDEX), vmap=False),
    _shape(
        "take_along_axis",
        lambda x: mx.take_along_axis(x, mx.array(_ALONG), axis=0),
        lambda x: np.take_along_axis(x, _ALONG, axis=0),
        (3, 4),
        vmap=False,
    ),
    _shape(
        "put_along_axis",
        lambda x, v: mx.put_along_axis(x, mx.array(_ALONG), v, axis=0),
        _put,
        (3, 4),
        (2, 4),
        vmap=False,
    ),
    _shape("gather", lambda x: x[mx.array(_INDEX)], lambda x: x[_INDEX], vmap=False),
    _shape(
        "gather[two]",
        lambda x: x[mx.array([0, 2]), :, mx.array([1, 4])],
        lambda x: x[np.array([0, 2]), :, np.array([1, 4])],
        vmap=False,
    ),
]


def _conv(x, w, stride=1, padding=0, dilation=1, groups=1):
    """A direct convolution of (N, *spatial, C) with (O, *kernel, C / groups), for any number of axes."""
    rank = x.ndim - 2
    stride, padding, dilation = (
        (v,) * rank if isinstance(v, int) else v for v in (stride, padding, dilation)
    )
    x = np.pad(x, [(0, 0), *[(p, p) for p in padding], (0, 0)])
    kernel = w.shape[1:-1]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[1:-1], kernel, stride, dilation)]
    out = np.zeros((x.shape[0], *sizes, w.shape[0]))
    channels, outs = x.shape[-1] // groups, w.shape[0] // groups
    for tap in np.ndindex(*kernel):
        view = x[
            (
                slice(None),
                *[
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, n, s in zip(tap, dilation, sizes, stride)
                ],
            )
        ]
        for g in range(groups):
            taken = view[..., g * channels : (g + 1) * channels]
            weights = w[(slice(g * outs, (g + 1) * outs), *tap)]
            out[..., g * outs : (g + 1) * outs] += taken @ weights.T
    return out


def _product(name, call, ref, *shapes, **kwargs):
    # Sums of products lose a few bits more than single operations.
    kwargs.setdefault("tolerance", 32)
    kwargs.setdefault("domains", ((-1.0, 1.0),))
    return _row(name, call, ref, *shapes, **kwargs)


def _norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def _attention(q, k, v):
    return _softmax(q @ k.swapaxes(-1, -2) * 0.5, -1) @ v


MATMUL = [
    _product("matmul", mx.matmul, np.matmul, (3, 4), (4, 5)),
    _product("matmul[vector]", mx.matmul, np.matmul, (4,), (4, 5)),
    _product("matmul[dot]", mx.matmul, np.matmul, (4,), (4,)),
    _product("matmul[batch]", mx.matmul, np.matmul, (2, 1, 3, 4), (2, 4, 5)),
    _product("matmul[transposed]", lambda a, b: a @ b.T, lambda a, b: a @ b.T, (3, 4), (5, 4)),
    _product("addmm", mx.addmm, lambda c, a, b: c + a @ b, (3, 5), (3, 4), (4, 5)),
    _product(
        "addmm[scaled]",
        lambda c, a, b: mx.addmm(c, a, b, alpha=0.5, beta=2.0),
        lambda c, a, b: 2 * c + 0.5 * (a @ b),
        (5,),
        (3, 4),
        (4, 5),
    ),
    _product("inner", mx.inner, np.inner, (3, 4), (5, 4), vmap=False),
    _product("outer", mx.outer, np.outer, (3,), (4,), vmap=False),
    _product(
        "tensordot", lambda a, b: mx.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1), (3, 4), (4, 5)
    ),
]


def _kernel(*args, **kwargs):
    # These kernels are not written for float64, in MLX neither.
    return _product(*args, dtypes=FLOATS[:3], **kwargs)


CONV = [
    _kernel(
        "conv1d", lambda x, w: mx.conv1d(x, w, 1, 1), lambda x, w: _conv(x, w, 1, 1), (2, 6, 3), (4, 3, 3)
    ),
    _kernel("conv2d", mx.conv2d, _conv, (2, 5, 6, 3), (4, 3, 2, 3)),
    _kernel(
        "conv2d[stride]",
        lambda x, w: mx.conv2d(x, w, stride=2, padding=1),
        lambda x, w: _conv(x, w, 2, 1),
        (2, 5, 6, 2),
        (4, 3, 3, 2),
    ),
    _kernel(
        "conv2d[dilation]",
        lambda x, w: mx.conv2d(x, w, dilation=(2, 1), padding=(1, 0)),
        lambda x, w: _conv(x, w, 1, (1, 0), (2, 1)),
        (1, 6, 5, 2),
        (3, 3, 2, 2),
    ),
    _kernel(
        "conv2d[groups]",
        lambda x, w: mx.conv2d(x, w, groups=2),
        lambda x, w: _conv(x, w, groups=2),
        (2, 4, 4, 4),
        (6, 2, 2, 2),
        vmap=False,
    ),
]

FAST = [
    _kernel(
        "layer_norm",
        lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
        lambda x, w, b: _norm(x) * w + b,
        (4, 8),
        (8,),
        (8,),
        vmap=False,
    ),
    _kernel(
        "rms_norm",
        lambda x, w: mx.fast.rms_norm(x, w, 1e-5),
        lambda x, w: x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * w,
        (4, 8),
        (8,),
        vmap=False,
    ),
    _kernel(
        "scaled_dot_product_attention",
        lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5),
        _attention,
        (1, 2, 3, 4),
        (1, 2, 5, 4),
        (1, 2, 5, 4),
        vmap=False,
    ),
]

STRUCTURED = [
    *REDUCE,
    *SHAPE,
    *INDEX,
    *MATMUL,
    *CONV,
    *FAST,
]
