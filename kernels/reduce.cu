// Reductions along any axes, and positions of extremes.
//
// Two directions. Columns: neighbours in memory belong to different results; lanes lie along the results and
// each thread folds down. Rows: neighbours belong to one result; lanes lie along it. Where results are few,
// folded elements are cut into chunks, whose results are combined last, in order. Cuts depend on lengths
// alone: bits do not depend on timing. Halves are summed in float32.

#include "elements.cuh"

namespace elements {

// How elements are read for a combination: all and any see truths.
template <typename T, template <typename> class F>
struct Reader : Element<T> {};
template <typename T>
struct Reader<T, f_all> : Truth<T> {};
template <typename T>
struct Reader<T, f_any> : Truth<T> {};

// What a fold of one chunk leaves: a result, or an accumulator for later.
template <typename R, typename A>
__device__ __forceinline__ void leave(uint64 base, bool partial, uint64 at, A value) {
  if (partial) {
    pointer<A>(base)[at] = value;
  } else {
    typedef decltype(R::narrow(value)) Out;
    pointer<Out>(base)[at] = R::narrow(value);
  }
}

// Offset of folded element f where there are several folded axes. Not inlined: it would be most of every kernel.
__device__ __noinline__ int64 folded_far(Record axes, uint64 count, uint64 f) {
  int64 at[1] = {0};
  walk(axes, count, f, at);
  return at[0];
}

// Combines packs begin, begin + by, ... before `end`. Several loads are under way at once.
template <typename T, template <typename> class F, int V>
__device__ __forceinline__ void fold_line(const T* src, Record axes, uint64 count, uint64 begin, uint64 end, uint32 by,
                                          typename Reader<T, F>::Acc (&acc)[V]) {
  typedef Reader<T, F> R;
  typedef typename R::Acc A;
  typedef Pack<T, V> P;
  constexpr int AHEAD = V > 4 ? 4 : 8;
  auto apply = [&](const P& x) {
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = F<A>::apply(acc[v], R::widen(x.at[v]));
  };
  uint64 f = begin;
  if (count != 1) {
    constexpr int SOME = 4;
    for (; f + (SOME - 1) * by < end; f += SOME * by) {
      int64 at[SOME];
#pragma unroll
      for (int a = 0; a < SOME; ++a) at[a] = folded_far(axes, count, f + a * by);
      P x[SOME];
#pragma unroll
      for (int a = 0; a < SOME; ++a) x[a] = *reinterpret_cast<const P*>(src + at[a]);
#pragma unroll
      for (int a = 0; a < SOME; ++a) apply(x[a]);
    }
    for (; f < end; f += by) apply(*reinterpret_cast<const P*>(src + folded_far(axes, count, f)));
    return;
  }
  const int64 step = static_cast<int64>(axes[1]), jump = by * step;
  const T* from = src + static_cast<int64>(begin) * step;
  for (; f + (AHEAD - 1) * by < end; f += AHEAD * by, from += AHEAD * jump) {
    P x[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) x[a] = *reinterpret_cast<const P*>(from + a * jump);
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) apply(x[a]);
  }
  for (; f < end; f += by, from += jump) apply(*reinterpret_cast<const P*>(from));
}

