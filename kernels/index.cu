// Gathers and scatters.
//
// Indices are integers of any type in any layout; negative ones count from the end once. A gather clamps what
// lies outside, a scatter drops it: no kernel can raise an error. Scatters combine the updates of one place in
// their order without atomics: either each thread owns places, or updates are sorted by place first.

#include "elements.cuh"

namespace elements {

constexpr int MOVES = 4;

// Element `at` of an index array; codes are the dtypes' numbers. What is beyond int64 is beyond every axis.
__device__ __forceinline__ int64 load_index(uint64 address, uint64 code, int64 at) {
  switch (code) {
    case 0:
    case 1:
      return pointer<const uint8>(address)[at];
    case 2:
      return pointer<const uint16>(address)[at];
    case 3:
      return pointer<const uint32>(address)[at];
    case 4: {
      uint64 v = pointer<const uint64>(address)[at];
      return v >> 63 ? 0x7fffffffffffffffll : static_cast<int64>(v);
    }
    case 5:
      return pointer<const int8>(address)[at];
    case 6:
      return pointer<const int16>(address)[at];
    case 7:
      return pointer<const int32>(address)[at];
    default:
      return pointer<const int64>(address)[at];
  }
}

__device__ __forceinline__ int64 clamped(int64 i, int64 len) {
  if (i < 0) i += len;
  return i < 0 ? 0 : i >= len ? len - 1 : i;
}

// Whole rows: out[i.., r..] = src[indices[i..], r..]; rows are dense in the output.
// Record: 0 destination, 1 source, 2 index arrays K, 3 axes of indices, 4 lines of the rest, 5 units of a line,
// 6 segments of a line, 7 log2 of the lanes along a line, 8 step of the source along a line, 9 axes of the
// rest, 10 items, 11 words of an index axis; then K times (address, dtype, length, step); the axes of indices
// (length, K steps); the axes of the rest (length, step).
template <typename U>
__device__ __forceinline__ void gather_rows(Record r) {
  U* dst = pointer<U>(r[0]);
  const U* src = pointer<const U>(r[1]);
  uint64 arrays = r[2], index_axes = r[3], lines = r[4], len = r[5], segments = r[6], rest_axes = r[9];
  uint32 shift = static_cast<uint32>(r[7]);
  int64 step = static_cast<int64>(r[8]);
  uint64 items = r[10];
  Record table = r + 12, axes = table + 4 * arrays, rest = axes + index_axes * (arrays + 1);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  uint64 together = blockDim.x >> shift;
  for (uint64 item = blockIdx.x * together + (threadIdx.x >> shift); item < items; item += gridDim.x * together) {
    uint64 segment = 0, line = item;
    if (segments > 1) line = divide(item, segments, segment);
    uint64 which = line, part = 0;
    if (lines > 1) which = divide(line, lines, part);
    int64 from[1] = {0};
    if (lines > 1) walk(rest, rest_axes, part, from);
    for (uint64 k = 0; k < arrays; ++k) {
      int64 at = 0;
      uint64 left = which;
      Record axis = axes;
      for (uint64 d = 0; d < index_axes; ++d, axis += arrays + 1) {
        uint64 i = left;
        if (d + 1 < index_axes) left = divide(left, axis[0], i);
        at += static_cast<int64>(i) * static_cast<int64>(axis[1 + k]);
      }
      Record t = table + 4 * k;
      int64 i = load_index(t[0], t[1], at);
      from[0] += clamped(i, static_cast<int64>(t[2])) * static_cast<int64>(t[3]);
    }
    uint64 first = segment * lanes * MOVES + lane;
    const U* s = src + from[0] + static_cast<int64>(first) * step;
    U* d = dst + line * len + first;
    int64 sl = step * lanes;
    U v[MOVES];
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      if (first + k * lanes < len) v[k] = s[k * sl];
    }
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      if (first + k * lanes < len) d[k * lanes] = v[k];
    }
  }
}

