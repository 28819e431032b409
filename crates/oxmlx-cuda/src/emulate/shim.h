// A GPU of one thread, for tests: every thread of a block is a fiber that runs until it meets a barrier or a
// warp's exchange. Slow and exact; blocks run one after the other.

#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

namespace shim {

struct Index {
  unsigned x, y, z;
};

constexpr int STACK = 1 << 16;

enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Fiber {
  void* context;
  std::unique_ptr<char[]> stack;
  Index thread;
  State state;
  unsigned long long offered;
};

struct Machine {
  std::vector<Fiber> fibers;
  void* home;
  Fiber* self = nullptr;
  Index block, grid, threads;
  void (*kernel)(const unsigned long long*);
  const unsigned long long* record;
};

inline Machine machine;

// Saves where this stack is and goes on with the other one.
extern "C" void shim_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
  .text
  .weak shim_switch
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr int SAVED = 6;
#else
#error "write shim_switch for this processor"
#endif

inline void body() {
  machine.kernel(machine.record);
  machine.self->state = DONE;
  shim_switch(&machine.self->context, machine.home);
  abort();
}

inline void wait(State at) {
  machine.self->state = at;
  shim_switch(&machine.self->context, machine.home);
}

// Whether all of these that are not done wait at the same place; then they may go on.
inline bool release(Fiber* first, Fiber* last, State at) {
  bool any = false;
  for (Fiber* f = first; f != last; ++f) {
    if (f->state == DONE) continue;
    if (f->state != at) return false;
    any = true;
  }
  for (Fiber* f = first; f != last; ++f) {
    if (f->state == at) f->state = READY;
  }
  return any;
}

inline void run_block() {
  size_t n = machine.threads.x;
  if (machine.fibers.size() < n) machine.fibers.resize(n);
  Fiber* all = machine.fibers.data();
  for (size_t i = 0; i < n; ++i) {
    Fiber& f = all[i];
    if (!f.stack) f.stack.reset(new char[STACK]);
    f.thread = Index{static_cast<unsigned>(i), 0, 0};
    f.state = READY;
    // As if `body` had been called from nowhere, its return address 16-byte aligned.
    auto top = (reinterpret_cast<unsigned long long>(f.stack.get()) + STACK - 64) / 16 * 16;
    *reinterpret_cast<void (**)()>(top) = body;
    f.context = reinterpret_cast<void**>(top) - SAVED;
  }
  for (;;) {
    bool ran = false, left = false;
    for (size_t i = 0; i < n; ++i) {
      left |= all[i].state != DONE;
      if (all[i].state != READY) continue;
      machine.self = &all[i];
      shim_switch(&machine.home, all[i].context);
      ran = true;
    }
    if (!left) return;
    for (size_t w = 0; w < n; w += 32) ran |= release(all + w, all + (w + 32 < n ? w + 32 : n), AT_WARP);
    ran |= release(all, all + n, AT_BLOCK);
    if (!ran) abort();  // Threads wait at different barriers.
  }
}

// Offers a value to the warp and waits until all lanes have; lane i's is then offered(i).
inline void exchange(unsigned long long value) {
  machine.self->offered = value;
  wait(AT_WARP);
}
inline unsigned lane() { return machine.self->thread.x % 32; }
inline unsigned long long offered(unsigned of) {
  return machine.fibers[machine.self->thread.x / 32 * 32 + of].offered;
}
template <typename T>
T shuffle(T v, unsigned from) {
  unsigned long long bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  exchange(bits);
  bits = offered(from);
  wait(AT_WARP);  // Nobody offers anew before all have read.
  std::memcpy(&v, &bits, sizeof(T));
  return v;
}

}  // namespace shim

#define threadIdx (shim::machine.self->thread)
#define blockIdx (shim::machine.block)
#define blockDim (shim::machine.threads)
#define gridDim (shim::machine.grid)

inline void __syncthreads() { shim::wait(shim::AT_BLOCK); }
inline void __syncwarp(unsigned = ~0u) { shim::wait(shim::AT_WARP); }
inline void __threadfence() {}
template <typename T>
T __shfl_sync(unsigned, T v, int from) {
  return shim::shuffle(v, from % 32);
}
template <typename T>
T __shfl_xor_sync(unsigned, T v, int by) {
  return shim::shuffle(v, shim::lane() ^ by);
}
template <typename T>
T __shfl_down_sync(unsigned, T v, int by) {
  return shim::shuffle(v, shim::lane() + by < 32 ? shim::lane() + by : shim::lane());
}
template <typename T>
T __shfl_up_sync(unsigned, T v, int by) {
  return shim::shuffle(v, static_cast<int>(shim::lane()) >= by ? shim::lane() - by : shim::lane());
}
inline unsigned __match_any_sync(unsigned, unsigned v) {
  shim::exchange(v);
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; ++i) mask |= (shim::offered(i) == v ? 1u : 0u) << i;
  shim::wait(shim::AT_WARP);
  return mask;
}
inline unsigned __ballot_sync(unsigned, int v) {
  shim::exchange(v != 0);
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; ++i) mask |= static_cast<unsigned>(shim::offered(i)) << i;
  shim::wait(shim::AT_WARP);
  return mask;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
template <typename T>
T atomicAdd(T* p, T v) {
  T old = *p;
  *p = old + v;
  return old;
}
template <typename T>
T atomicMax(T* p, T v) {
  T old = *p;
  if (v > old) *p = v;
  return old;
}

extern "C" void emulate(void (*kernel)(const unsigned long long*), const unsigned long long* record,
                        const unsigned* grid, unsigned threads) {
  shim::machine.kernel = kernel;
  shim::machine.record = record;
  shim::machine.grid = shim::Index{grid[0], grid[1], grid[2]};
  shim::machine.threads = shim::Index{threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        shim::machine.block = shim::Index{x, y, z};
        shim::run_block();
      }
}
