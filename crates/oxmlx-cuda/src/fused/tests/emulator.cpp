// The scheduler of the emulator, and its main program. See emulator.h.

#include "emulator.h"

typedef unsigned long long Word;
typedef void (*Entry)(const Word*);
struct Named {
  const char* name;
  Entry entry;
};
extern Named all_kernels[];

Index threadIdx, blockIdx, blockDim, gridDim;

// 0 runs, 1 waits for the block, 2 waits for its warp, 3 has ended.
struct Fibre {
  ucontext_t context;
  int state;
  unsigned exchanged;
};
static Fibre fibres[1024];
static ucontext_t scheduler;
static unsigned current, slots[1024][2];
static Entry entry;
static const Word* record;
static char* stacks;
static const size_t STACK = 256 << 10;

void emulator_yield(int state) {
  fibres[current].state = state;
  const unsigned me = current;
  swapcontext(&fibres[me].context, &scheduler);
}

unsigned emulator_shuffle(unsigned value, unsigned lane, bool exclusive_or) {
  const unsigned me = current, parity = fibres[me].exchanged++ & 1;
  slots[me][parity] = value;
  emulator_yield(2);
  const unsigned from = exclusive_or ? me ^ lane : (me & ~31u) | (lane & 31);
  return slots[from][parity];
}

static void run_one() {
  entry(record);
  fibres[current].state = 3;
}

static void run_block(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    getcontext(&fibres[i].context);
    fibres[i].context.uc_stack.ss_sp = stacks + i * STACK;
    fibres[i].context.uc_stack.ss_size = STACK;
    fibres[i].context.uc_link = &scheduler;
    fibres[i].state = 0;
    fibres[i].exchanged = 0;
    makecontext(&fibres[i].context, run_one, 0);
  }
  for (;;) {
    for (current = 0; current < threads; ++current) {
      if (fibres[current].state != 0) continue;
      threadIdx.x = current;
      const unsigned me = current;
      swapcontext(&scheduler, &fibres[me].context);
      current = me;
    }
    bool moved = false, ended = true, all = true;
    for (unsigned w = 0; w < threads; w += 32) {
      bool together = true;
      for (unsigned i = w; i < w + 32 && i < threads; ++i) together &= fibres[i].state == 2;
      for (unsigned i = w; i < w + 32 && i < threads; ++i) {
        if (together) fibres[i].state = 0;
        moved |= together;
        ended &= fibres[i].state == 3;
        all &= fibres[i].state == 1 || fibres[i].state == 3;
      }
    }
    if (ended) return;
    if (all) {
      for (unsigned i = 0; i < threads; ++i) {
        if (fibres[i].state == 1) fibres[i].state = 0;
      }
      moved = true;
    }
    if (!moved) {
      fprintf(stderr, "threads wait for each other\n");
      exit(3);
    }
  }
}

static Word next(FILE* f) {
  Word w;
  if (fread(&w, 8, 1, f) != 1) exit(4);
  return w;
}

// Jobs: count; then each: name's length and bytes, whether threads need each other, blocks, threads, words,
// and (whether it is an address, value) each. Then the image: bytes, contents.
int main(int, char** argv) {
  FILE* f = fopen(argv[1], "rb");
  struct Job {
    Entry entry;
    Word together, blocks, threads;
    Word* words;
    size_t count;
    char* addresses;
  };
  const size_t jobs = next(f);
  Job* list = (Job*)calloc(jobs, sizeof(Job));
  for (size_t j = 0; j < jobs; ++j) {
    char name[256] = {};
    const size_t n = next(f);
    if (fread(name, 1, n, f) != n) return 4;
    for (Named* k = all_kernels; k->name; ++k) {
      if (!strcmp(k->name, name)) list[j].entry = k->entry;
    }
    if (!list[j].entry) return fprintf(stderr, "no kernel %s\n", name), 5;
    list[j].together = next(f);
    list[j].blocks = next(f);
    list[j].threads = next(f);
    list[j].count = next(f);
    list[j].words = (Word*)malloc(8 * list[j].count);
    list[j].addresses = (char*)malloc(list[j].count);
    for (size_t i = 0; i < list[j].count; ++i) {
      list[j].addresses[i] = (char)next(f);
      list[j].words[i] = next(f);
    }
  }
  const size_t bytes = next(f);
  char* image = (char*)aligned_alloc(4096, (bytes + 4095) & ~4095ull);
  if (fread(image, 1, bytes, f) != bytes) return 4;
  fclose(f);
  stacks = (char*)malloc(1024 * STACK);
  for (size_t j = 0; j < jobs; ++j) {
    Job& job = list[j];
    for (size_t i = 0; i < job.count; ++i) {
      if (job.addresses[i]) job.words[i] += (Word)image;
    }
    entry = job.entry;
    record = job.words;
    blockDim = {(unsigned)job.threads, 1, 1};
    gridDim = {(unsigned)job.blocks, 1, 1};
    for (unsigned b = 0; b < job.blocks; ++b) {
      blockIdx.x = b;
      if (job.together) {
        run_block(job.threads);
      } else {
        for (threadIdx.x = 0; threadIdx.x < job.threads; ++threadIdx.x) entry(record);
      }
    }
  }
  f = fopen(argv[2], "wb");
  fwrite(image, 1, bytes, f);
  fclose(f);
  return 0;
}
