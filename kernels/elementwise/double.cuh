// Element-wise operations on float64: one function an operation, named as in the table of the core.

#pragma once
#include "common.cuh"

namespace real {

#define DOUBLE __device__ __forceinline__ float64
#define TRUTH __device__ __forceinline__ bool

DOUBLE infinity(float64) { return bits_as<float64>(0x7ff0000000000000ull); }
DOUBLE nan(float64) { return bits_as<float64>(0x7ff8000000000000ull); }

// One operand.
DOUBLE abs(float64 x) { return ::fabs(x); }
DOUBLE arccos(float64 x) { return ::acos(x); }
DOUBLE arccosh(float64 x) { return ::acosh(x); }
DOUBLE arcsin(float64 x) { return ::asin(x); }
DOUBLE arcsinh(float64 x) { return ::asinh(x); }
DOUBLE arctan(float64 x) { return ::atan(x); }
DOUBLE arctanh(float64 x) { return ::atanh(x); }
DOUBLE ceil(float64 x) { return ::ceil(x); }
DOUBLE conjugate(float64 x) { return x; }
DOUBLE cos(float64 x) { return ::cos(x); }
DOUBLE cosh(float64 x) { return ::cosh(x); }
DOUBLE degrees(float64 x) { return x * 57.29577951308232; }
DOUBLE erf(float64 x) { return ::erf(x); }
DOUBLE erfinv(float64 x) { return ::erfinv(x); }
DOUBLE exp(float64 x) { return ::exp(x); }
DOUBLE expm1(float64 x) { return ::expm1(x); }
DOUBLE floor(float64 x) { return ::floor(x); }
DOUBLE imag(float64) { return 0.0; }
TRUTH isnan(float64 x) { return x != x; }
TRUTH isfinite(float64 x) { return ::fabs(x) < infinity(x); }
TRUTH isinf(float64 x) { return ::fabs(x) == infinity(x); }
TRUTH isneginf(float64 x) { return x == -infinity(x); }
TRUTH isposinf(float64 x) { return x == infinity(x); }
DOUBLE log(float64 x) { return ::log(x); }
DOUBLE log10(float64 x) { return ::log10(x); }
DOUBLE log1p(float64 x) { return ::log1p(x); }
DOUBLE log2(float64 x) { return ::log2(x); }
TRUTH logical_not(float64 x) { return x == 0.0; }
DOUBLE negative(float64 x) { return -x; }
DOUBLE radians(float64 x) { return x / 57.29577951308232; }
DOUBLE real(float64 x) { return x; }
DOUBLE reciprocal(float64 x) { return 1.0 / x; }
DOUBLE round(float64 x) { return ::rint(x); }
DOUBLE rsqrt(float64 x) { return 1.0 / ::sqrt(x); }
// From the side on which the exponential is small.
DOUBLE sigmoid(float64 x) {
  const float64 e = ::exp(-::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
DOUBLE sign(float64 x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x + 0.0; }
DOUBLE sin(float64 x) { return ::sin(x); }
DOUBLE sinh(float64 x) { return ::sinh(x); }
DOUBLE sqrt(float64 x) { return ::sqrt(x); }
DOUBLE square(float64 x) { return x * x; }
DOUBLE tan(float64 x) { return ::tan(x); }
DOUBLE tanh(float64 x) { return ::tanh(x); }

// Two operands.
DOUBLE add(float64 a, float64 b) { return a + b; }
DOUBLE arctan2(float64 y, float64 x) { return ::atan2(y, x); }
DOUBLE divide(float64 a, float64 b) { return a / b; }
TRUTH equal(float64 a, float64 b) { return a == b; }
TRUTH greater(float64 a, float64 b) { return a > b; }
TRUTH greater_equal(float64 a, float64 b) { return a >= b; }
TRUTH less(float64 a, float64 b) { return a < b; }
TRUTH less_equal(float64 a, float64 b) { return a <= b; }
DOUBLE logaddexp(float64 a, float64 b) {
  const float64 high = a > b ? a : b, low = a > b ? b : a;
  if (a != a || b != b) return nan(a);
  return isinf(high) ? high : high + ::log1p(::exp(low - high));
}
// NaN if either is.
DOUBLE maximum(float64 a, float64 b) {
  return a != a ? a : a > b ? a : b;
}
DOUBLE minimum(float64 a, float64 b) {
  return a != a ? a : a < b ? a : b;
}
DOUBLE multiply(float64 a, float64 b) { return a * b; }
TRUTH not_equal(float64 a, float64 b) { return a != b; }
DOUBLE power(float64 a, float64 b) { return ::pow(a, b); }
DOUBLE subtract(float64 a, float64 b) { return a - b; }
// What is left, with the divisor's sign, as numpy has it.
DOUBLE remainder(float64 a, float64 b) {
  const float64 r = ::fmod(a, b);
  if (r == 0.0) return ::copysign(0.0, b);
  return (b < 0.0) != (r < 0.0) ? r + b : r;
}
// Rounded down, consistent with the remainder.
DOUBLE floor_divide(float64 a, float64 b) {
  if (b == 0.0) return a / b;
  const float64 r = ::fmod(a, b);
  float64 q = (a - r) / b;
  if (r != 0.0 && (b < 0.0) != (r < 0.0)) q -= 1.0;
  // q is an integer up to rounding.
  return q == 0.0 ? ::copysign(0.0, a / b) : ::rint(q);
}

#undef DOUBLE
#undef TRUTH

}  // namespace real
