"""Every row of the op table against numpy, against finite differences and against itself under transforms.

This is where an op is proved: the same ten questions are asked of each, so no op has a test of its own unless
it has a peculiarity of its own.
"""

import zlib

import numpy as np
import oxmlx.core as mx
import pytest
import table_exemptions
from op_table import ELEMENTWISE, FLOATS, RTOL, inputs, to_mx, to_numpy
from op_table_structured import STRUCTURED

ROWS = ELEMENTWISE + STRUCTURED
FLOAT_ROWS = [op for op in ROWS if "float32" in op.dtypes]
DIFFERENTIABLE = [op for op in FLOAT_ROWS if op.differentiable]
ANY_SHAPE = (3, 5)


def shapes_of(op):
    return op.shapes or (ANY_SHAPE,) * op.arity


def check(found, expected, dtype, tolerance=1.0):
    """Compare with a reference to within the dtype's tolerance, relative to the largest value."""
    found = to_numpy(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected.astype(found.dtype))
        return
    rtol = RTOL.get(dtype, RTOL["float32"]) * tolerance
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * min(scale, 1.0) * 0.25)


def bits(array):
    """The raw bytes of an array, for comparisons that must be exact."""
    size = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[array.dtype.size]
    if array.dtype == mx.complex64:
        return np.array(array).view(np.uint64)
    return np.array(mx.contiguous(array).reshape(-1).view(size))


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(bits(a), bits(b))


def pairs():
    return [pytest.param(op, dtype, id=f"{op}-{dtype}") for op in ROWS for dtype in op.dtypes]


@pytest.mark.parametrize("op, dtype", pairs())
def test_forward(op, dtype):
    """The values and the dtype of the result, for every dtype that the row allows."""
    arrays, references = inputs(op, dtype, shapes_of(op))
    found = op(*arrays)
    assert found.dtype == getattr(mx, op.out_dtype(dtype))
    with np.errstate(all="ignore"):
        target = "float32" if op.loose64 and dtype == "float64" else op.out_dtype(dtype)
        check(found, op.ref(*references), target, op.tolerance)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (17,), (1000,), (2, 3, 1, 5)], ids=str)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=str)
def test_any_shape(op, shape):
    """Scalars, empty arrays and lengths that no vector register divides."""
    arrays, references = inputs(op, op.dtypes[0], (shape,) * op.arity, seed=1)
    found = op(*arrays)
    assert found.shape == shape
    with np.errstate(all="ignore"):
        check(found, op.ref(*references), op.out_dtype(op.dtypes[0]), op.tolerance)


VIEWS = {
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[::2, 1::3],
    "reversed": lambda x: x[::-1, ::-2],
    "broadcast": lambda x: mx.broadcast_to(x[:1], (4, *x.shape[1:])),
    "column": lambda x: x[:, 3],
}


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=str)
def test_views(op, view):
    """An op on a view gives the bits that it gives on a copy of the view."""
    arrays, _ = inputs(op, op.dtypes[0], ((6, 7),) * op.arity, seed=2)
    views = [VIEWS[view](a) for a in arrays]
    copies = [mx.array(np.array(v)) if v.dtype not in (mx.bfloat16, mx.float64) else v for v in views]
    mx.eval(copies)
    same_bits(op(*views), op(*copies))


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), ((4,), ()), ((2, 3, 4), (3, 1)), ((1,), (0,))], ids=str)
@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if op.arity == 2], ids=str)
def test_broadcasting(op, shapes):
    """Two operands of different shapes."""
    arrays, references = inputs(op, op.dtypes[0], shapes, seed=3)
    with np.errstate(all="ignore"):
        expected = op.ref(*references)
    check(op(*arrays), expected, op.out_dtype(op.dtypes[0]), op.tolerance)


