// Reading and writing runs of elements, in accesses of up to 16 bytes.

#pragma once
#include "common.cuh"

// A word of `Size` bytes that one instruction moves.
template <int Size>
struct Block;
template <>
struct Block<1> {
  uint8 x;
};
template <>
struct Block<2> {
  uint16 x;
};
template <>
struct Block<4> {
  uint32 x;
};
template <>
struct alignas(8) Block<8> {
  uint32 x, y;
};
template <>
struct alignas(16) Block<16> {
  uint32 x, y, z, w;
};

// `to[i] = from[i]` for i < N, `P` elements an access; `from` is aligned to such an access.
template <int N, int P, typename T>
__device__ __forceinline__ void read(T* to, const T* from) {
  typedef Block<P * sizeof(T)> B;
#pragma unroll
  for (int i = 0; i < N; i += P) {
    const B b = *reinterpret_cast<const B*>(from + i);
    memcpy(to + i, &b, sizeof(B));
  }
}

template <int N, int P, typename T>
__device__ __forceinline__ void write(T* to, const T* from) {
  typedef Block<P * sizeof(T)> B;
#pragma unroll
  for (int i = 0; i < N; i += P) {
    B b;
    memcpy(&b, from + i, sizeof(B));
    *reinterpret_cast<B*>(to + i) = b;
  }
}

// One element.
template <typename T>
__device__ __forceinline__ T read_one(const T* from) {
  T x;
  read<1, 1>(&x, from);
  return x;
}

// One element that is not aligned to its size: a view with another dtype may begin anywhere.
template <typename T>
__device__ __forceinline__ T read_loose(const T* from) {
  uint8 b[sizeof(T)];
#pragma unroll
  for (int i = 0; i < (int)sizeof(T); ++i) b[i] = reinterpret_cast<const uint8*>(from)[i];
  T x;
  memcpy(&x, b, sizeof(T));
  return x;
}

// An index from an axis of some length: `words` holds the length, then what `n / length` is multiplied and
// shifted by for n below 2^31 (see the host's `Divisor`).
template <typename I>
__device__ __forceinline__ I divide_by(I n, Record words);
template <>
__device__ __forceinline__ uint32 divide_by<uint32>(uint32 n, Record words) {
  const uint64 w = words[1];
  return (uint32)(((uint64)n * (uint32)w) >> (w >> 32));
}
template <>
__device__ __forceinline__ uint64 divide_by<uint64>(uint64 n, Record words) {
  return n / words[0];
}

// The offset of element n of an operand with `Rank` axes: `words` holds (length, stride) of each, from the
// outermost.
template <int Rank, typename I>
__device__ __forceinline__ int64 walk_by(I n, Record words) {
  int64 at = 0;
#pragma unroll 4
  for (int a = Rank - 1; a > 0; --a) {
    const I length = (I)words[2 * a], q = n / length;
    at += (int64)(n - q * length) * (int64)words[2 * a + 1];
    n = q;
  }
  return at + (int64)n * (int64)words[1];
}

template <int Rank>
__device__ __forceinline__ int64 walk(uint64 n, Record words) {
  if (Rank == 0) return 0;
  if (Rank == 1) return (int64)n * (int64)words[1];
  return n >> 32 ? walk_by<Rank, uint64>(n, words) : walk_by<Rank, uint32>((uint32)n, words);
}