// out[.., i, ..] = src[.., indices[.., i, ..], ..].
// Record: 0 destination, 1 source, 2 elements, 3 indices, 4 dtype of the indices, 5 length of the axis, 6 step
// of the source along it, 7 axes; then those (length, step of the indices, step of the source).
template <typename U>
__device__ __forceinline__ void gather_axis(Record r) {
  U* dst = pointer<U>(r[0]);
  const U* src = pointer<const U>(r[1]);
  uint64 n = r[2], step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    int64 at[2] = {0, 0};
    walk(r + 8, r[7], i, at);
    int64 index = clamped(load_index(r[3], r[4], at[0]), static_cast<int64>(r[5]));
    dst[i] = src[at[1] + index * static_cast<int64>(r[6])];
  }
}

// ---- Scatters by place. An update's slot is the number of the place that it goes to; one more than the last
// for an update that is dropped.

// Record: 0 slots, 1 whether they are 64 bits wide, 2 updates, 3 number of slots, 4 index arrays K, 5 axes,
// 6 step of a slot along an axis outside of the arrays, then K times (address, dtype, length, step of slots);
// the axes (length, K steps, step of slots).
__device__ __forceinline__ void scatter_slots(Record r) {
  uint64 n = r[2], arrays = r[4], axes = r[5], step = static_cast<uint64>(gridDim.x) * blockDim.x;
  Record table = r + 6;
  for (uint64 u = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; u < n; u += step) {
    uint64 slot = 0;
    bool inside = true;
    for (uint64 k = 0; k < arrays; ++k) {
      Record t = table + 4 * k, axis = table + 4 * arrays;
      int64 at = 0;
      uint64 left = u;
      for (uint64 d = 0; d < axes; ++d, axis += arrays + 2) {
        uint64 i = left;
        if (d + 1 < axes) left = divide(left, axis[0], i);
        at += static_cast<int64>(i) * static_cast<int64>(axis[1 + k]);
        if (k == 0) slot += i * axis[1 + arrays];
      }
      int64 len = static_cast<int64>(t[2]), i = load_index(t[0], t[1], at);
      if (i < 0) i += len;
      inside = inside && i >= 0 && i < len;
      slot += static_cast<uint64>(i) * t[3];
    }
    if (!inside) slot = r[3];
    if (r[1]) {
      pointer<uint64>(r[0])[u] = slot;
    } else {
      pointer<uint32>(r[0])[u] = static_cast<uint32>(slot);
    }
  }
}

// ---- Stable radix sort of (slot, number of the update), eight bits at a time. Each block has a tile of
// neighbouring updates; a warp has a part of it and keeps its order.

constexpr int DIGITS = 256;
constexpr int SORT_WARPS = 8;
constexpr int SORT_ROUNDS = 16;
constexpr int SORT_TILE = SORT_WARPS * 32 * SORT_ROUNDS;

