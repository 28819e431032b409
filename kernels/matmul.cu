// Matrix products of our own: those with few rows, which only read one large operand once, and small ones, whose
// time is latency.
//
// Sizes and steps are words of the record, so that products whose sizes change are the same launches. Operands lie
// as they like: packs of 16 bytes are read where the host says that they can be, single elements elsewhere, in the
// same order; so bits depend on shapes alone. Halves are summed in float32.
//
// Record of every product: 0 result, 1 left operand, 2 right operand, 3 rows, 4 columns, 5 depth, 6 left's step of
// rows, 7 of depth, 8 right's step of depth, 9 of columns, 10 result's step of rows, 11 of columns, 12 of products,
// 13 products, 14 depth of a chunk, 15 chunks, 16 how left is read (bit 0: in packs, bit 1: packs lie along the
// depth), 17 how right is, 18 log2 of the lanes, 19 tiles along columns, 20 tiles along rows, 21 axes of products;
// then those (length, step of left, step of right). With several chunks the result are accumulators, row-major,
// product after product and chunk after chunk.

#include "elements.cuh"

namespace elements {

template <typename T>
struct Product {
  typedef typename Element<T>::Acc A;
  // Elements of a pack.
  static constexpr int V = 16 / sizeof(T);
  typedef Pack<T, V> Piece;

  Record r;
  uint64 rows, columns, begin, end, batch, chunk;
  const T* left;
  const T* right;
  int64 left_row, left_depth, right_depth, right_column;

  __device__ __forceinline__ explicit Product(Record record) : r(record) {
    rows = r[3];
    columns = r[4];
    left_row = static_cast<int64>(r[6]);
    left_depth = static_cast<int64>(r[7]);
    right_depth = static_cast<int64>(r[8]);
    right_column = static_cast<int64>(r[9]);
  }

  // Goes to one chunk of one product.
  __device__ __forceinline__ void enter(uint64 number) {
    int64 at[2] = {0, 0};
    chunk = divide(number, r[13], batch);
    walk(r + 22, r[21], batch, at);
    left = pointer<const T>(r[1]) + at[0];
    right = pointer<const T>(r[2]) + at[1];
    begin = chunk * r[14];
    end = smaller(begin + r[14], r[5]);
  }

  __device__ __forceinline__ void store(uint64 row, uint64 column, A value) const {
    if (r[15] > 1) {
      pointer<A>(r[0])[((chunk * r[13] + batch) * rows + row) * columns + column] = value;
    } else {
      pointer<T>(r[0])[batch * r[12] + row * r[10] + column * r[11]] = Element<T>::narrow(value);
    }
  }

  // A pack, of which only the first `have` elements are there.
  static __device__ __forceinline__ Piece piece(const T* from, int64 step, uint64 have, bool packed) {
    if (packed && have >= V) return *reinterpret_cast<const Piece*>(from);
    Piece p;
#pragma unroll
    for (int v = 0; v < V; ++v) p.at[v] = v < have ? from[v * step] : T();
    return p;
  }
};

__device__ __forceinline__ float32 across(float32 x, uint32 by) { return __shfl_xor_sync(0xffffffffu, x, by); }
__device__ __forceinline__ float64 across(float64 x, uint32 by) { return __shfl_xor_sync(0xffffffffu, x, by); }
__device__ __forceinline__ complex across(complex x, uint32 by) {
  complex y;
  y.re = across(x.re, by);
  y.im = across(x.im, by);
  return y;
}

// What a lane holds after sums over lanes: `have` of them from number `first` on.
struct Share {
  int first, have;
};

// Sums each of COUNT values over the lanes whose numbers differ in the bits from `most` down to `least`, and shares
// the sums out to them: with each bit a lane sends one half and keeps the other.
template <int COUNT, typename A>
__device__ __forceinline__ Share share_sums(A (&v)[COUNT], uint32 most, uint32 least) {
  Share share = {0, COUNT};
#pragma unroll
  for (int s = 0; s < 5; ++s) {
    const uint32 by = most >> s;
    if (by == 0 || by < least) break;
    const bool upper = (threadIdx.x & by) != 0;
    const int half = COUNT >> (s + 1);
    if (half > 0) {
#pragma unroll
      for (int i = 0; i < half; ++i) {
        A mine = upper ? v[half + i] : v[i], other = upper ? v[i] : v[half + i];
        v[i] = Arith<A>::add(mine, across(other, by));
      }
      if (upper) share.first += half;
      share.have = half;
    } else {
      v[0] = Arith<A>::add(v[0], across(v[0], by));
      if (upper) share.have = 0;
    }
  }
  return share;
}

// ---- Few rows, and a right operand whose columns are dense: lanes lie along the depth.

template <typename T, int R>
struct Dots {
  typedef Product<T> P;
  typedef typename P::A A;
  // Columns at a time: loads under way, and each pack of the left operand used as often.
  static constexpr int COLUMNS = R == 8 ? 2 : 4;
  A sum[R * COLUMNS];

