// What every kernel shares: the types of elements, their conversions, and the record that a kernel reads.
//
// Device code only, without any header of the toolkit: nvcc and NVRTC compile it alike, and NVRTC spends no
// time on headers. Every kernel has one argument, the address of its record in the parameter block: words of
// 64 bits, which the host encoded for this run. So a captured graph never has to be changed: only words are.
//
// Each file names what it includes from the root of this folder. Without a device compiler (tests on a host)
// conversions are integer arithmetic with the same results.

#pragma once

typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef float float32;
typedef double float64;

// Two halves, as they are stored: they compute in float32.
struct float16 {
  uint16 bits;
};
struct bfloat16 {
  uint16 bits;
};
struct alignas(8) complex64 {
  float32 re, im;
};

// A record's word.
typedef const uint64* __restrict__ Record;

// A plain cast: with `__cvta_global_to_generic` NVRTC 13.0 never ends on some kernels of complex numbers.
template <typename T>
__device__ __forceinline__ T* pointer(uint64 word) {
  return reinterpret_cast<T*>(word);
}

// Bits of one type as another of the same size.
template <typename To, typename From>
__device__ __forceinline__ To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}

__device__ __forceinline__ float32 widen_bfloat16(bfloat16 x) { return bits_as<float32>((uint32)x.bits << 16); }

// x rounded to a half, as the word's upper 16 bits. Conversions of pairs run at four times the rate of those
// of one number.
__device__ __forceinline__ uint32 round_bfloat16(float32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(x), "f"(0.0f));
  return y;
#else
  const uint32 b = bits_as<uint32>(x);
  const uint32 rounded = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  return (x != x ? 0x7fff : rounded) << 16;
#endif
}

__device__ __forceinline__ bfloat16 narrow_bfloat16(float32 x) { return bfloat16{(uint16)(round_bfloat16(x) >> 16)}; }

__device__ __forceinline__ float32 widen_float16(float16 x) {
#if defined(__CUDA_ARCH__)
  float32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#else
  const uint32 sign = (uint32)(x.bits & 0x8000) << 16, a = x.bits & 0x7fff;
  const uint32 normal = (a << 13) + (a >= 0x7c00 ? 224u << 23 : 112u << 23);
  const uint32 small = bits_as<uint32>((float32)(int32)a * 5.9604644775390625e-8f);
  return bits_as<float32>((a < 0x400 ? small : normal) | sign);
#endif
}

__device__ __forceinline__ float16 narrow_float16(float32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(0.0f), "f"(x));
  return float16{(uint16)y};
#elif defined(__CUDA_ARCH__)
  uint16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return float16{y};
#else
  const uint32 b = bits_as<uint32>(x), sign = (b >> 16) & 0x8000, a = b & 0x7fffffff;
  // The adder aligns and rounds what becomes subnormal.
  const float32 magic = bits_as<float32>((uint32)(127 - 15 + 23 - 10 + 1) << 23);
  const uint32 small = bits_as<uint32>(bits_as<float32>(a) + magic) - bits_as<uint32>(magic);
  const uint32 normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
  uint32 h = a < 113u << 23 ? small : normal;
  h = a >= 143u << 23 ? 0x7c00 : h;
  h = a > 0x7f800000 ? 0x7fff : h;
  return float16{(uint16)(h | sign)};
#endif
}

// How an element type is stored, and in what it computes: `Element<bool>`, `Element<float16>`, ...
template <typename T>
struct Element {
  typedef T Stored;
  typedef T Computed;
  static __device__ __forceinline__ Computed widen(Stored x) { return x; }
  static __device__ __forceinline__ Stored narrow(Computed x) { return x; }
  // What storing and loading again makes of a computed value.
  static __device__ __forceinline__ Computed round(Computed x) { return x; }
  // As `narrow`, of a value that is rounded already.
  static __device__ __forceinline__ Stored store(Computed x) { return x; }
};

// The byte of a bool may hold anything: foreign buffers are views, too.
template <>
struct Element<bool> {
  typedef uint8 Stored;
  typedef bool Computed;
  static __device__ __forceinline__ bool widen(uint8 x) { return x != 0; }
  static __device__ __forceinline__ uint8 narrow(bool x) { return x ? 1 : 0; }
  static __device__ __forceinline__ bool round(bool x) { return x; }
  static __device__ __forceinline__ uint8 store(bool x) { return narrow(x); }
};

template <>
struct Element<float16> {
  typedef float16 Stored;
  typedef float32 Computed;
  static __device__ __forceinline__ float32 widen(float16 x) { return widen_float16(x); }
  static __device__ __forceinline__ float16 narrow(float32 x) { return narrow_float16(x); }
  static __device__ __forceinline__ float32 round(float32 x) { return widen(narrow(x)); }
  static __device__ __forceinline__ float16 store(float32 x) { return narrow(x); }
};

template <>
struct Element<bfloat16> {
  typedef bfloat16 Stored;
  typedef float32 Computed;
  static __device__ __forceinline__ float32 widen(bfloat16 x) { return widen_bfloat16(x); }
  static __device__ __forceinline__ bfloat16 narrow(float32 x) { return narrow_bfloat16(x); }
  static __device__ __forceinline__ float32 round(float32 x) { return bits_as<float32>(round_bfloat16(x)); }
  static __device__ __forceinline__ bfloat16 store(float32 x) { return bfloat16{(uint16)(bits_as<uint32>(x) >> 16)}; }
};