// Record of all three: 0 keys, 1 numbers (0: an update's own place), 2 keys out, 3 numbers out, 4 counts,
// 5 updates, 6 lowest bit, 7 tiles.
template <typename K>
__device__ __forceinline__ void scatter_count(Record r) {
  __shared__ uint32 counts[DIGITS];
  const K* keys = pointer<const K>(r[0]);
  uint32 shift = static_cast<uint32>(r[6]);
  for (uint64 tile = blockIdx.x; tile < r[7]; tile += gridDim.x) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    uint64 first = tile * SORT_TILE, last = smaller(first + SORT_TILE, r[5]);
    for (uint64 i = first + threadIdx.x; i < last; i += blockDim.x) {
      // Counting is exact whatever the order.
      atomicAdd(&counts[static_cast<uint32>(keys[i] >> shift) & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    pointer<K>(r[4])[threadIdx.x * r[7] + tile] = counts[threadIdx.x];
    __syncthreads();
  }
}

// Counts become first places, by one block.
template <typename K>
__device__ __forceinline__ void scatter_scan(Record r) {
  __shared__ K sums[2][DIGITS];
  K* counts = pointer<K>(r[4]);
  uint64 n = DIGITS * r[7];
  uint64 share = (n + blockDim.x - 1) / blockDim.x;
  uint64 first = smaller(threadIdx.x * share, n), last = smaller(first + share, n);
  K mine = 0;
  for (uint64 i = first; i < last; ++i) mine += counts[i];
  int from = 0;
  sums[0][threadIdx.x] = mine;
  __syncthreads();
  for (uint32 by = 1; by < blockDim.x; by *= 2, from ^= 1) {
    K v = sums[from][threadIdx.x];
    if (threadIdx.x >= by) v += sums[from][threadIdx.x - by];
    sums[from ^ 1][threadIdx.x] = v;
    __syncthreads();
  }
  K before = sums[from][threadIdx.x] - mine;
  for (uint64 i = first; i < last; ++i) {
    K c = counts[i];
    counts[i] = before;
    before += c;
  }
}

template <typename K>
__device__ __forceinline__ void scatter_sort(Record r) {
  __shared__ K places[SORT_WARPS][DIGITS];
  const K* keys = pointer<const K>(r[0]);
  const K* numbers = pointer<const K>(r[1]);
  K* keys_out = pointer<K>(r[2]);
  K* numbers_out = pointer<K>(r[3]);
  uint32 shift = static_cast<uint32>(r[6]), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint64 n = r[5];
  for (uint64 tile = blockIdx.x; tile < r[7]; tile += gridDim.x) {
    for (int w = 0; w < SORT_WARPS; ++w) places[w][threadIdx.x] = 0;
    __syncthreads();
    uint64 first = tile * SORT_TILE + warp * (32 * SORT_ROUNDS) + lane;
    // What the warp has of each digit.
    for (int k = 0; k < SORT_ROUNDS; ++k) {
      uint64 i = first + 32 * k;
      uint32 digit = i < n ? static_cast<uint32>(keys[i] >> shift) & (DIGITS - 1) : DIGITS;
      uint32 same = __match_any_sync(0xffffffffu, digit);
      if (digit < DIGITS && (same >> lane) == 1) places[warp][digit] += static_cast<K>(__popc(same));
      __syncwarp();
    }
    __syncthreads();
    K at = pointer<const K>(r[4])[threadIdx.x * r[7] + tile];
    for (int w = 0; w < SORT_WARPS; ++w) {
      K c = places[w][threadIdx.x];
      places[w][threadIdx.x] = at;
      at += c;
    }
    __syncthreads();
    for (int k = 0; k < SORT_ROUNDS; ++k) {
      uint64 i = first + 32 * k;
      K key = i < n ? keys[i] : 0;
      uint32 digit = i < n ? static_cast<uint32>(key >> shift) & (DIGITS - 1) : DIGITS;
      uint32 same = __match_any_sync(0xffffffffu, digit);
      if (digit < DIGITS) {
        K to = places[warp][digit] + static_cast<K>(__popc(same & ((1u << lane) - 1)));
        keys_out[to] = key;
        numbers_out[to] = r[1] ? numbers[i] : static_cast<K>(i);
      }
      __syncwarp();
      // The last of those with this digit moves its place on.
      if (digit < DIGITS && (same >> lane) == 1) places[warp][digit] += static_cast<K>(__popc(same));
      __syncwarp();
    }
    __syncthreads();
  }
}

// ---- Combining. Rows of updates go to rows of places: a line each, or several with outer axes.
//
// Record of few, sorted and finish: 0 destination, 1 updates, 2 slots (sorted for all but few), 3 numbers,
// 4 whether those two are 64 bits wide, 5 number of updates, 6 number of slots, 7 units of a line, 8 lines,
// 9 log2 of the lanes along a line, 10 segments of a line, 11 step of the destination along a line, 12 step of
// the updates along it, 13 axes of slots, 14 axes of updates, 15 axes of lines, 16 partial results; then the
// axes of slots (length, step of the destination), of updates (length, step), of lines (length, step of the
// destination, step of the updates).

// The last one; for assignment.
template <typename A>
struct f_last {
  static __device__ __forceinline__ A init() { return Arith<A>::zero(); }
  static __device__ __forceinline__ A apply(A, A x) { return x; }
};

struct Scatter {
  Record r;
  uint32 shift, lanes, lane;
  uint64 together;

  __device__ __forceinline__ explicit Scatter(Record record) : r(record) {
    shift = static_cast<uint32>(r[9]);
    lanes = 1u << shift;
    lane = threadIdx.x & (lanes - 1);
    together = blockDim.x >> shift;
  }
  __device__ __forceinline__ uint64 load(uint64 word, uint64 i) const {
    return r[4] ? pointer<const uint64>(word)[i] : pointer<const uint32>(word)[i];
  }
  __device__ __forceinline__ uint64 slot(uint64 i) const { return load(r[2], i); }
  __device__ __forceinline__ uint64 number(uint64 i) const { return load(r[3], i); }
  __device__ __forceinline__ uint64 items() const { return r[5] * r[8] * r[10]; }
  __device__ __forceinline__ int64 destination(uint64 slot) const {
    int64 at[1] = {0};
    walk(r + 17, r[13], slot, at);
    return at[0];
  }
  __device__ __forceinline__ int64 update(uint64 number) const {
    int64 at[1] = {0};
    walk(r + 17 + 2 * r[13], r[14], number, at);
    return at[0];
  }
  // Item number -> position among updates, first column, and offsets of the line.
  __device__ __forceinline__ uint64 position(uint64 item, uint64& first, uint64& line, int64 (&at)[2]) const {
    uint64 segment = 0;
    line = 0;
    if (r[10] > 1) item = divide(item, r[10], segment);
    if (r[8] > 1) item = divide(item, r[8], line);
    first = segment * lanes * MOVES + lane;
    at[0] = at[1] = 0;
    walk(r + 17 + 2 * r[13] + 2 * r[14], r[15], line, at);
    return item;
  }
};

// A few updates: each looks for others with its slot; the first of them combines them all.
template <typename T, template <typename> class F>
__device__ __forceinline__ void scatter_few(Record r) {
  typedef typename Element<T>::Acc A;
  Scatter s(r);
  uint64 items = s.items(), count = r[5];
  for (uint64 item = blockIdx.x * s.together + (threadIdx.x >> s.shift); item < items; item += gridDim.x * s.together) {
    uint64 first, line;
    int64 at[2];
    uint64 mine = s.position(item, first, line, at), slot = s.slot(mine);
    bool leads = slot < r[6];
    for (uint64 u = 0; leads && u < mine; ++u) leads = s.slot(u) != slot;
    if (!leads) continue;
    T* dst = pointer<T>(r[0]) + s.destination(slot) + at[0];
    const T* src = pointer<const T>(r[1]) + at[1];
    int64 ds = static_cast<int64>(r[11]), us = static_cast<int64>(r[12]);
    A v[MOVES];
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      uint64 column = first + k * s.lanes;
      if (column < r[7]) v[k] = Element<T>::widen(dst[static_cast<int64>(column) * ds]);
    }
    for (uint64 u = mine; u < count; ++u) {
      if (s.slot(u) != slot) continue;
      const T* from = src + s.update(u);
#pragma unroll
      for (int k = 0; k < MOVES; ++k) {
        uint64 column = first + k * s.lanes;
        if (column < r[7]) v[k] = F<A>::apply(v[k], Element<T>::widen(from[static_cast<int64>(column) * us]));
      }
    }
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      uint64 column = first + k * s.lanes;
      if (column < r[7]) dst[static_cast<int64>(column) * ds] = Element<T>::narrow(v[k]);
    }
  }
}