  // Adds what packs at this depth give.
  __device__ __forceinline__ void add(const P& p, const typename P::Piece (&w)[COLUMNS], uint64 at) {
#pragma unroll
    for (int m = 0; m < R; ++m) {
      if (R > 1 && m >= p.rows) break;
      const T* from = p.left + m * p.left_row + static_cast<int64>(at) * p.left_depth;
      const typename P::Piece x = P::piece(from, p.left_depth, p.end - at, p.r[16] & 1);
#pragma unroll
      for (int v = 0; v < P::V; ++v) {
        const A y = Element<T>::widen(x.at[v]);
#pragma unroll
        for (int n = 0; n < COLUMNS; ++n) {
          A& to = sum[m * COLUMNS + n];
          to = Arith<A>::fma(y, Element<T>::widen(w[n].at[v]), to);
        }
      }
    }
  }
};

template <typename T, int R>
__device__ __forceinline__ void product_dots(Record r) {
  typedef Product<T> P;
  typedef typename P::A A;
  constexpr int V = P::V, COLUMNS = Dots<T, R>::COLUMNS, COUNT = R * COLUMNS, AHEAD = R == 1 ? 2 : R == 8 ? 2 : 1;
  __shared__ A shared[8][COUNT];
  P p(r);
  const uint32 shift = static_cast<uint32>(r[18]), lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  const uint64 together = blockDim.x >> shift, step = gridDim.x * together, tiles = r[19];
  const uint64 items = tiles * r[13] * r[15];
  const bool packed = (r[17] & 1) != 0;
  // All threads go around equally often, as they meet in sums.
  for (uint64 base = blockIdx.x * together; base < items; base += step) {
    uint64 item = base + (threadIdx.x >> shift), tile;
    const bool inside = item < items;
    p.enter(divide(inside ? item : 0, tiles, tile));
    const uint64 first = tile * COLUMNS, span = static_cast<uint64>(lanes) * V;
    Dots<T, R> dots;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) dots.sum[i] = Arith<A>::zero();
    if (inside) {
      const T* from[COLUMNS];
#pragma unroll
      for (int n = 0; n < COLUMNS; ++n) {
        from[n] = p.right + static_cast<int64>(smaller(first + n, p.columns - 1)) * p.right_column;
      }
      uint64 at = p.begin + lane * V;
      if (packed) {
        for (; at + V <= p.end; at += AHEAD * span) {
          typename P::Piece w[AHEAD][COLUMNS];
#pragma unroll
          for (int a = 0; a < AHEAD; ++a) {
            if (a > 0 && at + a * span + V > p.end) break;
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
              w[a][n] = *reinterpret_cast<const typename P::Piece*>(from[n] + at + a * span);
            }
          }
#pragma unroll
          for (int a = 0; a < AHEAD; ++a) {
            if (a > 0 && at + a * span + V > p.end) break;
            dots.add(p, w[a], at + a * span);
          }
        }
        // What is less than a pack is one lane's.
        const uint64 whole = (p.end - p.begin) / V;
        at = (whole & (lanes - 1)) == lane ? p.begin + whole * V : p.end;
      }
      for (; at < p.end; at += span) {
        typename P::Piece w[COLUMNS];
#pragma unroll
        for (int n = 0; n < COLUMNS; ++n) {
          w[n] = P::piece(from[n] + static_cast<int64>(at) * p.right_depth, p.right_depth, p.end - at, false);
        }
        dots.add(p, w, at);
      }
    }
    const Share share = share_sums(dots.sum, lanes > 32 ? 16 : lanes / 2, 1);
    if (lanes <= 32) {
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        const uint64 row = (share.first + i) / COLUMNS, column = first + (share.first + i) % COLUMNS;
        if (inside && i < share.have && row < p.rows && column < p.columns) p.store(row, column, dots.sum[i]);
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      if (i < share.have) shared[threadIdx.x / 32][share.first + i] = dots.sum[i];
    }
    __syncthreads();
    if (lane < COUNT) {
      const uint32 warp = threadIdx.x / 32;
      A sum = shared[warp][lane];
      for (uint32 i = 1; i < lanes / 32; ++i) sum = Arith<A>::add(sum, shared[warp + i][lane]);
      const uint64 row = lane / COLUMNS, column = first + lane % COLUMNS;
      if (inside && row < p.rows && column < p.columns) p.store(row, column, sum);
    }
    __syncthreads();
  }
}

