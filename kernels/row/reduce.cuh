// Reductions of one value a thread, over the lanes of a row and over the warps of a block.
//
// The order in which values are combined depends on the number of threads alone, so that whatever a kernel
// does besides, the same row gives the same bits. A fold `F` names its type `C`, its `identity`, its
// `combine`, and whether swapped operands give the same bits (`symmetric`): where they don't, all lanes take
// the first one's result.

#pragma once
#include "common.cuh"

namespace row {

// Words of a value, for shuffles.
template <typename C>
struct Words {
  static constexpr int count = sizeof(C) > 4 ? 2 : 1;
  uint32 word[2];
};

template <typename C>
__device__ __forceinline__ Words<C> to_words(C x) {
  Words<C> w = {{0, 0}};
  memcpy(w.word, &x, sizeof(C));
  return w;
}

template <typename C>
__device__ __forceinline__ C from_words(Words<C> w) {
  C x;
  memcpy(&x, w.word, sizeof(C));
  return x;
}

template <typename C>
__device__ __forceinline__ C shuffle_xor(C x, uint32 mask) {
  Words<C> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<C>::count; ++i) w.word[i] = __shfl_xor_sync(0xffffffffu, w.word[i], mask);
  return from_words<C>(w);
}

template <typename C>
__device__ __forceinline__ C shuffle_from(C x, uint32 lane) {
  Words<C> w = to_words(x);
#pragma unroll
  for (int i = 0; i < Words<C>::count; ++i) w.word[i] = __shfl_sync(0xffffffffu, w.word[i], lane);
  return from_words<C>(w);
}

// Over groups of `Lanes` neighbouring lanes; all get the result.
template <typename F, int Lanes>
__device__ __forceinline__ typename F::C lanes(typename F::C x) {
#pragma unroll
  for (int m = Lanes / 2; m > 0; m /= 2) x = F::combine(x, shuffle_xor(x, m));
  if (Lanes > 1 && !F::symmetric) x = shuffle_from(x, threadIdx.x & 31 & ~(uint32)(Lanes - 1));
  return x;
}

// Over a block, in two parts with a barrier between: warps leave their results in `slots` (32 words of shared
// memory), then every warp combines all of them.
template <typename F>
__device__ __forceinline__ void leave(typename F::C x, uint64* slots) {
  x = lanes<F, 32>(x);
  if ((threadIdx.x & 31) == 0) *reinterpret_cast<typename F::C*>(slots + threadIdx.x / 32) = x;
}

template <typename F>
__device__ __forceinline__ typename F::C collect(const uint64* slots) {
  const uint32 lane = threadIdx.x & 31;
  const bool mine = lane < blockDim.x / 32;
  return lanes<F, 32>(mine ? *reinterpret_cast<const typename F::C*>(slots + lane) : F::identity());
}

// Four neighbours.
template <typename F>
__device__ __forceinline__ typename F::C four(typename F::C a, typename F::C b, typename F::C c,
                                              typename F::C d) {
  return F::combine(F::combine(a, b), F::combine(c, d));
}

// The results of a row's segments, a word each: lanes take every 32nd, in order.
template <typename F>
__device__ __forceinline__ typename F::C segments(const uint64* partial, uint32 count) {
  typename F::C x = F::identity();
  for (uint32 i = threadIdx.x & 31; i < count; i += 32) {
    x = F::combine(x, *reinterpret_cast<const typename F::C*>(partial + i));
  }
  return lanes<F, 32>(x);
}

}  // namespace row
