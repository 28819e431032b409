// Elements as structured kernels see them: stored types, the types in which they compute, the combinations of
// reductions and scatters, and walks over strided axes.
//
// The rules are the CPU's: halves compute in float32 and are rounded once, integers wrap, a NaN wins every
// max and min, complex numbers compare real parts first. Everything is in a namespace of its own, so that
// these names meet no others.

#pragma once

#include "common.cuh"

namespace elements {

// ---- Stored types, by the names that symbols use.

struct boolean {
  uint8 value;
};
typedef ::float16 half;
typedef ::bfloat16 brain;
typedef ::complex64 complex;

typedef boolean t_bool;
typedef uint8 t_uint8;
typedef uint16 t_uint16;
typedef uint32 t_uint32;
typedef uint64 t_uint64;
typedef int8 t_int8;
typedef int16 t_int16;
typedef int32 t_int32;
typedef int64 t_int64;
typedef half t_float16;
typedef float32 t_float32;
typedef float64 t_float64;
typedef brain t_bfloat16;
typedef complex t_complex64;

// A unit of 16 bytes, moved by one instruction.
struct alignas(16) quad {
  uint64 low, high;
};

template <int BYTES>
struct Unit;
template <>
struct Unit<1> {
  typedef uint8 type;
};
template <>
struct Unit<2> {
  typedef uint16 type;
};
template <>
struct Unit<4> {
  typedef uint32 type;
};
template <>
struct Unit<8> {
  typedef uint64 type;
};
template <>
struct Unit<16> {
  typedef quad type;
};

// V neighbouring elements that are moved at once.
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

// ---- Conversions.

__device__ __forceinline__ uint32 float_bits(float32 x) { return bits_as<uint32>(x); }
__device__ __forceinline__ float32 bits_float(uint32 x) { return bits_as<float32>(x); }

__device__ __forceinline__ float32 toward_zero(float64 x) {
#if defined(__CUDA_ARCH__)
  float32 y;
  asm("cvt.rz.f32.f64 %0, %1;" : "=f"(y) : "d"(x));
  return y;
#else
  float32 y = static_cast<float32>(x);
  float64 up = static_cast<float64>(y);
  return (x > 0 ? up > x : up < x) ? bits_float(float_bits(y) - 1u) : y;
#endif
}

// float64 to float32, rounded to odd: rounding once more, to a half, then gives what one rounding gives.
__device__ __forceinline__ float32 to_odd(float64 x) {
  float32 y = toward_zero(x);
  bool exact = static_cast<float64>(y) == x || x != x;
  return exact ? y : bits_float(float_bits(y) | 1u);
}

// ---- Arithmetic. Acc is the type in which an element computes.

template <typename T>
struct Arith {
  static __device__ __forceinline__ T zero() { return static_cast<T>(0); }
  static __device__ __forceinline__ T one() { return static_cast<T>(1); }
  static __device__ __forceinline__ T add(T a, T b) { return static_cast<T>(a + b); }
  // Unsigned, because a signed product that overflows has no meaning in C++.
  static __device__ __forceinline__ T mul(T a, T b) {
    return static_cast<T>(static_cast<uint64>(a) * static_cast<uint64>(b));
  }
  static __device__ __forceinline__ T fma(T a, T b, T c) { return add(mul(a, b), c); }
  static __device__ __forceinline__ bool less(T a, T b) { return a < b; }
  static __device__ __forceinline__ bool equal(T a, T b) { return a == b; }
  static __device__ __forceinline__ bool nan(T) { return false; }
  static constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);
  static __device__ __forceinline__ T lowest() {
    return is_signed ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : static_cast<T>(0);
  }
  static __device__ __forceinline__ T highest() {
    return is_signed ? static_cast<T>((1ull << (8 * sizeof(T) - 1)) - 1) : static_cast<T>(~0ull);
  }
};

template <>
struct Arith<float32> {
  static __device__ __forceinline__ float32 zero() { return 0.0f; }
  static __device__ __forceinline__ float32 one() { return 1.0f; }
  static __device__ __forceinline__ float32 add(float32 a, float32 b) { return a + b; }
  static __device__ __forceinline__ float32 mul(float32 a, float32 b) { return a * b; }
  static __device__ __forceinline__ float32 fma(float32 a, float32 b, float32 c) {
    return __fmaf_rn(a, b, c);
  }
  static __device__ __forceinline__ bool less(float32 a, float32 b) { return a < b; }
  static __device__ __forceinline__ bool equal(float32 a, float32 b) { return a == b; }
  static __device__ __forceinline__ bool nan(float32 a) { return a != a; }
  static __device__ __forceinline__ float32 lowest() { return bits_float(0xff800000u); }
  static __device__ __forceinline__ float32 highest() { return bits_float(0x7f800000u); }
};

template <>
struct Arith<float64> {
  static __device__ __forceinline__ float64 zero() { return 0.0; }
  static __device__ __forceinline__ float64 one() { return 1.0; }
  static __device__ __forceinline__ float64 add(float64 a, float64 b) { return a + b; }
  static __device__ __forceinline__ float64 mul(float64 a, float64 b) { return a * b; }
  static __device__ __forceinline__ float64 fma(float64 a, float64 b, float64 c) {
    return __fma_rn(a, b, c);
  }
  static __device__ __forceinline__ bool less(float64 a, float64 b) { return a < b; }
  static __device__ __forceinline__ bool equal(float64 a, float64 b) { return a == b; }
  static __device__ __forceinline__ bool nan(float64 a) { return a != a; }
  static __device__ __forceinline__ float64 lowest() { return -highest(); }
  static __device__ __forceinline__ float64 highest() {
    return static_cast<float64>(bits_float(0x7f800000u));
  }
};