// Record: 0 results, 1 source, 2 results of a run, 3 step of the source along it, 4 step of the results, 5 runs,
// 6 folded elements, 7 elements of a chunk, 8 chunks, 9 log2 of the lanes along a run, 10 pieces of a run,
// 11 whether elements are moved by 16 bytes, 12 axes of runs, 13 folded axes, 14 results in all; then the axes
// of runs (length, step of the source, step of the results), the folded ones (length, step).
template <typename T, template <typename> class F, int V>
__device__ __forceinline__ void fold_columns(Record r) {
  typedef Reader<T, F> R;
  typedef typename R::Acc A;
  __shared__ A shared[V][256];
  uint32 shift = static_cast<uint32>(r[9]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1), line = threadIdx.x >> shift;
  uint32 down = blockDim.x >> shift;
  Record runs = r + 15, folds = runs + 3 * r[12];
  uint64 items = r[10] * r[5] * r[8];
  for (uint64 item = blockIdx.x; item < items; item += gridDim.x) {
    uint64 piece, run;
    uint64 rest = divide(item, r[10], piece);
    uint64 chunk = divide(rest, r[5], run);
    int64 at[2] = {0, 0};
    walk(runs, r[12], run, at);
    uint64 column = (piece * lanes + lane) * V;
    bool inside = column < r[2];
    uint64 begin = chunk * r[7], end = smaller(begin + r[7], r[6]);
    const T* src = pointer<const T>(r[1]) + at[0] + static_cast<int64>(column) * static_cast<int64>(r[3]);
    A acc[V];
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = F<A>::init();
    if (inside) fold_line<T, F, V>(src, folds, r[13], begin + line, end, down, acc);
    for (uint32 half = down / 2; half > 0; half /= 2) {
#pragma unroll
      for (int v = 0; v < V; ++v) shared[v][threadIdx.x] = acc[v];
      __syncthreads();
      if (line < half) {
#pragma unroll
        for (int v = 0; v < V; ++v) acc[v] = F<A>::apply(acc[v], shared[v][threadIdx.x + half * lanes]);
      }
      __syncthreads();
    }
    if (inside && line == 0) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        uint64 to = static_cast<uint64>(at[1] + static_cast<int64>(column + v) * static_cast<int64>(r[4]));
        leave<R>(r[0], r[8] > 1, chunk * (r[8] > 1 ? r[14] : 0) + to, acc[v]);
      }
    }
  }
}

template <typename T, template <typename> class F>
__device__ __forceinline__ void reduce_columns(Record r) {
  if (r[11]) {
    fold_columns<T, F, 16 / sizeof(T)>(r);
  } else {
    fold_columns<T, F, 1>(r);
  }
}

