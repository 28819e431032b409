// Convolutions in one to three dimensions, channels last: one kernel that computes any of them element by
// element, and one that unrolls input windows into rows for a matrix product.

#include "elements.cuh"

namespace elements {

// Words of one spatial axis: lengths of input, kernel and output, stride, padding before, dilations of kernel
// and input, step of the input, step of the weight. Convolutions of fewer dimensions have leading axes of
// length 1.
constexpr int AXIS = 9;

// Input position that kernel position k reads for output position o; negative for padding.
__device__ __forceinline__ int64 source(Record axis, int64 o, int64 k, bool flip) {
  if (flip) k = static_cast<int64>(axis[1]) - 1 - k;
  int64 at = o * static_cast<int64>(axis[3]) + k * static_cast<int64>(axis[5]) - static_cast<int64>(axis[4]);
  if (at < 0) return -1;
  if (axis[6] != 1) {
    uint64 rest;
    at = static_cast<int64>(divide(static_cast<uint64>(at), axis[6], rest));
    if (rest != 0) return -1;
  }
  return at < static_cast<int64>(axis[0]) ? at : -1;
}

// Record: 0 output, 1 input, 2 weight, 3 output elements, 4 output channels, 5 output channels of a group,
// 6 input channels of a group, 7 step of the input's batch, 8 of its channels, 9 step of the weight's output
// channels, 10 of its input channels, 11 whether the kernel is read backwards; then three axes.
template <typename T>
__device__ __forceinline__ void conv_direct(Record r) {
  typedef typename Element<T>::Acc A;
  T* out = pointer<T>(r[0]);
  bool flip = r[11] != 0;
  Record x = r + 12, y = x + AXIS, z = y + AXIS;
  int64 channel = static_cast<int64>(r[8]), weight_channel = static_cast<int64>(r[10]);
  uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < r[3]; i += step) {
    uint64 o, oz, oy, ox, unused;
    uint64 rest = divide(i, r[4], o);
    rest = divide(rest, z[2], oz);
    rest = divide(rest, y[2], oy);
    uint64 n = divide(rest, x[2], ox);
    uint64 group = divide(o, r[5], unused);
    const T* image = pointer<const T>(r[1]) + static_cast<int64>(n) * static_cast<int64>(r[7]) +
                     static_cast<int64>(group * r[6]) * channel;
    const T* weight = pointer<const T>(r[2]) + static_cast<int64>(o) * static_cast<int64>(r[9]);
    A acc = Arith<A>::zero();
    for (uint64 kx = 0; kx < x[1]; ++kx) {
      int64 px = source(x, static_cast<int64>(ox), static_cast<int64>(kx), flip);
      if (px < 0) continue;
      for (uint64 ky = 0; ky < y[1]; ++ky) {
        int64 py = source(y, static_cast<int64>(oy), static_cast<int64>(ky), flip);
        if (py < 0) continue;
        for (uint64 kz = 0; kz < z[1]; ++kz) {
          int64 pz = source(z, static_cast<int64>(oz), static_cast<int64>(kz), flip);
          if (pz < 0) continue;
          const T* s = image + px * static_cast<int64>(x[7]) + py * static_cast<int64>(y[7]) +
                       pz * static_cast<int64>(z[7]);
          const T* w = weight + static_cast<int64>(kx) * static_cast<int64>(x[8]) +
                       static_cast<int64>(ky) * static_cast<int64>(y[8]) +
                       static_cast<int64>(kz) * static_cast<int64>(z[8]);
#pragma unroll 4
          for (uint64 c = 0; c < r[6]; ++c) {
            acc = Arith<A>::fma(Element<T>::widen(s[static_cast<int64>(c) * channel]),
                                Element<T>::widen(w[static_cast<int64>(c) * weight_channel]), acc);
          }
        }
      }
    }
    out[i] = Element<T>::narrow(acc);
  }
}

template <typename U>
__device__ __forceinline__ U nothing() {
  return 0;
}
template <>
__device__ __forceinline__ quad nothing<quad>() {
  quad q;
  q.low = q.high = 0;
  return q;
}

// Rows of windows: [group, row, kernel position, channel], for output positions from some first one on.
// Record: 0 rows, 1 input, 2 units, 3 units of a position's channels, 4 first output position, 5 positions,
// 6 step of the input's batch, 7 of groups, 8 of channels (all in units), 9 whether the kernel is read
// backwards; from 12 on three axes, whose steps are in units.
template <typename U>
__device__ __forceinline__ void conv_unfold(Record r) {
  U* out = pointer<U>(r[0]);
  bool flip = r[9] != 0;
  Record x = r + 12, y = x + AXIS, z = y + AXIS;
  uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < r[2]; i += step) {
    uint64 c, kz, ky, kx, row, oz, oy, ox;
    uint64 rest = divide(i, r[3], c);
    rest = divide(rest, z[1], kz);
    rest = divide(rest, y[1], ky);
    rest = divide(rest, x[1], kx);
    uint64 group = divide(rest, r[5], row);
    rest = divide(row + r[4], z[2], oz);
    rest = divide(rest, y[2], oy);
    uint64 n = divide(rest, x[2], ox);
    int64 px = source(x, static_cast<int64>(ox), static_cast<int64>(kx), flip);
    int64 py = source(y, static_cast<int64>(oy), static_cast<int64>(ky), flip);
    int64 pz = source(z, static_cast<int64>(oz), static_cast<int64>(kz), flip);
    U v = nothing<U>();
    if (px >= 0 && py >= 0 && pz >= 0) {
      v = pointer<const U>(r[1])[static_cast<int64>(n) * static_cast<int64>(r[6]) +
                                 static_cast<int64>(group) * static_cast<int64>(r[7]) +
                                 static_cast<int64>(c) * static_cast<int64>(r[8]) + px * static_cast<int64>(x[7]) +
                                 py * static_cast<int64>(y[7]) + pz * static_cast<int64>(z[7])];
    }
    out[i] = v;
  }
}

}  // namespace elements

#define CONV_DIRECT(DTYPE)                                                          \
  extern "C" __global__ void __launch_bounds__(256) conv_direct_##DTYPE(Record r) { \
    elements::conv_direct<elements::t_##DTYPE>(r);                                  \
  }
#define CONV_UNFOLD(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256) conv_unfold_##BYTES(Record r) { \
    elements::conv_unfold<elements::Unit<BYTES>::type>(r);                          \
  }