// ---- Few rows, and a right operand whose rows are dense: lanes lie along the columns, lines go down.

template <typename T, int R>
__device__ __forceinline__ void product_lines(Record r) {
  typedef Product<T> P;
  typedef typename P::A A;
  constexpr int V = P::V, AHEAD = R == 1 ? 8 : 4;
  __shared__ A shared[2][8][32 * V];
  P p(r);
  const uint32 shift = static_cast<uint32>(r[18]), lanes = 1u << shift, lane = threadIdx.x & (lanes - 1);
  const uint32 line = threadIdx.x >> shift, warp = threadIdx.x / 32;
  const uint64 down = blockDim.x >> shift, tiles = r[19], items = tiles * r[13] * r[15];
  const bool packed = (r[17] & 1) != 0;
  for (uint64 item = blockIdx.x; item < items; item += gridDim.x) {
    uint64 tile;
    p.enter(divide(item, tiles, tile));
    const uint64 first = tile * lanes * V, column = first + lane * V;
    const uint64 have = column < p.columns ? p.columns - column : 0;
    const T* from = p.right + static_cast<int64>(column) * p.right_column;
    A sum[R][V];
#pragma unroll
    for (int m = 0; m < R; ++m) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[m][v] = Arith<A>::zero();
    }
    auto add = [&](const typename P::Piece& w, uint64 at) {
      A f[V];
#pragma unroll
      for (int v = 0; v < V; ++v) f[v] = Element<T>::widen(w.at[v]);
#pragma unroll
      for (int m = 0; m < R; ++m) {
        if (R > 1 && m >= p.rows) break;
        A x = Element<T>::widen(p.left[m * p.left_row + static_cast<int64>(at) * p.left_depth]);
#pragma unroll
        for (int v = 0; v < V; ++v) sum[m][v] = Arith<A>::fma(x, f[v], sum[m][v]);
      }
    };
    uint64 at = p.begin + line;
    if (packed && have >= V) {
      for (; at < p.end; at += AHEAD * down) {
        typename P::Piece w[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (at + a * down < p.end) {
            w[a] = *reinterpret_cast<const typename P::Piece*>(from + static_cast<int64>(at + a * down) * p.right_depth);
          }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
          if (at + a * down < p.end) add(w[a], at + a * down);
        }
      }
    } else if (have > 0) {
      for (; at < p.end; at += down) {
        add(P::piece(from + static_cast<int64>(at) * p.right_depth, p.right_column, have, false), at);
      }
    }
#pragma unroll
    for (int m = 0; m < R; ++m) {
      if (R > 1 && m >= p.rows) break;
      const Share share = share_sums(sum[m], 16, lanes);
      A(&all)[8][32 * V] = shared[m & 1];
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (v < share.have) all[warp][(share.first + v) * lanes + lane] = sum[m][v];
      }
      __syncthreads();
      const uint32 n = threadIdx.x;
      if (n < lanes * V) {
        // Neighbours write neighbours.
        const uint32 at = n % V * lanes + n / V;
        A total = all[0][at];
#pragma unroll
        for (int w = 1; w < 8; ++w) total = Arith<A>::add(total, all[w][at]);
        if (first + n < p.columns) p.store(m, first + n, total);
      }
    }
    // The next item begins with the first half again.
    __syncthreads();
  }
}