// Record: 0 results, 1 source, 2 results, 3 folded units, 4 units of a chunk, 5 chunks, 6 log2 of the lanes of a
// result, 7 whether a unit is 16 bytes, 8 axes of results, 9 folded axes; then the axes of results (length,
// step of the source, step of the results), the folded ones (length, step).
template <typename T, template <typename> class F, int V>
__device__ __forceinline__ void fold_rows(Record r) {
  typedef Reader<T, F> R;
  typedef typename R::Acc A;
  __shared__ A shared[256];
  uint32 shift = static_cast<uint32>(r[6]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  uint64 together = blockDim.x >> shift;
  Record kept = r + 10, folds = kept + 3 * r[8];
  uint64 items = r[2] * r[5];
  // All threads go around equally often, as they meet at barriers.
  uint64 rounds = (items + together * gridDim.x - 1) / (together * gridDim.x);
  uint64 item = blockIdx.x * together + (threadIdx.x >> shift);
  for (uint64 round = 0; round < rounds; ++round, item += together * gridDim.x) {
    bool inside = item < items;
    uint64 result = 0, chunk = inside ? divide(item, r[2], result) : 0;
    int64 at[2] = {0, 0};
    walk(kept, r[8], result, at);
    uint64 begin = chunk * r[4], end = inside ? smaller(begin + r[4], r[3]) : begin;
    const T* src = pointer<const T>(r[1]) + at[0];
    A acc[V];
#pragma unroll
    for (int v = 0; v < V; ++v) acc[v] = F<A>::init();
    fold_line<T, F, V>(src, folds, r[9], begin + lane, end, lanes, acc);
#pragma unroll
    for (int v = 1; v < V; ++v) acc[0] = F<A>::apply(acc[0], acc[v]);
    for (uint32 half = lanes / 2; half > 0; half /= 2) {
      shared[threadIdx.x] = acc[0];
      __syncthreads();
      if (lane < half) acc[0] = F<A>::apply(acc[0], shared[threadIdx.x + half]);
      __syncthreads();
    }
    if (inside && lane == 0) {
      leave<R>(r[0], r[5] > 1, chunk * (r[5] > 1 ? r[2] : 0) + static_cast<uint64>(at[1]), acc[0]);
    }
  }
}

template <typename T, template <typename> class F>
__device__ __forceinline__ void reduce_rows(Record r) {
  if (r[7]) {
    fold_rows<T, F, 16 / sizeof(T)>(r);
  } else {
    fold_rows<T, F, 1>(r);
  }
}

// The chunks of each result. Record: 0 results, 1 accumulators, 2 results, 3 chunks, 4 log2 of the lanes of a
// result.
template <typename T, template <typename> class F>
__device__ __forceinline__ void reduce_finish(Record r) {
  typedef Reader<T, F> R;
  typedef typename R::Acc A;
  __shared__ A shared[256];
  uint32 shift = static_cast<uint32>(r[4]);
  uint32 lanes = 1u << shift, together = blockDim.x >> shift, lane = threadIdx.x / together;
  const A* partial = pointer<const A>(r[1]);
  uint64 step = static_cast<uint64>(together) * gridDim.x;
  // All threads go around equally often, as they meet at barriers.
  for (uint64 first = static_cast<uint64>(blockIdx.x) * together; first < r[2]; first += step) {
    uint64 i = first + threadIdx.x % together;
    A acc = F<A>::init();
    if (i < r[2]) {
#pragma unroll 8
      for (uint64 c = lane; c < r[3]; c += lanes) acc = F<A>::apply(acc, partial[c * r[2] + i]);
    }
    for (uint32 half = lanes / 2; half > 0; half /= 2) {
      shared[threadIdx.x] = acc;
      __syncthreads();
      if (lane < half) acc = F<A>::apply(acc, shared[threadIdx.x + half * together]);
      __syncthreads();
    }
    if (i < r[2] && lane == 0) leave<R>(r[0], false, i, acc);
  }
}

// ---- Positions of extremes: the first of equals wins, a NaN beats everything.

template <typename A>
struct o_max {
  static __device__ __forceinline__ bool further(A x, A than) { return Arith<A>::less(than, x); }
};
template <typename A>
struct o_min {
  static __device__ __forceinline__ bool further(A x, A than) { return Arith<A>::less(x, than); }
};

constexpr uint32 NOWHERE = 0xffffffffu;

template <typename A, template <typename> class O>
struct Best {
  A value;
  uint32 at;

  // Elements come in order of their positions.
  __device__ __forceinline__ void see(A x, uint32 where) {
    bool wins = at == NOWHERE || ((O<A>::further(x, value) || Arith<A>::nan(x)) && !Arith<A>::nan(value));
    value = wins ? x : value;
    at = wins ? where : at;
  }
  // Others come in any order.
  __device__ __forceinline__ void meet(A x, uint32 where) {
    if (where == NOWHERE) return;
    bool wins = at == NOWHERE;
    if (!wins) {
      bool mine = Arith<A>::nan(value), other = Arith<A>::nan(x);
      bool equal = mine == other && (mine || (!O<A>::further(x, value) && !O<A>::further(value, x)));
      wins = equal ? where < at : !mine && (other || O<A>::further(x, value));
    }
    value = wins ? x : value;
    at = wins ? where : at;
  }
};

// Record: as of columns, with one folded axis; 0 are positions, 15 accumulators, 16 positions of chunks; runs
// are from 17 on.
template <typename T, template <typename> class O, int V>
__device__ __forceinline__ void search_columns(Record r) {
  typedef typename Element<T>::Acc A;
  constexpr int AHEAD = 4;
  __shared__ A values[V][256];
  __shared__ uint32 places[V][256];
  uint32 shift = static_cast<uint32>(r[9]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1), line = threadIdx.x >> shift;
  uint32 down = blockDim.x >> shift;
  Record runs = r + 17;
  int64 step = static_cast<int64>(runs[3 * r[12] + 1]);
  uint64 items = r[10] * r[5] * r[8];
  for (uint64 item = blockIdx.x; item < items; item += gridDim.x) {
    uint64 piece, run;
    uint64 rest = divide(item, r[10], piece);
    uint64 chunk = divide(rest, r[5], run);
    int64 at[2] = {0, 0};
    walk(runs, r[12], run, at);
    uint64 column = (piece * lanes + lane) * V;
    bool inside = column < r[2];
    uint64 begin = chunk * r[7], end = smaller(begin + r[7], r[6]);
    const T* src = pointer<const T>(r[1]) + at[0] + static_cast<int64>(column) * static_cast<int64>(r[3]);
    Best<A, O> best[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      best[v].value = Arith<A>::zero();
      best[v].at = NOWHERE;
    }
    if (inside) {
      uint64 f = begin + line;
      for (; f + (AHEAD - 1) * down < end; f += AHEAD * down) {
        Pack<T, V> x[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          x[a] = *reinterpret_cast<const Pack<T, V>*>(src + static_cast<int64>(f + a * down) * step);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
#pragma unroll
          for (int v = 0; v < V; ++v) {
            best[v].see(Element<T>::widen(x[a].at[v]), static_cast<uint32>(f + a * down));
          }
        }
      }
      for (; f < end; f += down) {
        Pack<T, V> x = *reinterpret_cast<const Pack<T, V>*>(src + static_cast<int64>(f) * step);
#pragma unroll
        for (int v = 0; v < V; ++v) best[v].see(Element<T>::widen(x.at[v]), static_cast<uint32>(f));
      }
    }
    for (uint32 half = down / 2; half > 0; half /= 2) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        values[v][threadIdx.x] = best[v].value;
        places[v][threadIdx.x] = best[v].at;
      }
      __syncthreads();
      if (line < half) {
        uint32 other = threadIdx.x + half * lanes;
#pragma unroll
        for (int v = 0; v < V; ++v) best[v].meet(values[v][other], places[v][other]);
      }
      __syncthreads();
    }
    if (inside && line == 0) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        uint64 to = static_cast<uint64>(at[1] + static_cast<int64>(column + v) * static_cast<int64>(r[4]));
        if (r[8] > 1) {
          pointer<A>(r[15])[chunk * r[14] + to] = best[v].value;
          pointer<uint32>(r[16])[chunk * r[14] + to] = best[v].at;
        } else {
          pointer<uint32>(r[0])[to] = best[v].at;
        }
      }
    }
  }
}

