// Runs generated kernels on a host: every thread of a block is a fibre, barriers and shuffles switch between
// them. A test compiles kernels together with this header; the program reads jobs and a memory image, runs
// the jobs in order, and writes the image back.

#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(n)

struct Index {
  unsigned x, y, z;
};
extern Index threadIdx, blockIdx, blockDim, gridDim;

void emulator_yield(int state);
unsigned emulator_shuffle(unsigned value, unsigned lane, bool exclusive_or);

inline void __syncthreads() { emulator_yield(1); }
inline unsigned __shfl_xor_sync(unsigned, unsigned x, unsigned mask) { return emulator_shuffle(x, mask, true); }
inline unsigned __shfl_sync(unsigned, unsigned x, unsigned lane) { return emulator_shuffle(x, lane, false); }

inline double erfinv(double x) {
  if (!(fabs(x) < 1)) return fabs(x) == 1 ? x / 0.0 : NAN;
  double low = -7, high = 7;
  for (int i = 0; i < 200; ++i) {
    const double mid = (low + high) / 2;
    (erf(mid) < x ? low : high) = mid;
  }
  return (low + high) / 2;
}
inline float erfinvf(float x) { return (float)erfinv(x); }