// ---- Small products: tiles of the result, whose threads share the depth out as well.

// A tile of an operand, TILE rows or columns and so deep that all threads load some: from memory into registers,
// from there to shared memory, the depth outermost.
template <typename T, int TILE>
struct Side {
  typedef Product<T> P;
  typedef typename P::A A;
  static constexpr int DEPTH = 2048 / TILE, V = P::V, PIECES = 8 / V;
  // Padding that keeps transposed stores apart.
  static constexpr int LINE = TILE + 4;

  const T* from;
  int64 step, depth_step;
  bool packed, along;
  uint64 count;
  typename P::Piece held[PIECES];

  // Place of the first element of a piece in the tile.
  __device__ __forceinline__ void place(int i, uint32& t, uint32& k) const {
    const uint32 u = threadIdx.x + 256 * i;
    if (along) {
      // Two neighbouring pieces of each of 16 lines: whole sectors are read, different banks written.
      t = TILE == 16 ? u & 15 : (u & 15) | (u >> 1 & 16);
      k = (TILE == 16 ? u >> 4 : (u >> 4 & 1) | u >> 6 << 1) * V;
    } else {
      t = u % (TILE / V) * V;
      k = u / (TILE / V);
    }
  }
  __device__ __forceinline__ void load(uint64 begin, uint64 end) {
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      uint32 t, k;
      place(i, t, k);
      const bool inside = t < count && begin + k < end;
      const uint64 have = !inside ? 0 : along ? end - begin - k : count - t;
      const T* at = from + static_cast<int64>(t) * step + static_cast<int64>(begin + k) * depth_step;
      held[i] = P::piece(at, along ? depth_step : step, have, packed);
    }
  }
  __device__ __forceinline__ void put(A (&tile)[DEPTH][LINE]) const {
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      uint32 t, k;
      place(i, t, k);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        A x = Element<T>::widen(held[i].at[v]);
        if (along) {
          tile[k + v][t] = x;
        } else {
          tile[k][t + v] = x;
        }
      }
    }
  }
};

template <typename T, int TILE>
__device__ __forceinline__ void product_tiles(Record r) {
  typedef Product<T> P;
  typedef typename P::A A;
  typedef Side<T, TILE> S;
  typedef Pack<A, 4> Four;
  // Threads of a group have all of the tile, 4 x 4 each; groups take turns along the depth.
  constexpr int EDGE = TILE / 4, MEMBERS = EDGE * EDGE, GROUPS = 256 / MEMBERS;
  union Shared {
    A tiles[2][S::DEPTH][S::LINE];
    A sums[GROUPS][TILE * TILE];
  };
  struct alignas(32) Line {
    uint8 bytes[32];
  };
  __shared__ Line memory[sizeof(Shared) / 32];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  P p(r);
  S a, b;
  a.step = p.left_row, a.depth_step = p.left_depth, a.packed = r[16] & 1, a.along = r[16] >> 1 & 1;
  b.step = p.right_column, b.depth_step = p.right_depth, b.packed = r[17] & 1, b.along = r[17] >> 1 & 1;
  const uint32 group = threadIdx.x / MEMBERS, member = threadIdx.x % MEMBERS;
  const uint32 x = member % EDGE * 4, y = member / EDGE * 4;
  const uint64 items = r[19] * r[20] * r[13] * r[15];
  for (uint64 item = blockIdx.x; item < items; item += gridDim.x) {
    uint64 tile_x, tile_y, rest = divide(item, r[19], tile_x);
    p.enter(divide(rest, r[20], tile_y));
    const uint64 row = tile_y * TILE, column = tile_x * TILE;
    a.from = p.left + static_cast<int64>(row) * a.step, a.count = p.rows - row;
    b.from = p.right + static_cast<int64>(column) * b.step, b.count = p.columns - column;
    if (a.count > TILE) a.count = TILE;
    if (b.count > TILE) b.count = TILE;
    A sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] = Arith<A>::zero();
    }
    a.load(p.begin, p.end);
    b.load(p.begin, p.end);
    for (uint64 at = p.begin; at < p.end; at += S::DEPTH) {
      __syncthreads();
      a.put(shared.tiles[0]);
      b.put(shared.tiles[1]);
      __syncthreads();
      if (at + S::DEPTH < p.end) {
        a.load(at + S::DEPTH, p.end);
        b.load(at + S::DEPTH, p.end);
      }
      const uint32 deep = static_cast<uint32>(smaller(p.end - at, S::DEPTH));
#pragma unroll 4
      for (uint32 k = group; k < deep; k += GROUPS) {
        const Four u = *reinterpret_cast<const Four*>(&shared.tiles[0][k][y]);
        const Four w = *reinterpret_cast<const Four*>(&shared.tiles[1][k][x]);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] = Arith<A>::fma(u.at[i], w.at[j], sum[i][j]);
        }
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Four part;
#pragma unroll
      for (int j = 0; j < 4; ++j) part.at[j] = sum[i][j];
      *reinterpret_cast<Four*>(&shared.sums[group][(y + i) * TILE + x]) = part;
    }
    __syncthreads();
