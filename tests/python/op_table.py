"""The table that the op tests run: one row an op.

A row says how to call the op, what numpy computes in its place, which dtypes it takes, where its inputs lie
and how close the result must be. `test_table.py` turns each row into about ten tests, so a new op costs one
row here. Element-wise ops take any shape; the structured ones are in `op_table_structured.py`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import oxmlx.core as mx

FLOATS = ("float32", "float16", "bfloat16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
BOOL = ("bool_",)
ALL = FLOATS + INTS + BOOL

# Relative tolerance: a few units in the last place of each dtype.
RTOL = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "complex64": 4e-6}
NUMPY = {"bool_": np.bool_, "bfloat16": np.float32}


@dataclass(frozen=True)
class Op:
    """One row. `out` is "same", "bool", "float" (integers become float32) or the name of a dtype."""

    name: str
    ref: Callable
    domains: tuple = ((-3.0, 3.0),)
    dtypes: tuple = FLOATS
    out: str = "same"
    call: Callable | None = None
    shapes: tuple | None = None
    differentiable: bool = True
    vmap: bool = True
    tolerance: float = 1.0
    # float64 is held to the tolerance of float32, for want of a better formula.
    loose64: bool = False

    def __str__(self):
        return self.name

    @property
    def arity(self) -> int:
        return len(self.shapes) if self.shapes is not None else len(self.domains)

    @property
    def elementwise(self) -> bool:
        return self.shapes is None

    def __call__(self, *arrays):
        return (self.call or getattr(mx, self.name))(*arrays)

    def out_dtype(self, dtype: str) -> str:
        if self.out == "same":
            return dtype
        if self.out == "bool":
            return "bool_"
        if self.out == "float":
            return dtype if dtype in RTOL else "float32"
        return self.out


def to_mx(values: np.ndarray, dtype: str):
    """The mx.array of a dtype that numpy may lack."""
    return mx.array(values, dtype=getattr(mx, dtype))


def to_numpy(array) -> np.ndarray:
    """The values of an array, in float64 where the dtype is a floating one."""
    if array.dtype == mx.bfloat16:
        array = array.astype(mx.float32)
    found = np.array(array)
    return found.astype(np.float64) if found.dtype.kind == "f" else found


def inputs(op: Op, dtype: str, shapes, seed: int = 0):
    """Random operands for a row, as mx.arrays and as what the reference takes."""
    rng = np.random.RandomState(sum(op.name.encode()) + seed)
    arrays, references = [], []
    for i, shape in enumerate(shapes):
        low, high = op.domains[min(i, len(op.domains) - 1)]
        if dtype == "bool_":
            values = rng.randint(0, 2, shape).astype(bool)
        elif dtype in INTS:
            low, high = math.ceil(low), math.floor(high)
            values = rng.randint(max(low, 0) if dtype in UNSIGNED else low, high + 1, shape).astype(dtype)
        elif dtype == "complex64":
            values = (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(np.complex64)
        else:
            values = rng.uniform(low, high, shape)
        array = to_mx(np.asarray(values), dtype)
        arrays.append(array)
        as_float = op.out == "float" or dtype in FLOATS
        references.append(to_numpy(array).astype(np.float64) if as_float else np.array(array))
    return arrays, references


def _erfinv(x):
    normal = NormalDist()

    def one(v):
        if abs(v) >= 1:
            return math.copysign(math.inf, v) if abs(v) == 1 else math.nan
        return normal.inv_cdf((v + 1) / 2) / math.sqrt(2)

    return np.vectorize(one, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


def _erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _integer_power(a, b):
    return np.power(a, b)


_ANY = (-3.0, 3.0)
_POSITIVE = (0.1, 4.0)
_FLOAT_AND_INT = (*FLOATS, "int32", "uint8", "int64")


def _float_op(name, ref, domain=_ANY, **kwargs):
    """A function of real numbers: integers are converted to float32 first."""
    return Op(name, ref, (domain,), _FLOAT_AND_INT, "float", **kwargs)


UNARY = [
    Op("abs", np.abs, dtypes=FLOATS + INTS),
    _float_op("arccos", np.arccos, (-0.95, 0.95), tolerance=4),
    _float_op("arccosh", np.arccosh, (1.2, 4.0), tolerance=4),
    _float_op("arcsin", np.arcsin, (-0.95, 0.95), tolerance=4),
    _float_op("arcsinh", np.arcsinh, tolerance=4),
    _float_op("arctan", np.arctan, tolerance=4),
    _float_op("arctanh", np.arctanh, (-0.9, 0.9), tolerance=4),
    Op("bitwise_invert", np.invert, ((0, 100),), INTS + BOOL, differentiable=False),
    Op("ceil", np.ceil, dtypes=FLOATS, differentiable=False),
    Op("conjugate", np.conjugate, dtypes=("complex64",), differentiable=False),
    _float_op("cos", np.cos, tolerance=2),
    _float_op("cosh", np.cosh, tolerance=2),
    _float_op("degrees", np.degrees),
    _float_op("radians", np.radians),
    _float_op("erf", _erf, tolerance=2),
    _float_op("erfinv", _erfinv, (-0.95, 0.95), tolerance=8, loose64=True),
    _float_op("exp", np.exp, tolerance=2),
    _float_op("expm1", np.expm1, tolerance=2),
    Op("floor", np.floor, dtypes=FLOATS, differentiable=False),
    Op("imag", np.imag, dtypes=("complex64",), out="float32", differentiable=False),
    Op("isfinite", np.isfinite, dtypes=FLOATS + INTS, out="bool", differentiable=False),
    Op("isinf", np.isinf, dtypes=FLOATS + INTS, out="bool", differentiable=False),
    Op("isnan", np.isnan, dtypes=FLOATS + INTS, out="bool", differentiable=False),
    Op("isneginf", np.isneginf, dtypes=FLOATS + INTS, out="bool", differentiable=False),
    Op("isposinf", np.isposinf, dtypes=FLOATS + INTS, out="bool", differentiable=False),
    _float_op("log", np.log, _POSITIVE, tolerance=2),
    _float_op("log10", np.log10, _POSITIVE, tolerance=2),
    _float_op("log1p", np.log1p, (-0.9, 4.0), tolerance=2),
    _float_op("log2", np.log2, _POSITIVE, tolerance=2),
    Op("logical_not", np.logical_not, dtypes=ALL, out="bool", differentiable=False),
    Op("negative", np.negative, dtypes=FLOATS + INTS),
    Op("real", np.real, dtypes=("complex64",), out="float32", differentiable=False),
    _float_op("reciprocal", np.reciprocal, _POSITIVE),
    Op("round", np.round, dtypes=FLOATS, differentiable=False),
    _float_op("rsqrt", lambda x: 1 / np.sqrt(x), _POSITIVE, tolerance=2),
    _float_op("sigmoid", _sigmoid, tolerance=2),
    Op("sign", np.sign, dtypes=FLOATS + INTS, differentiable=False),
    _float_op("sin", np.sin, tolerance=2),
    _float_op("sinh", np.sinh, tolerance=2),
    _float_op("sqrt", np.sqrt, _POSITIVE),
    Op("square", np.square, dtypes=FLOATS + INTS, tolerance=1),
    _float_op("tan", np.tan, (-1.2, 1.2), tolerance=4),
    _float_op("tanh", np.tanh, tolerance=2),
]


def _binary(name, ref, first=_ANY, second=_ANY, dtypes=FLOATS + INTS, **kwargs):
    return Op(name, ref, (first, second), dtypes, **kwargs)


def _comparison(name, ref):
    # A coarse domain, so that equal pairs occur among integers.
    return _binary(name, ref, dtypes=ALL, out="bool", differentiable=False)


def _bitwise(name, ref):
    return _binary(name, ref, (0, 100), (0, 100), INTS + BOOL, differentiable=False)


def _shift(name, ref):
    return _binary(name, ref, (0, 15), (0, 3), INTS, differentiable=False)


BINARY = [
    _binary("add", np.add, dtypes=ALL),
    _binary("subtract", np.subtract),
    _binary("multiply", np.multiply, dtypes=ALL),
    _binary("divide", np.divide, second=_POSITIVE, dtypes=_FLOAT_AND_INT, out="float"),
    _binary("floor_divide", np.floor_divide, second=(0.5, 4.0), differentiable=False, tolerance=2),
    _binary("remainder", np.remainder, second=(0.5, 4.0), differentiable=False, tolerance=8),
    _binary("power", np.power, _POSITIVE, (0.0, 3.0), tolerance=4),
    _binary("maximum", np.maximum, dtypes=ALL),
    _binary("minimum", np.minimum, dtypes=ALL),
    _binary("logaddexp", np.logaddexp, dtypes=FLOATS, tolerance=4),
    _binary("arctan2", np.arctan2, _POSITIVE, _ANY, FLOATS, tolerance=4),
    _comparison("equal", np.equal),
    _comparison("not_equal", np.not_equal),
    _comparison("less", np.less),
    _comparison("less_equal", np.less_equal),
    _comparison("greater", np.greater),
    _comparison("greater_equal", np.greater_equal),
    _comparison("logical_and", np.logical_and),
    _comparison("logical_or", np.logical_or),
    _bitwise("bitwise_and", np.bitwise_and),
    _bitwise("bitwise_or", np.bitwise_or),
    _bitwise("bitwise_xor", np.bitwise_xor),
    _shift("left_shift", np.left_shift),
    _shift("right_shift", np.right_shift),
]

TERNARY = [
    Op(
        "where",
        lambda c, x, y: np.where(c > 0, x, y),
        (_ANY, _ANY, _ANY),
        FLOATS + INTS,
        call=lambda c, x, y: mx.where(c > 0, x, y),
    ),
    Op(
        "clip",
        lambda x: np.clip(x, -1, 2),
        (_ANY,),
        FLOATS + SIGNED,
        call=lambda x: mx.clip(x, -1, 2),
    ),
    Op(
        "clip_arrays",
        lambda x, low, high: np.clip(x, low, high),
        (_ANY, (-2.0, -0.5), (0.5, 2.0)),
        FLOATS,
        call=lambda x, low, high: mx.clip(x, low, high),
    ),
    Op("nan_to_num", lambda x: x, (_ANY,), FLOATS[:3]),
]

ELEMENTWISE = UNARY + BINARY + TERNARY
