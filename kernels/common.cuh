// What every kernel shares: the types of elements, their conversions, and the record that a kernel reads.
//
// Device code only, without any header of the toolkit: nvcc and NVRTC compile it alike, and NVRTC spends no
// time on headers. Every kernel has one argument, the address of its record in the parameter block: words of
// 64 bits, which the host encoded for this run. So a captured graph never has to be changed: only words are.

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

// A record's word.
typedef const uint64* __restrict__ Record;

template <typename T>
__device__ __forceinline__ T* pointer(uint64 word) {
  return reinterpret_cast<T*>(word);
}
