// One thread follows pointers that lie in memory, each load waiting for the last: its time per
// step is the latency of wherever the chain lies. The chain is a single cycle in random order,
// so that no prefetcher and no open memory row helps.
//
//   link(base, order, count, stride)        makes the cycle order[0] -> order[1] -> ... over
//                                           `count` places `stride` bytes apart
//   touch(base, count, stride, sink)        brings every place into L2 (many threads)
//   chase(base, at, warm_up, rounds, out)   warm_up + rounds times kSteps loads from *at on, where
//                                           the next chase will begin; see Out
//
// STEP is the instruction: a load by cache level, one by a generic address (which the SM first tells
// from shared memory: what compilers emit for a pointer that was itself loaded), a volatile one for
// memory of the host, or an atomic that adds nothing.

#include "latency/clocks.cuh"

enum class Step { l1, l2, generic, host, atomic };

constexpr int kSteps = 32;

// The address that lies at `at`. Input and output are two operands: one for both costs moves.
DEVICE u64 next(u64 at) {
  u64 to;
  if constexpr (Step::STEP == Step::l1)
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(to) : "l"(at));
  if constexpr (Step::STEP == Step::l2)
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(to) : "l"(at));
  if constexpr (Step::STEP == Step::generic)
    asm volatile("ld.u64 %0, [%1];" : "=l"(to) : "l"(at));
  if constexpr (Step::STEP == Step::host)
    asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(to) : "l"(at));
  if constexpr (Step::STEP == Step::atomic)
    asm volatile("atom.global.add.u64 %0, [%1], 0;" : "=l"(to) : "l"(at) : "memory");
  return to;
}

extern "C" __global__ void link(char* base, const u32* order, i64 count, i64 stride) {
  const i64 step = i64(gridDim.x) * blockDim.x;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const u32 to = order[i + 1 < count ? i + 1 : 0];
    *(u64*)(base + i64(order[i]) * stride) = u64(base + i64(to) * stride);
  }
}

extern "C" __global__ void touch(const char* base, i64 count, i64 stride, u64* sink) {
  const i64 step = i64(gridDim.x) * blockDim.x;
  u64 sum = 0;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    u64 v;
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(base + i * stride));
    sum += v;
  }
  if (sum == 1) *sink = sum;  // Addresses are even and few: never, but the compiler cannot know.
}

extern "C" __global__ void chase(u64 base, u64* place, u32 warm_up, u32 rounds, Out* out) {
  u64 at = *place;
#pragma unroll 1
  for (u32 i = 0; i < warm_up; ++i)
#pragma unroll
    for (int step = 0; step < kSteps; ++step) at = next(at);
  const u64 ns = global_timer();
  const i64 start = clock64();
#pragma unroll 1
  for (u32 i = 0; i < rounds; ++i)
#pragma unroll
    for (int step = 0; step < kSteps; ++step) at = next(at);
  const u64 cycles = u64(clock_after(at) - start);
  *out = {cycles, global_timer() - ns, at - base};
  *place = at;
}
