// A thread's four neighbouring elements of a row: how operands of any layout are read, how results are written.
//
// `left` is what is left of the row from the chunk's first element on, and may be negative. What lies beyond
// reads as zero.

#pragma once
#include "elementwise/access.cuh"

namespace row {

// Neighbours in memory, `P` elements an access. `Whole` rows end with a chunk.
template <int P, bool Whole, typename T, typename I>
__device__ __forceinline__ void read_unit(T* to, const T* from, I left) {
  if (Whole ? left > 0 : left >= 4) {
    read<4, P>(to, from);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = !Whole && e < left ? read_one(from + e) : T{};
  }
}

// Elements that are `stride` apart.
template <typename T, typename I>
__device__ __forceinline__ void read_strided(T* to, const T* from, int64 stride, I left) {
#pragma unroll
  for (int e = 0; e < 4; ++e) to[e] = e < left ? read_one(from + e * stride) : T{};
}

// Elements of a row with several axes of its own; `at` is the chunk's first.
template <int Rank, typename T, typename I>
__device__ __forceinline__ void read_walked(T* to, const T* from, Record words, int64 at, I left) {
#pragma unroll
  for (int e = 0; e < 4; ++e) to[e] = e < left ? read_one(from + walk<Rank>(at + e, words)) : T{};
}

// As the last one, not aligned to the element's size.
template <int Rank, typename T, typename I>
__device__ __forceinline__ void read_loosely(T* to, const T* from, Record words, int64 at, I left) {
#pragma unroll
  for (int e = 0; e < 4; ++e) to[e] = e < left ? read_loose(from + walk<Rank>(at + e, words)) : T{};
}

template <int P, bool Whole, typename T, typename I>
__device__ __forceinline__ void write_unit(T* to, const T* from, I left) {
  if (Whole ? left > 0 : left >= 4) {
    write<4, P>(to, from);
  } else if (!Whole) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < left) to[e] = from[e];
    }
  }
}

}  // namespace row
