// Moving elements: flat runs, strided windows, transposes, and one element repeated along rows.
//
// Elements are moved as units of 1 to 16 bytes: what they mean does not matter, and the host picks the widest
// unit that lengths, strides and addresses allow.

#include "elements.cuh"

namespace elements {

// Units that a thread has under way.
constexpr int MOVES = 4;

// Record: destination, source, bytes.
__device__ __forceinline__ void copy_flat(Record r) {
  uint8* dst = pointer<uint8>(r[0]);
  const uint8* src = pointer<const uint8>(r[1]);
  uint64 bytes = r[2];
  uint64 self = blockIdx.x * static_cast<uint64>(blockDim.x) + threadIdx.x;
  uint64 all = gridDim.x * static_cast<uint64>(blockDim.x);
  uint64 head = smaller((16 - (r[0] & 15)) & 15, bytes);
  if (((r[0] ^ r[1]) & 15) == 0) {
    uint64 units = (bytes - head) / 16, tail = head + units * 16;
    if (self < head) dst[self] = src[self];
    if (self < bytes - tail) dst[tail + self] = src[tail + self];
    quad* to = reinterpret_cast<quad*>(dst + head);
    const quad* from = reinterpret_cast<const quad*>(src + head);
    // A block takes neighbouring runs, so that its moves touch few pages.
    uint64 step = blockDim.x, first = blockIdx.x * step * MOVES + threadIdx.x;
    for (; first < units; first += all * MOVES) {
      quad v[MOVES];
#pragma unroll
      for (int k = 0; k < MOVES; ++k) {
        if (first + k * step < units) v[k] = from[first + k * step];
      }
#pragma unroll
      for (int k = 0; k < MOVES; ++k) {
        if (first + k * step < units) to[first + k * step] = v[k];
      }
    }
    return;
  }
  if (((r[0] | r[1]) & 3) == 0) {
    uint64 units = bytes / 4;
    uint32* to = reinterpret_cast<uint32*>(dst);
    const uint32* from = reinterpret_cast<const uint32*>(src);
    uint64 step = blockDim.x, first = blockIdx.x * step * 16 + threadIdx.x;
    for (; first < units; first += all * 16) {
      uint32 v[16];
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        if (first + k * step < units) v[k] = from[first + k * step];
      }
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        if (first + k * step < units) to[first + k * step] = v[k];
      }
    }
    if (self < bytes - units * 4) dst[units * 4 + self] = src[units * 4 + self];
    return;
  }
  if (((r[0] | r[1] | bytes) & 1) == 0) {
    uint16* to = reinterpret_cast<uint16*>(dst);
    const uint16* from = reinterpret_cast<const uint16*>(src);
    for (uint64 i = self; i < bytes / 2; i += all) to[i] = from[i];
    return;
  }
  for (uint64 i = self; i < bytes; i += all) dst[i] = src[i];
}

// Where a job's window begins: a start for each moving axis, kept inside by the host's limits.
// Four words an axis: start, least, greatest, step.
__device__ __forceinline__ int64 window(Record starts, uint64 count) {
  int64 at = 0;
  for (uint64 i = 0; i < count; ++i, starts += 4) {
    int64 s = static_cast<int64>(starts[0]), lo = static_cast<int64>(starts[1]), hi = static_cast<int64>(starts[2]);
    s = s < lo ? lo : s > hi ? hi : s;
    at += s * static_cast<int64>(starts[3]);
  }
  return at;
}

// Rows of units between strided arrays; blockIdx.y is the number of the job.
// Record: words of a job, then the jobs: destination, source, rows, units of a row, segments of a row, log2 of
// the lanes along a row, source step, destination step, axes of rows, starts of the window; then the axes
// (length, source step, destination step), and the starts.
template <typename U>
__device__ __forceinline__ void copy_rows(Record r) {
  Record job = r + 1 + blockIdx.y * r[0];
  U* dst = pointer<U>(job[0]);
  const U* src = pointer<const U>(job[1]);
  uint64 rows = job[2], len = job[3], segments = job[4];
  uint32 shift = static_cast<uint32>(job[5]);
  int64 ss = static_cast<int64>(job[6]), ds = static_cast<int64>(job[7]);
  dst += window(job + 10 + 3 * job[8], job[9]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  uint64 lines = blockDim.x >> shift;
  uint64 items = rows * segments;
  for (uint64 item = blockIdx.x * lines + (threadIdx.x >> shift); item < items; item += gridDim.x * lines) {
    uint64 segment = 0, row = item;
    if (segments > 1) row = divide(item, segments, segment);
    int64 at[2] = {0, 0};
    walk(job + 10, job[8], row, at);
    uint64 first = segment * lanes * MOVES + lane;
    const U* s = src + at[0] + static_cast<int64>(first) * ss;
    U* d = dst + at[1] + static_cast<int64>(first) * ds;
    int64 sl = ss * lanes, dl = ds * lanes;
    U v[MOVES];
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      if (first + k * lanes < len) v[k] = s[k * sl];
    }
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      if (first + k * lanes < len) d[k * dl] = v[k];
    }
  }
}

