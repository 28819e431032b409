// Element-wise operations on bools: one function an operation, named as in the table of the core.

#pragma once
#include "common.cuh"

namespace boolean {

#define TRUTH __device__ __forceinline__ bool

// One operand.
TRUTH abs(bool x) { return x; }
TRUTH bitwise_invert(bool x) { return !x; }
TRUTH ceil(bool x) { return x; }
TRUTH conjugate(bool x) { return x; }
TRUTH floor(bool x) { return x; }
TRUTH imag(bool) { return false; }
TRUTH isfinite(bool) { return true; }
TRUTH isinf(bool) { return false; }
TRUTH isnan(bool) { return false; }
TRUTH isneginf(bool) { return false; }
TRUTH isposinf(bool) { return false; }
TRUTH logical_not(bool x) { return !x; }
TRUTH real(bool x) { return x; }
TRUTH round(bool x) { return x; }
TRUTH sign(bool x) { return x; }
TRUTH square(bool x) { return x; }

// Two operands.
TRUTH add(bool a, bool b) { return a | b; }
TRUTH bitwise_and(bool a, bool b) { return a & b; }
TRUTH bitwise_or(bool a, bool b) { return a | b; }
TRUTH bitwise_xor(bool a, bool b) { return a ^ b; }
TRUTH equal(bool a, bool b) { return a == b; }
TRUTH floor_divide(bool a, bool b) { return a & b; }
TRUTH greater(bool a, bool b) { return a & !b; }
TRUTH greater_equal(bool a, bool b) { return a | !b; }
TRUTH less(bool a, bool b) { return !a & b; }
TRUTH less_equal(bool a, bool b) { return !a | b; }
TRUTH logical_and(bool a, bool b) { return a & b; }
TRUTH logical_or(bool a, bool b) { return a | b; }
TRUTH maximum(bool a, bool b) { return a | b; }
TRUTH minimum(bool a, bool b) { return a & b; }
TRUTH multiply(bool a, bool b) { return a & b; }
TRUTH not_equal(bool a, bool b) { return a ^ b; }
TRUTH power(bool a, bool b) { return a | !b; }
TRUTH remainder(bool a, bool b) { return a & !b; }
TRUTH subtract(bool a, bool b) { return a ^ b; }

#undef TRUTH

}  // namespace boolean
