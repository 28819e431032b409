// Where operations on halves differ from those on float32.
//
// Halves compute in float32 and round once. What a half's eight or eleven bits cannot show is not computed:
// the errors of these functions are a few units in the last place of float32.

#pragma once
#include "elementwise/float.cuh"

namespace half {

// Quotients: full range, two units in the last place. A quotient of two halves is never half way between two
// halves, so that exact ones stay exact. What depends on the divisor alone is done once for a row.
__device__ __forceinline__ float32 divide(float32 a, float32 b) {
#if defined(__CUDA_ARCH__)
  // Neither the divisor nor its reciprocal may be subnormal.
  const float32 size = ::fabsf(b);
  const float32 scale = size > 0x1p120f ? 0x1p-24f : size < 0x1p-120f ? 0x1p24f : 1.0f;
  float32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(b * scale));
  return a * scale * y;
#else
  return a / b;
#endif
}

__device__ __forceinline__ float32 reciprocal(float32 x) { return divide(1.0f, x); }

// What is below the least normal float32 becomes zero.
__device__ __forceinline__ float32 exp(float32 x) {
#if defined(__CUDA_ARCH__)
  float32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
#else
  return ::expf(x);
#endif
}

__device__ __forceinline__ float32 sigmoid(float32 x) { return divide(1.0f, 1.0f + half::exp(-x)); }

}  // namespace half
