// Random words: Threefry-2x32 in MLX's order, bit for bit as on the CPU.
//
// A key's n words come from pairs: pair i gives word i and word i + half, so that both halves are written in
// runs. The work is arithmetic: four-byte stores of neighbouring lanes keep up with it.

#include "elements.cuh"

namespace elements {

struct Words {
  uint32 a, b;
};

__device__ __forceinline__ uint32 turn(uint32 x, int by) { return x << by | x >> (32 - by); }

// Four rounds, and the addition of keys after them.
#define OXMLX_ROUNDS(r0, r1, r2, r3, ka, kb, n) \
  x.a += x.b;                                   \
  x.b = turn(x.b, r0) ^ x.a;                    \
  x.a += x.b;                                   \
  x.b = turn(x.b, r1) ^ x.a;                    \
  x.a += x.b;                                   \
  x.b = turn(x.b, r2) ^ x.a;                    \
  x.a += x.b;                                   \
  x.b = turn(x.b, r3) ^ x.a;                    \
  x.a += ka;                                    \
  x.b += kb + n

__device__ __forceinline__ Words threefry(uint32 k0, uint32 k1, uint32 c0, uint32 c1) {
  uint32 k2 = k0 ^ k1 ^ 0x1BD11BDAu;
  Words x;
  x.a = c0 + k0;
  x.b = c1 + k1;
  OXMLX_ROUNDS(13, 15, 26, 6, k1, k2, 1u);
  OXMLX_ROUNDS(17, 29, 16, 24, k2, k0, 2u);
  OXMLX_ROUNDS(13, 15, 26, 6, k0, k1, 3u);
  OXMLX_ROUNDS(17, 29, 16, 24, k1, k2, 4u);
  OXMLX_ROUNDS(13, 15, 26, 6, k2, k0, 5u);
  return x;
}
#undef OXMLX_ROUNDS

// Writes word `w` of a key, as far as it lies within the key's bytes.
__device__ __forceinline__ void put(uint8* dst, uint64 bytes, bool whole, uint64 w, uint32 value) {
  if (whole) {
    reinterpret_cast<uint32*>(dst)[w] = value;
    return;
  }
  for (uint64 i = 4 * w; i < smaller(4 * w + 4, bytes); ++i) {
    dst[i] = static_cast<uint8>(value);
    value >>= 8;
  }
}

// Record: destination, keys, number of keys, bytes a key, step between a key's two words, axes of keys; then
// those (length, step).
__device__ __forceinline__ void random_bits(Record r) {
  uint64 count = r[2], bytes = r[3];
  uint64 words = (bytes + 3) / 4, half_words = words / 2, gap = words - half_words;
  bool whole = ((r[0] | bytes) & 3) == 0;
  uint64 self = blockIdx.x * static_cast<uint64>(blockDim.x) + threadIdx.x;
  uint64 all = gridDim.x * static_cast<uint64>(blockDim.x);
  for (uint64 item = self; item < count * gap; item += all) {
    uint64 pair = item, key = 0;
    if (count > 1) key = divide(item, gap, pair);
    int64 at[1] = {0};
    walk(r + 6, r[5], key, at);
    const uint32* k = pointer<const uint32>(r[1]) + at[0];
    uint32 c = static_cast<uint32>(pair);
    // The word in the middle of an odd count has no partner, and its counter none either.
    bool lone = pair >= half_words;
    Words x = threefry(k[0], k[static_cast<int64>(r[4])], c, lone ? 0u : c + static_cast<uint32>(gap));
    uint8* dst = pointer<uint8>(r[0]) + key * bytes;
    put(dst, bytes, whole, pair, x.a);
    if (!lone) put(dst, bytes, whole, pair + gap, x.b);
  }
}

}  // namespace elements

#define RANDOM_BITS() \
  extern "C" __global__ void __launch_bounds__(256) random_bits(Record r) { elements::random_bits(r); }
