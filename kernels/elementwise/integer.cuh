// Element-wise operations on integers: one function an operation, named as in the table of the core.
//
// Arithmetic wraps. A quotient by zero is zero and leaves the dividend; shifts count modulo the width; a power
// with a negative exponent is zero.

#pragma once
#include "common.cuh"

namespace integer {

// The unsigned type of a width, in which arithmetic may wrap.
template <int Size>
struct Word;
template <>
struct Word<1> {
  typedef uint32 Type;
};
template <>
struct Word<2> {
  typedef uint32 Type;
};
template <>
struct Word<4> {
  typedef uint32 Type;
};
template <>
struct Word<8> {
  typedef uint64 Type;
};

#define INTEGER template <typename T> __device__ __forceinline__ T
#define TRUTH template <typename T> __device__ __forceinline__ bool
#define WORD(x) ((typename Word<sizeof(T)>::Type)(x))

template <typename T>
__device__ __forceinline__ constexpr bool is_signed() {
  return (T)-1 < (T)0;
}

// One operand.
INTEGER abs(T x) { return is_signed<T>() && x < 0 ? (T)(0 - WORD(x)) : x; }
INTEGER bitwise_invert(T x) { return (T)~x; }
INTEGER ceil(T x) { return x; }
INTEGER conjugate(T x) { return x; }
INTEGER floor(T x) { return x; }
INTEGER imag(T) { return 0; }
TRUTH isfinite(T) { return true; }
TRUTH isinf(T) { return false; }
TRUTH isnan(T) { return false; }
TRUTH isneginf(T) { return false; }
TRUTH isposinf(T) { return false; }
TRUTH logical_not(T x) { return x == 0; }
INTEGER negative(T x) { return (T)(0 - WORD(x)); }
INTEGER real(T x) { return x; }
INTEGER round(T x) { return x; }
INTEGER sign(T x) { return is_signed<T>() && x < 0 ? (T)-1 : (T)(x > 0); }
INTEGER square(T x) { return (T)(WORD(x) * WORD(x)); }

// Two operands.
INTEGER add(T a, T b) { return (T)(WORD(a) + WORD(b)); }
INTEGER bitwise_and(T a, T b) { return (T)(a & b); }
INTEGER bitwise_or(T a, T b) { return (T)(a | b); }
INTEGER bitwise_xor(T a, T b) { return (T)(a ^ b); }
TRUTH equal(T a, T b) { return a == b; }
TRUTH greater(T a, T b) { return a > b; }
TRUTH greater_equal(T a, T b) { return a >= b; }
INTEGER left_shift(T a, T b) { return (T)(WORD(a) << (b & (T)(sizeof(T) * 8 - 1))); }
TRUTH less(T a, T b) { return a < b; }
TRUTH less_equal(T a, T b) { return a <= b; }
INTEGER maximum(T a, T b) { return a > b ? a : b; }
INTEGER minimum(T a, T b) { return a < b ? a : b; }
INTEGER multiply(T a, T b) { return (T)(WORD(a) * WORD(b)); }
TRUTH not_equal(T a, T b) { return a != b; }
INTEGER right_shift(T a, T b) { return (T)(a >> (b & (T)(sizeof(T) * 8 - 1))); }
INTEGER subtract(T a, T b) { return (T)(WORD(a) - WORD(b)); }

INTEGER floor_divide(T a, T b) {
  if (b == 0) return 0;
  // The least integer has no quotient by -1: it wraps.
  if (is_signed<T>() && b == (T)-1) return (T)(0 - WORD(a));
  const T q = (T)(a / b), r = (T)(a % b);
  return is_signed<T>() && r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q;
}

INTEGER remainder(T a, T b) {
  if (b == 0) return a;
  if (is_signed<T>() && b == (T)-1) return 0;
  const T r = (T)(a % b);
  return is_signed<T>() && r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
}

INTEGER power(T a, T b) {
  if (is_signed<T>() && b < 0) return 0;
  typename Word<sizeof(T)>::Type base = WORD(a), y = 1;
  for (T e = b; e > 0; e >>= 1) {
    if (e & 1) y *= base;
    base *= base;
  }
  return (T)y;
}

#undef INTEGER
#undef TRUTH
#undef WORD

}  // namespace integer