template <typename T, template <typename> class O>
__device__ __forceinline__ void arg_columns(Record r) {
  if (r[11]) {
    search_columns<T, O, 16 / sizeof(T)>(r);
  } else {
    search_columns<T, O, 1>(r);
  }
}

// Record: as of rows, with one folded axis; 0 are positions, 10 accumulators, 11 positions of chunks; axes are
// from 12 on.
template <typename T, template <typename> class O, int V>
__device__ __forceinline__ void search_rows(Record r) {
  typedef typename Element<T>::Acc A;
  constexpr int AHEAD = 4;
  __shared__ A values[256];
  __shared__ uint32 places[256];
  uint32 shift = static_cast<uint32>(r[6]);
  uint32 lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  uint64 together = blockDim.x >> shift;
  Record kept = r + 12;
  int64 step = static_cast<int64>(kept[3 * r[8] + 1]);
  uint64 items = r[2] * r[5];
  uint64 rounds = (items + together * gridDim.x - 1) / (together * gridDim.x);
  uint64 item = blockIdx.x * together + (threadIdx.x >> shift);
  for (uint64 round = 0; round < rounds; ++round, item += together * gridDim.x) {
    bool inside = item < items;
    uint64 result = 0, chunk = inside ? divide(item, r[2], result) : 0;
    int64 at[2] = {0, 0};
    walk(kept, r[8], result, at);
    uint64 begin = chunk * r[4], end = inside ? smaller(begin + r[4], r[3]) : begin;
    const T* src = pointer<const T>(r[1]) + at[0];
    Best<A, O> best;
    best.value = Arith<A>::zero();
    best.at = NOWHERE;
    uint64 f = begin + lane;
    for (; f + (AHEAD - 1) * lanes < end; f += AHEAD * lanes) {
      Pack<T, V> x[AHEAD];
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
        x[a] = *reinterpret_cast<const Pack<T, V>*>(src + static_cast<int64>(f + a * lanes) * step);
      }
#pragma unroll
      for (int a = 0; a < AHEAD; ++a) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          best.see(Element<T>::widen(x[a].at[v]), static_cast<uint32>((f + a * lanes) * V + v));
        }
      }
    }
    for (; f < end; f += lanes) {
      Pack<T, V> x = *reinterpret_cast<const Pack<T, V>*>(src + static_cast<int64>(f) * step);
#pragma unroll
      for (int v = 0; v < V; ++v) best.see(Element<T>::widen(x.at[v]), static_cast<uint32>(f * V + v));
    }
    for (uint32 half = lanes / 2; half > 0; half /= 2) {
      values[threadIdx.x] = best.value;
      places[threadIdx.x] = best.at;
      __syncthreads();
      if (lane < half) best.meet(values[threadIdx.x + half], places[threadIdx.x + half]);
      __syncthreads();
    }
    if (inside && lane == 0) {
      uint64 to = static_cast<uint64>(at[1]);
      if (r[5] > 1) {
        pointer<A>(r[10])[chunk * r[2] + to] = best.value;
        pointer<uint32>(r[11])[chunk * r[2] + to] = best.at;
      } else {
        pointer<uint32>(r[0])[to] = best.at;
      }
    }
  }
}