// Updates of one slot beyond so many are combined in pieces of as many, whose results are combined last: one
// slot that most updates go to must not wait for one thread.
constexpr uint64 PIECE = 64;

// First position with this key.
__device__ __forceinline__ uint64 lower_bound(const Scatter& s, uint64 key, uint64 below) {
  uint64 lo = 0, hi = below;
  while (lo < hi) {
    uint64 mid = (lo + hi) / 2;
    if (s.slot(mid) < key) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

// Sorted updates: the first of each piece combines it. The first piece of a slot goes on from what is there.
template <typename T, template <typename> class F>
__device__ __forceinline__ void scatter_sorted(Record r) {
  typedef typename Element<T>::Acc A;
  constexpr int AHEAD = 4;
  Scatter s(r);
  uint64 items = s.items(), count = r[5], len = r[7];
  for (uint64 item = blockIdx.x * s.together + (threadIdx.x >> s.shift); item < items; item += gridDim.x * s.together) {
    uint64 first, line;
    int64 at[2];
    uint64 p = s.position(item, first, line, at), slot = s.slot(p);
    if (slot >= r[6]) continue;
    bool leads = p == 0 || s.slot(p - 1) != slot;
    if (!leads) {
      if (p < PIECE || s.slot(p - PIECE) != slot || (p - lower_bound(s, slot, p - PIECE)) % PIECE != 0) continue;
    }
    T* dst = pointer<T>(r[0]) + s.destination(slot) + at[0];
    const T* src = pointer<const T>(r[1]) + at[1];
    int64 ds = static_cast<int64>(r[11]), us = static_cast<int64>(r[12]);
    // Whether there are more pieces: then this one's result is not the last word.
    bool partial = p + PIECE < count && s.slot(p + PIECE) == slot;
    A v[MOVES];
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      uint64 column = first + k * s.lanes;
      v[k] = F<A>::init();
      if (leads && column < len) v[k] = Element<T>::widen(dst[static_cast<int64>(column) * ds]);
    }
    uint64 end = smaller(p + PIECE, count);
    for (uint64 q = p; q < end && s.slot(q) == slot; q += AHEAD) {
      // Several rows are under way at once.
      const T* from[AHEAD];
      int some = 0;
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        bool in = q + a < end && s.slot(q + a) == slot;
        from[a] = src + (in ? s.update(s.number(q + a)) : 0);
        some += in;
      }
#pragma unroll
      for (int k = 0; k < MOVES; ++k) {
        uint64 column = first + k * s.lanes;
        if (column >= len) break;
        T x[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (a < some) x[a] = from[a][static_cast<int64>(column) * us];
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (a < some) v[k] = F<A>::apply(v[k], Element<T>::widen(x[a]));
        }
      }
    }
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      uint64 column = first + k * s.lanes;
      if (column >= len) break;
      if (leads && !partial) {
        dst[static_cast<int64>(column) * ds] = Element<T>::narrow(v[k]);
      } else {
        // Pieces of one slot begin PIECE apart, those of different slots further: each has its own row.
        uint64 row = leads ? r[5] / PIECE + 1 + p / PIECE : p / PIECE;
        pointer<A>(r[16])[(row * r[8] + line) * len + column] = v[k];
      }
    }
  }
}

