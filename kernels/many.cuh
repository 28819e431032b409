// One launch for several records of one kernel: each block finds the record that it works on.

#pragma once

#include "common.cuh"

// The table: how many records, the words of each, the first block of each, and then the records. Every thread of
// the block calls this; `block` becomes the block's number among those of its record.
__device__ __forceinline__ Record pick(Record table, uint32& block) {
  const uint32 count = (uint32)table[0];
  uint32 at = 0;
  for (uint32 i = 0; i < count; i += 32) {
    const uint32 mine = i + (threadIdx.x & 31);
    const bool begun = mine < count && (uint32)table[2 + mine] <= blockIdx.x;
    at += __popc(__ballot_sync(0xffffffffu, begun));
  }
  block = blockIdx.x - (uint32)table[1 + at];
  return table + 2 + count + (at - 1) * (uint32)table[1];
}
