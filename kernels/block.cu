// The parameter block: the words that every other kernel of a run reads, written first, and the signal that the
// run is done, given last.

#include "common.cuh"

// The words travel as arguments of the launch, so that no copy engine has to be waited for and nothing has to be
// kept for the device on the host.
template <int N>
struct Words {
  uint64 w[N];
};

template <int N>
__device__ __forceinline__ void put(uint64* to, const Words<N>& words, uint32 count) {
  for (uint32 i = threadIdx.x; i < count; i += blockDim.x) to[i] = words.w[i];
}

#define BLOCK_PUT(N)                                                                             \
  extern "C" __global__ void block_put_##N(uint64* to, const __grid_constant__ Words<N> words, \
                                           uint32 count) {                                       \
    put<N>(to, words, count);                                                                    \
  }

// Copies small results to pinned memory of the host, then sets the flag that the host waits for. Record: the
// flag's address, its value, a count, and so many triples of destination, source and bytes (8 at most).
#define BLOCK_SIGNAL()                                                              \
  extern "C" __global__ void block_signal(Record r) {                               \
    for (uint64 i = 0; i < r[2]; ++i) {                                             \
      volatile uint8* to = pointer<volatile uint8>(r[3 + 3 * i]);                   \
      const uint8* from = pointer<const uint8>(r[4 + 3 * i]);                       \
      for (uint64 b = 0; b < r[5 + 3 * i]; ++b) to[b] = from[b];                    \
    }                                                                               \
    __threadfence_system();                                                         \
    *pointer<volatile uint64>(r[0]) = r[1];                                         \
  }