// The pieces of slots that have several.
template <typename T, template <typename> class F>
__device__ __forceinline__ void scatter_finish(Record r) {
  typedef typename Element<T>::Acc A;
  Scatter s(r);
  uint64 items = s.items(), count = r[5], len = r[7];
  for (uint64 item = blockIdx.x * s.together + (threadIdx.x >> s.shift); item < items; item += gridDim.x * s.together) {
    uint64 first, line;
    int64 at[2];
    uint64 p = s.position(item, first, line, at), slot = s.slot(p);
    if (slot >= r[6] || (p > 0 && s.slot(p - 1) == slot)) continue;
    if (p + PIECE >= count || s.slot(p + PIECE) != slot) continue;
    T* dst = pointer<T>(r[0]) + s.destination(slot) + at[0];
    const A* partial = pointer<const A>(r[16]);
#pragma unroll
    for (int k = 0; k < MOVES; ++k) {
      uint64 column = first + k * s.lanes;
      if (column >= len) break;
      A v = partial[((r[5] / PIECE + 1 + p / PIECE) * r[8] + line) * len + column];
      for (uint64 q = p + PIECE; q < count && s.slot(q) == slot; q += PIECE) {
        v = F<A>::apply(v, partial[(q / PIECE * r[8] + line) * len + column]);
      }
      dst[static_cast<int64>(column) * static_cast<int64>(r[11])] = Element<T>::narrow(v);
    }
  }
}

