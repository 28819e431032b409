// Conversions between all element types, from and to the types in which they compute.
//
// Floats truncate towards zero into integers; what does not fit becomes what the CPU backend gives: the least
// int32 (through which 8 and 16 bits go) or the least int64 (through which uint32 goes).

#pragma once
#include "common.cuh"

namespace cast {

template <typename F>
__device__ __forceinline__ int32 word(F x) {
  return x >= (F)-2147483648.0 && x < (F)2147483648.0 ? (int32)x : (int32)0x80000000u;
}

template <typename F>
__device__ __forceinline__ int64 longer(F x) {
  const bool fits = x >= (F)-9223372036854775808.0 && x < (F)9223372036854775808.0;
  return fits ? (int64)x : (int64)0x8000000000000000ull;
}

template <typename F>
__device__ __forceinline__ uint64 unsigned_longer(F x) {
  if (x >= (F)18446744073709551616.0) return ~0ull;
  return x >= (F)9223372036854775808.0 ? (uint64)x : (uint64)longer(x);
}

// To D from S, both types of computation. Between integers and floats, and from bools: the language's own.
template <typename D, typename S>
struct To {
  static __device__ __forceinline__ D from(S x) { return (D)x; }
};

template <typename S>
struct To<bool, S> {
  static __device__ __forceinline__ bool from(S x) { return x != 0; }
};

template <typename S>
struct To<complex64, S> {
  static __device__ __forceinline__ complex64 from(S x) { return complex64{(float32)x, 0.0f}; }
};

#define FROM_FLOAT(F, D, E)                                     \
  template <>                                                   \
  struct To<D, F> {                                             \
    static __device__ __forceinline__ D from(F x) { return E; } \
  };
#define FROM_FLOATS(D, E) FROM_FLOAT(float32, D, E) FROM_FLOAT(float64, D, E)
FROM_FLOATS(int8, (int8)word(x))
FROM_FLOATS(int16, (int16)word(x))
FROM_FLOATS(int32, word(x))
FROM_FLOATS(int64, longer(x))
FROM_FLOATS(uint8, (uint8)word(x))
FROM_FLOATS(uint16, (uint16)word(x))
FROM_FLOATS(uint32, (uint32)longer(x))
FROM_FLOATS(uint64, unsigned_longer(x))
#undef FROM_FLOATS
#undef FROM_FLOAT

// A complex number's real part counts, but for bools.
template <typename D>
struct To<D, complex64> {
  static __device__ __forceinline__ D from(complex64 z) { return To<D, float32>::from(z.re); }
};
template <>
struct To<bool, complex64> {
  static __device__ __forceinline__ bool from(complex64 z) { return z.re != 0.0f || z.im != 0.0f; }
};
template <>
struct To<complex64, complex64> {
  static __device__ __forceinline__ complex64 from(complex64 z) { return z; }
};

}  // namespace cast