// One element repeated along each row, in units of 16 bytes.
// Record: as one job of copy_rows without starts; the steps of rows are in elements, lengths in units.
template <typename T>
__device__ __forceinline__ void copy_spread(Record r) {
  Record job = r + 1;
  T* dst = pointer<T>(job[0]);
  const T* src = pointer<const T>(job[1]);
  uint64 rows = job[2], len = job[3], segments = job[4];
  uint32 shift = static_cast<uint32>(job[5]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  uint64 lines = blockDim.x >> shift;
  uint64 items = rows * segments;
  for (uint64 item = blockIdx.x * lines + (threadIdx.x >> shift); item < items; item += gridDim.x * lines) {
    uint64 segment = 0, row = item;
    if (segments > 1) row = divide(item, segments, segment);
    int64 at[2] = {0, 0};
    walk(job + 10, job[8], row, at);
    Pack<T, 16 / sizeof(T)> v;
    T x = src[at[0]];
#pragma unroll
    for (int k = 0; k < 16 / static_cast<int>(sizeof(T)); ++k) v.at[k] = x;
    Pack<T, 16 / sizeof(T)>* d = reinterpret_cast<Pack<T, 16 / sizeof(T)>*>(dst + at[1]);
    uint64 first = segment * lanes * MOVES + lane;
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      if (first + k * lanes < len) d[first + k * lanes] = v;
    }
  }
}

// Edge of a tile of a transposing copy, in elements.
constexpr int TILE = 64;

// Two axes swapped, by tiles in shared memory: axis i is dense in the source, axis j in the destination.
// Record: destination, source, length of i, length of j, source step of j, destination step of i, tiles along
// i, tiles along j, tiles in all, other axes; then those (length, source step, destination step).
template <typename U>
__device__ __forceinline__ void copy_tiles(Record r) {
  // A row of the tile is one bank longer, so that its columns lie in different banks.
  constexpr int PAD = sizeof(U) >= 4 ? 1 : 4 / sizeof(U);
  __shared__ U tile[TILE][TILE + PAD];
  U* dst = pointer<U>(r[0]);
  const U* src = pointer<const U>(r[1]);
  uint64 ni = r[2], nj = r[3], across_i = r[6], across_j = r[7], tiles = r[8];
  int64 sj = static_cast<int64>(r[4]), di = static_cast<int64>(r[5]);
  uint32 x = threadIdx.x % TILE, y = threadIdx.x / TILE, lines = blockDim.x / TILE;
  for (uint64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    uint64 ti, tj;
    uint64 rest = divide(t, across_i, ti);
    uint64 other = divide(rest, across_j, tj);
    int64 at[2] = {0, 0};
    walk(r + 10, r[9], other, at);
    uint64 i0 = ti * TILE, j0 = tj * TILE;
    const U* s = src + at[0] + static_cast<int64>(i0) + static_cast<int64>(j0) * sj;
    U* d = dst + at[1] + static_cast<int64>(j0) + static_cast<int64>(i0) * di;
    uint32 ci = static_cast<uint32>(smaller(TILE, ni - i0)), cj = static_cast<uint32>(smaller(TILE, nj - j0));
    if (ci == TILE && cj == TILE) {
#pragma unroll 16
      for (uint32 j = y; j < TILE; j += lines) tile[j][x] = s[static_cast<int64>(j) * sj + x];
    } else if (x < ci) {
      for (uint32 j = y; j < cj; j += lines) tile[j][x] = s[static_cast<int64>(j) * sj + x];
    }
    __syncthreads();
    if (ci == TILE && cj == TILE) {
#pragma unroll 16
      for (uint32 i = y; i < TILE; i += lines) d[static_cast<int64>(i) * di + x] = tile[x][i];
    } else if (x < cj) {
      for (uint32 i = y; i < ci; i += lines) d[static_cast<int64>(i) * di + x] = tile[x][i];
    }
    __syncthreads();
  }
}

// Bytes of one value. Record: destination, bytes, value.
__device__ __forceinline__ void copy_fill(Record r) {
  uint8* dst = pointer<uint8>(r[0]);
  uint64 bytes = r[1];
  uint8 value = static_cast<uint8>(r[2]);
  uint64 self = blockIdx.x * static_cast<uint64>(blockDim.x) + threadIdx.x;
  uint64 all = gridDim.x * static_cast<uint64>(blockDim.x);
  uint64 head = smaller((16 - (r[0] & 15)) & 15, bytes);
  uint64 units = (bytes - head) / 16, tail = head + units * 16;
  if (self < head) dst[self] = value;
  if (self < bytes - tail) dst[tail + self] = value;
  quad v;
  v.low = v.high = value * 0x0101010101010101ull;
  for (uint64 i = self; i < units; i += all) reinterpret_cast<quad*>(dst + head)[i] = v;
}

}  // namespace elements

#define COPY_FLAT() \
  extern "C" __global__ void __launch_bounds__(256) copy_flat(Record r) { elements::copy_flat(r); }
#define COPY_FILL() \
  extern "C" __global__ void __launch_bounds__(256) copy_fill(Record r) { elements::copy_fill(r); }
#define COPY_ROWS(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256, 4) copy_rows_##BYTES(Record r) { \
    elements::copy_rows<elements::Unit<BYTES>::type>(r);                          \
  }
#define COPY_SPREAD(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256) copy_spread_##BYTES(Record r) { \
    elements::copy_spread<elements::Unit<BYTES>::type>(r);                          \
  }
#define COPY_TILES(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256) copy_tiles_##BYTES(Record r) { \
    elements::copy_tiles<elements::Unit<BYTES>::type>(r);                          \
  }