#pragma unroll
    for (uint32 o = threadIdx.x; o < TILE * TILE; o += 256) {
      A total = shared.sums[0][o];
#pragma unroll
      for (int g = 1; g < GROUPS; ++g) total = Arith<A>::add(total, shared.sums[g][o]);
      if (o / TILE < a.count && o % TILE < b.count) p.store(row + o / TILE, column + o % TILE, total);
    }
  }
}

// ---- Chunks of the depth, added in order.

// Record: 0 result, 1 accumulators, 2 rows, 3 columns, 4 elements in all, 5 chunks, 6 steps of the result along
// rows, 7 columns, 8 products.
template <typename T>
__device__ __forceinline__ void product_finish(Record r) {
  typedef typename Element<T>::Acc A;
  const A* partial = pointer<const A>(r[1]);
  uint64 all = r[4], step = static_cast<uint64>(gridDim.x) * blockDim.x;
  for (uint64 i = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    A sum = partial[i];
#pragma unroll 8
    for (uint64 c = 1; c < r[5]; ++c) sum = Arith<A>::add(sum, partial[c * all + i]);
    uint64 row, column, batch = divide(divide(i, r[3], column), r[2], row);
    pointer<T>(r[0])[batch * r[8] + row * r[6] + column * r[7]] = Element<T>::narrow(sum);
  }
}

}  // namespace elements

// Blocks that a processor holds at once: registers are given up for loads under way.
#define PRODUCT_DOTS(DTYPE, ROWS)                                                                              \
  extern "C" __global__ void __launch_bounds__(256, 2) product_dots_##DTYPE##_##ROWS(Record r) { \
    elements::product_dots<elements::t_##DTYPE, ROWS>(r);                                                      \
  }
#define PRODUCT_LINES(DTYPE, ROWS)                                                                              \
  extern "C" __global__ void __launch_bounds__(256, ROWS == 1 ? 3 : 2) product_lines_##DTYPE##_##ROWS(Record r) { \
    elements::product_lines<elements::t_##DTYPE, ROWS>(r);                                                      \
  }
#define PRODUCT_TILES(DTYPE, TILE)                                                                \
  extern "C" __global__ void __launch_bounds__(256, 2) product_tiles_##DTYPE##_##TILE(Record r) { \
    elements::product_tiles<elements::t_##DTYPE, TILE>(r);                                        \
  }
#define PRODUCT_FINISH(DTYPE)                                                          \
  extern "C" __global__ void __launch_bounds__(256) product_finish_##DTYPE(Record r) { \
    elements::product_finish<elements::t_##DTYPE>(r);                                  \
  }