def weighted(op, shape):
    """A scalar function of the operands: the result times fixed random weights, summed."""
    weights = np.random.RandomState(7).uniform(0.5, 1.5, shape)
    w = mx.array(weights.astype(np.float32))
    return (lambda *a: (op(*a) * w).sum()), (lambda *a: float((op.ref(*a) * weights).sum()))


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=str)
def test_gradient(op):
    """Gradients by every operand against central differences of the float64 reference."""
    arrays, references = inputs(op, "float32", shapes_of(op), seed=4)
    function, reference = weighted(op, np.shape(op.ref(*references)))
    found = mx.grad(function, argnums=tuple(range(op.arity)))(*arrays)
    if op.arity == 1:
        # One gradient comes without its tuple.
        found = [found]
    step = 1e-6
    for gradient, operand in zip(found, references):
        expected = np.zeros(operand.shape)
        for at in np.ndindex(*operand.shape):
            keep = operand[at]
            operand[at] = keep + step
            above = reference(*references)
            operand[at] = keep - step
            expected[at] = (above - reference(*references)) / (2 * step)
            operand[at] = keep
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(to_numpy(gradient), expected, rtol=2e-4, atol=2e-5 * scale)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=str)
def test_jvp_is_transpose_of_vjp(op):
    """u . (J v) equals (J^T u) . v for random u and v."""
    arrays, _ = inputs(op, "float32", shapes_of(op), seed=5)
    rng = np.random.RandomState(zlib.crc32(op.name.encode()))
    tangents = [mx.array(rng.uniform(-1, 1, a.shape).astype(np.float32)) for a in arrays]
    outputs, forward = mx.jvp(lambda *a: op(*a), arrays, tangents)
    cotangent = mx.array(rng.uniform(-1, 1, outputs[0].shape).astype(np.float32))
    _, backward = mx.vjp(lambda *a: op(*a), arrays, [cotangent])
    left = float((to_numpy(forward[0]) * to_numpy(cotangent)).sum())
    right = float(sum((to_numpy(b) * to_numpy(t)).sum() for b, t in zip(backward, tangents)))
    assert left == pytest.approx(right, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("op", [op for op in ROWS if op.vmap], ids=str)
def test_vmap(op):
    """vmap over a new first axis of all operands, and of the first one only, against a loop."""
    dtype = op.dtypes[0]
    stacked, _ = inputs(op, dtype, [(3, *s) for s in shapes_of(op)], seed=6)
    expected = mx.stack([op(*[a[i] for a in stacked]) for i in range(3)])
    found = mx.vmap(lambda *a: op(*a))(*stacked)
    check(found, to_numpy(expected), op.out_dtype(dtype), max(op.tolerance, 4))
    if op.arity > 1:
        rest = [a[0] for a in stacked[1:]]
        expected = mx.stack([op(stacked[0][i], *rest) for i in range(3)])
        found = mx.vmap(lambda *a: op(*a), in_axes=(0, *[None] * len(rest)))(stacked[0], *rest)
        check(found, to_numpy(expected), op.out_dtype(dtype), max(op.tolerance, 4))


@pytest.mark.parametrize("op", ROWS, ids=str)
def test_compiled(op):
    """A compiled op gives the bits of the eager one, on the first call and on a repeated one."""
    arrays, _ = inputs(op, op.dtypes[0], shapes_of(op), seed=8)
    compiled = mx.compile(lambda *a: op(*a))
    expected = op(*arrays)
    mx.eval(expected)
    for _ in range(3):
        same_bits(compiled(*arrays), expected)


@pytest.mark.parametrize("op", [op for op in FLOAT_ROWS if op.out in ("same", "float")], ids=str)
def test_fused_chain(op):
    """A chain evaluated as one program gives the bits of the same chain evaluated op by op."""
    arrays, _ = inputs(op, "float32", shapes_of(op), seed=9)

    def chain(*operands, after=lambda x: x):
        x = after(operands[0] * 0.5)
        x = after(x + 0.5 * operands[0])
        y = after(op(x, *operands[1:]))
        y = after(y * y)
        z = after(y - 0.25)
        return after(z.sum(axis=-1) if z.ndim else z), z

    def evaluated(x):
        mx.eval(x)
        return x

    for lazy, eager in zip(chain(*arrays), chain(*arrays, after=evaluated)):
        same_bits(lazy, eager)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-42, 3e38, -3e38])


def special_rows():
    rows = [op for op in ELEMENTWISE if op.arity == 1 and op.name not in table_exemptions.OWN_SPECIAL_VALUES]
    return [
        pytest.param(op, d, id=f"{op}-{d}") for op in rows for d in ("float32", "float64") if d in op.dtypes
    ]


@pytest.mark.parametrize("op, dtype", special_rows())
def test_special_values(op, dtype):
    """Zeros, infinities and nan give what IEEE 754 (and numpy) say, where the row has no reason to differ."""
    values = SPECIAL if op.name not in table_exemptions.NO_HUGE else SPECIAL[:7]
    array = to_mx(values, dtype)
    with np.errstate(all="ignore"):
        expected = op.ref(to_numpy(array))
        if dtype == "float32" and expected.dtype.kind == "f":
            expected = expected.astype(np.float32)
    found = to_numpy(op(array))
    if found.dtype.kind == "b":
        np.testing.assert_array_equal(found, expected)
    else:
        # Subnormals may count as zero.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-37)


def test_rows_are_distinct():
    """Two rows of one name would hide each other."""
    names = [op.name for op in ROWS]
    assert len(names) == len(set(names))


def test_floats_are_all_tested():
    """Every floating dtype is run by most element-wise rows."""
    for dtype in FLOATS:
        assert sum(dtype in op.dtypes for op in ELEMENTWISE) > 40
