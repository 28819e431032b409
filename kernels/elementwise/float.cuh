// Element-wise operations on float32 (and, through it, on halves): one function an operation, named as in the
// table of the core.
//
// Functions are the compiler's accurate ones. A compiler contracts nothing here (`--fmad=false`), so that a
// fused chain and single operations give the same bits.

#pragma once
#include "common.cuh"

namespace real {

#define FLOAT __device__ __forceinline__ float32
#define TRUTH __device__ __forceinline__ bool

FLOAT infinity(float32) { return bits_as<float32>(0x7f800000u); }
FLOAT nan(float32) { return bits_as<float32>(0x7fc00000u); }

// One operand.
FLOAT abs(float32 x) { return ::fabsf(x); }
FLOAT arccos(float32 x) { return ::acosf(x); }
FLOAT arccosh(float32 x) { return ::acoshf(x); }
FLOAT arcsin(float32 x) { return ::asinf(x); }
FLOAT arcsinh(float32 x) { return ::asinhf(x); }
FLOAT arctan(float32 x) { return ::atanf(x); }
FLOAT arctanh(float32 x) { return ::atanhf(x); }
FLOAT ceil(float32 x) { return ::ceilf(x); }
FLOAT conjugate(float32 x) { return x; }
FLOAT cos(float32 x) { return ::cosf(x); }
FLOAT cosh(float32 x) { return ::coshf(x); }
FLOAT degrees(float32 x) { return x * 57.29577951308232f; }
FLOAT erf(float32 x) { return ::erff(x); }
FLOAT erfinv(float32 x) { return ::erfinvf(x); }
FLOAT exp(float32 x) { return ::expf(x); }
FLOAT expm1(float32 x) { return ::expm1f(x); }
FLOAT floor(float32 x) { return ::floorf(x); }
FLOAT imag(float32) { return 0.0f; }
TRUTH isnan(float32 x) { return x != x; }
TRUTH isfinite(float32 x) { return ::fabsf(x) < infinity(x); }
TRUTH isinf(float32 x) { return ::fabsf(x) == infinity(x); }
TRUTH isneginf(float32 x) { return x == -infinity(x); }
TRUTH isposinf(float32 x) { return x == infinity(x); }
FLOAT log(float32 x) { return ::logf(x); }
FLOAT log10(float32 x) { return ::log10f(x); }
FLOAT log1p(float32 x) { return ::log1pf(x); }
FLOAT log2(float32 x) { return ::log2f(x); }
TRUTH logical_not(float32 x) { return x == 0.0f; }
FLOAT negative(float32 x) { return -x; }
FLOAT radians(float32 x) { return x / 57.29577951308232f; }
FLOAT real(float32 x) { return x; }
FLOAT reciprocal(float32 x) { return 1.0f / x; }
FLOAT round(float32 x) { return ::rintf(x); }
FLOAT rsqrt(float32 x) { return 1.0f / ::sqrtf(x); }
// From the side on which the exponential is small.
FLOAT sigmoid(float32 x) {
  const float32 e = ::expf(-::fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
FLOAT sign(float32 x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x + 0.0f; }
FLOAT sin(float32 x) { return ::sinf(x); }
FLOAT sinh(float32 x) { return ::sinhf(x); }
FLOAT sqrt(float32 x) { return ::sqrtf(x); }
FLOAT square(float32 x) { return x * x; }
FLOAT tan(float32 x) { return ::tanf(x); }
FLOAT tanh(float32 x) { return ::tanhf(x); }

// Two operands.
FLOAT add(float32 a, float32 b) { return a + b; }
FLOAT arctan2(float32 y, float32 x) { return ::atan2f(y, x); }
FLOAT divide(float32 a, float32 b) { return a / b; }
TRUTH equal(float32 a, float32 b) { return a == b; }
TRUTH greater(float32 a, float32 b) { return a > b; }
TRUTH greater_equal(float32 a, float32 b) { return a >= b; }
TRUTH less(float32 a, float32 b) { return a < b; }
TRUTH less_equal(float32 a, float32 b) { return a <= b; }
FLOAT logaddexp(float32 a, float32 b) {
  const float32 high = a > b ? a : b, low = a > b ? b : a;
  if (a != a || b != b) return nan(a);
  return isinf(high) ? high : high + ::log1pf(::expf(low - high));
}
// NaN if either is.
FLOAT maximum(float32 a, float32 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a != a ? a : a > b ? a : b;
#endif
}
FLOAT minimum(float32 a, float32 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float32 y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a != a ? a : a < b ? a : b;
#endif
}
FLOAT multiply(float32 a, float32 b) { return a * b; }
TRUTH not_equal(float32 a, float32 b) { return a != b; }
FLOAT power(float32 a, float32 b) { return ::powf(a, b); }
FLOAT subtract(float32 a, float32 b) { return a - b; }
// What is left, with the divisor's sign, as numpy has it.
FLOAT remainder(float32 a, float32 b) {
  const float32 r = ::fmodf(a, b);
  if (r == 0.0f) return ::copysignf(0.0f, b);
  return (b < 0.0f) != (r < 0.0f) ? r + b : r;
}
// Rounded down, consistent with the remainder.
FLOAT floor_divide(float32 a, float32 b) {
  if (b == 0.0f) return a / b;
  const float32 r = ::fmodf(a, b);
  float32 q = (a - r) / b;
  if (r != 0.0f && (b < 0.0f) != (r < 0.0f)) q -= 1.0f;
  // q is an integer up to rounding.
  return q == 0.0f ? ::copysignf(0.0f, a / b) : ::rintf(q);
}

#undef FLOAT
#undef TRUTH

}  // namespace real