template <>
struct Arith<complex> {
  static __device__ __forceinline__ complex make(float32 re, float32 im) {
    complex z;
    z.re = re;
    z.im = im;
    return z;
  }
  static __device__ __forceinline__ complex zero() { return make(0.0f, 0.0f); }
  static __device__ __forceinline__ complex one() { return make(1.0f, 0.0f); }
  static __device__ __forceinline__ complex add(complex a, complex b) { return make(a.re + b.re, a.im + b.im); }
  static __device__ __forceinline__ complex mul(complex a, complex b) {
    return make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  static __device__ __forceinline__ complex fma(complex a, complex b, complex c) { return add(mul(a, b), c); }
  static __device__ __forceinline__ bool less(complex a, complex b) {
    return a.re < b.re || (a.re == b.re && a.im < b.im);
  }
  static __device__ __forceinline__ bool equal(complex a, complex b) { return a.re == b.re && a.im == b.im; }
  static __device__ __forceinline__ bool nan(complex a) { return a.re != a.re || a.im != a.im; }
  static __device__ __forceinline__ complex lowest() {
    return make(bits_float(0xff800000u), bits_float(0xff800000u));
  }
  static __device__ __forceinline__ complex highest() {
    return make(bits_float(0x7f800000u), bits_float(0x7f800000u));
  }
};

// A stored type and how it becomes a computing one and back.
template <typename T>
struct Element {
  typedef T Acc;
  static __device__ __forceinline__ T widen(T x) { return x; }
  static __device__ __forceinline__ T narrow(T x) { return x; }
};

template <>
struct Element<boolean> {
  typedef uint8 Acc;
  // Foreign buffers are views, too: any byte but 0 is true.
  static __device__ __forceinline__ uint8 widen(boolean x) { return x.value != 0; }
  static __device__ __forceinline__ boolean narrow(uint8 x) {
    boolean b;
    b.value = x;
    return b;
  }
};

template <>
struct Element<half> {
  typedef float32 Acc;
  static __device__ __forceinline__ float32 widen(half x) { return widen_float16(x); }
  static __device__ __forceinline__ half narrow(float32 x) {
    return narrow_float16(x);
  }
};

template <>
struct Element<brain> {
  typedef float32 Acc;
  static __device__ __forceinline__ float32 widen(brain x) { return widen_bfloat16(x); }
  static __device__ __forceinline__ brain narrow(float32 x) {
    return narrow_bfloat16(x);
  }
};

// Whether an element is not zero, as a type of its own: all and any read elements through it.
template <typename T>
struct Truth {
  typedef uint8 Acc;
  static __device__ __forceinline__ uint8 widen(T x) {
    typedef typename Element<T>::Acc A;
    return Arith<A>::equal(Element<T>::widen(x), Arith<A>::zero()) ? 0 : 1;
  }
  static __device__ __forceinline__ boolean narrow(uint8 x) { return Element<boolean>::narrow(x); }
};

// ---- Combinations.

template <typename A>
struct f_sum {
  static __device__ __forceinline__ A init() { return Arith<A>::zero(); }
  static __device__ __forceinline__ A apply(A a, A x) { return Arith<A>::add(a, x); }
};
template <typename A>
struct f_prod {
  static __device__ __forceinline__ A init() { return Arith<A>::one(); }
  static __device__ __forceinline__ A apply(A a, A x) { return Arith<A>::mul(a, x); }
};
template <typename A>
struct f_max {
  static __device__ __forceinline__ A init() { return Arith<A>::lowest(); }
  static __device__ __forceinline__ A apply(A a, A x) {
    return Arith<A>::nan(a) || Arith<A>::less(x, a) ? a : x;
  }
};
template <typename A>
struct f_min {
  static __device__ __forceinline__ A init() { return Arith<A>::highest(); }
  static __device__ __forceinline__ A apply(A a, A x) {
    return Arith<A>::nan(a) || Arith<A>::less(a, x) ? a : x;
  }
};
// Truths are bytes 0 and 1.
template <typename A>
struct f_all {
  static __device__ __forceinline__ A init() { return 1; }
  static __device__ __forceinline__ A apply(A a, A x) { return static_cast<A>(a & x); }
};
template <typename A>
struct f_any {
  static __device__ __forceinline__ A init() { return 0; }
  static __device__ __forceinline__ A apply(A a, A x) { return static_cast<A>(a | x); }
};

// ---- Index arithmetic.

// n / d, and what remains. Most numbers fit in 32 bits, whose division is several times cheaper.
__device__ __forceinline__ uint64 divide(uint64 n, uint64 d, uint64& rest) {
  if (((n | d) >> 32) == 0) {
    uint32 q = static_cast<uint32>(n) / static_cast<uint32>(d);
    rest = static_cast<uint32>(n) - q * static_cast<uint32>(d);
    return q;
  }
  uint64 q = n / d;
  rest = n - q * d;
  return q;
}

__device__ __forceinline__ uint64 smaller(uint64 a, uint64 b) { return a < b ? a : b; }

// Adds to `at` the offsets of element `index` of a walk over `count` axes, innermost first, each one word for
// the length and N for the steps.
template <int N>
__device__ __forceinline__ void walk(Record axes, uint64 count, uint64 index, int64 (&at)[N]) {
  for (uint64 d = 0; d < count; ++d, axes += N + 1) {
    uint64 i = index;
    if (d + 1 < count) index = divide(index, axes[0], i);
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] += static_cast<int64>(i) * static_cast<int64>(axes[1 + k]);
  }
}

}  // namespace elements