template <typename T, template <typename> class O>
__device__ __forceinline__ void arg_rows(Record r) {
  if (r[7]) {
    search_rows<T, O, 16 / sizeof(T)>(r);
  } else {
    search_rows<T, O, 1>(r);
  }
}

// The chunks of each result. Record: 0 positions, 1 accumulators, 2 results, 3 chunks, 4 log2 of the lanes of a
// result, 5 positions of chunks.
template <typename T, template <typename> class O>
__device__ __forceinline__ void arg_finish(Record r) {
  typedef typename Element<T>::Acc A;
  __shared__ A values[256];
  __shared__ uint32 places[256];
  uint32 shift = static_cast<uint32>(r[4]);
  uint32 lanes = 1u << shift, together = blockDim.x >> shift, lane = threadIdx.x / together;
  uint64 step = static_cast<uint64>(together) * gridDim.x;
  // All threads go around equally often, as they meet at barriers.
  for (uint64 first = static_cast<uint64>(blockIdx.x) * together; first < r[2]; first += step) {
    uint64 i = first + threadIdx.x % together;
    Best<A, O> best;
    best.value = Arith<A>::zero();
    best.at = NOWHERE;
    if (i < r[2]) {
#pragma unroll 4
      for (uint64 c = lane; c < r[3]; c += lanes) {
        best.meet(pointer<const A>(r[1])[c * r[2] + i], pointer<const uint32>(r[5])[c * r[2] + i]);
      }
    }
    for (uint32 half = lanes / 2; half > 0; half /= 2) {
      values[threadIdx.x] = best.value;
      places[threadIdx.x] = best.at;
      __syncthreads();
      if (lane < half) best.meet(values[threadIdx.x + half * together], places[threadIdx.x + half * together]);
      __syncthreads();
    }
    if (i < r[2] && lane == 0) pointer<uint32>(r[0])[i] = best.at;
  }
}

}  // namespace elements

#define REDUCE_COLUMNS(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256, 4) reduce_columns_##OP##_##DTYPE(Record r) { \
    elements::reduce_columns<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define REDUCE_ROWS(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256, 4) reduce_rows_##OP##_##DTYPE(Record r) { \
    elements::reduce_rows<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define REDUCE_FINISH(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) reduce_finish_##OP##_##DTYPE(Record r) { \
    elements::reduce_finish<elements::t_##DTYPE, elements::f_##OP>(r);                       \
  }
#define ARG_COLUMNS(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) arg_columns_##OP##_##DTYPE(Record r) { \
    elements::arg_columns<elements::t_##DTYPE, elements::o_##OP>(r);                       \
  }
#define ARG_ROWS(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) arg_rows_##OP##_##DTYPE(Record r) { \
    elements::arg_rows<elements::t_##DTYPE, elements::o_##OP>(r);                       \
  }
#define ARG_FINISH(OP, DTYPE)                                                             \
  extern "C" __global__ void __launch_bounds__(256) arg_finish_##OP##_##DTYPE(Record r) { \
    elements::arg_finish<elements::t_##DTYPE, elements::o_##OP>(r);                       \
  }