// ---- Scatters along an axis where there are many lines: each thread owns one.

// Record: 0 destination, 1 updates, 2 indices, 3 dtype of the indices, 4 lines, 5 updates of a line, 6 length
// of the axis, 7 steps along the axis of the destination, 8 of the updates, 9 of the indices, 10 axes of
// lines; then those (length, step of the destination, of the updates, of the indices).
template <typename T, template <typename> class F>
__device__ __forceinline__ void scatter_columns(Record r) {
  typedef typename Element<T>::Acc A;
  uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
  int64 len = static_cast<int64>(r[6]);
  for (uint64 line = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; line < r[4]; line += step) {
    int64 at[3] = {0, 0, 0};
    walk(r + 11, r[10], line, at);
    for (uint64 a = 0; a < r[5]; ++a) {
      int64 i = load_index(r[2], r[3], at[2] + static_cast<int64>(a) * static_cast<int64>(r[9]));
      if (i < 0) i += len;
      if (i < 0 || i >= len) continue;
      T* dst = pointer<T>(r[0]) + at[0] + i * static_cast<int64>(r[7]);
      T x = pointer<const T>(r[1])[at[1] + static_cast<int64>(a) * static_cast<int64>(r[8])];
      A v = F<A>::apply(Element<T>::widen(*dst), Element<T>::widen(x));
      *dst = Element<T>::narrow(v);
    }
  }
}

}  // namespace elements

#define GATHER_ROWS(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256) gather_rows_##BYTES(Record r) { \
    elements::gather_rows<elements::Unit<BYTES>::type>(r);                          \
  }
#define GATHER_AXIS(BYTES)                                                          \
  extern "C" __global__ void __launch_bounds__(256) gather_axis_##BYTES(Record r) { \
    elements::gather_axis<elements::Unit<BYTES>::type>(r);                          \
  }
#define SCATTER_SLOTS() \
  extern "C" __global__ void __launch_bounds__(256) scatter_slots(Record r) { elements::scatter_slots(r); }
#define SCATTER_COUNT(KEY)                                                          \
  extern "C" __global__ void __launch_bounds__(256) scatter_count_##KEY(Record r) { \
    elements::scatter_count<KEY>(r);                                                \
  }
#define SCATTER_SCAN(KEY) \
  extern "C" __global__ void __launch_bounds__(256) scatter_scan_##KEY(Record r) { elements::scatter_scan<KEY>(r); }
#define SCATTER_SORT(KEY) \
  extern "C" __global__ void __launch_bounds__(256) scatter_sort_##KEY(Record r) { elements::scatter_sort<KEY>(r); }
#define SCATTER_FEW(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) scatter_few_##OP##_##DTYPE(Record r) { \
    elements::scatter_few<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define SCATTER_SORTED(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) scatter_sorted_##OP##_##DTYPE(Record r) { \
    elements::scatter_sorted<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define SCATTER_FINISH(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) scatter_finish_##OP##_##DTYPE(Record r) { \
    elements::scatter_finish<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define SCATTER_COLUMNS(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) scatter_columns_##OP##_##DTYPE(Record r) { \
    elements::scatter_columns<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
