// Arrays from a formula: arange. An element does not depend on its neighbours: one float64 expression each,
// or integer arithmetic that wraps.

#include "elements.cuh"

namespace elements {

template <typename T>
struct Ramp {
  static __device__ __forceinline__ T at(uint64 start, uint64 step, uint64 i) {
    return static_cast<T>(start + step * i);
  }
};
template <>
struct Ramp<boolean> {
  static __device__ __forceinline__ boolean at(uint64 start, uint64 step, uint64 i) {
    boolean b;
    b.value = start + step * i != 0;
    return b;
  }
};
__device__ __forceinline__ float64 ramp(uint64 start, uint64 step, uint64 i) {
  return bits_as<float64>(start) + static_cast<float64>(i) * bits_as<float64>(step);
}
// Halves come from the upper word of a float64, as on the CPU.
__device__ __forceinline__ float32 upper(float64 x) {
  return to_odd(bits_as<float64>(bits_as<uint64>(x) & 0xffffffff00000000ull));
}
template <>
struct Ramp<float64> {
  static __device__ __forceinline__ float64 at(uint64 a, uint64 b, uint64 i) { return ramp(a, b, i); }
};
template <>
struct Ramp<float32> {
  static __device__ __forceinline__ float32 at(uint64 a, uint64 b, uint64 i) {
    return static_cast<float32>(ramp(a, b, i));
  }
};
template <>
struct Ramp<half> {
  static __device__ __forceinline__ half at(uint64 a, uint64 b, uint64 i) {
    return Element<half>::narrow(upper(ramp(a, b, i)));
  }
};
template <>
struct Ramp<brain> {
  static __device__ __forceinline__ brain at(uint64 a, uint64 b, uint64 i) {
    return Element<brain>::narrow(upper(ramp(a, b, i)));
  }
};
template <>
struct Ramp<complex> {
  static __device__ __forceinline__ complex at(uint64 a, uint64 b, uint64 i) {
    return Arith<complex>::make(static_cast<float32>(ramp(a, b, i)), 0.0f);
  }
};

// Record: destination, elements, start, step. The destination is aligned to 16 bytes or one by one.
template <typename T>
__device__ __forceinline__ void arange(Record r) {
  constexpr int V = 16 / sizeof(T);
  T* dst = pointer<T>(r[0]);
  uint64 n = r[1], start = r[2], step = r[3];
  uint64 self = blockIdx.x * static_cast<uint64>(blockDim.x) + threadIdx.x;
  uint64 all = gridDim.x * static_cast<uint64>(blockDim.x);
  uint64 packs = (r[0] & 15) == 0 ? n / V : 0;
  for (uint64 p = self; p < packs; p += all) {
    Pack<T, V> v;
#pragma unroll
    for (int k = 0; k < V; ++k) v.at[k] = Ramp<T>::at(start, step, p * V + k);
    reinterpret_cast<Pack<T, V>*>(dst)[p] = v;
  }
  for (uint64 i = packs * V + self; i < n; i += all) dst[i] = Ramp<T>::at(start, step, i);
}

}  // namespace elements

#define ARANGE(DTYPE) \
  extern "C" __global__ void __launch_bounds__(256) arange_##DTYPE(Record r) { elements::arange<elements::t_##DTYPE>(r); }
