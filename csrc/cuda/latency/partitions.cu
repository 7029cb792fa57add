// How far each SM is from each line: one thread a SM loads a line, which points at itself, again
// and again past L1. SMs begin at different lines, so that at no time two of them share one.
//
//   partitions(base, lines, stride, rounds, cycles)   cycles[sm * lines + line] of one load x 16
//
// Launch one block of one thread for every SM; a block with a second on its SM reports the same.

#include "latency/clocks.cuh"

constexpr int kSteps = 16;

DEVICE u64 follow(u64 at) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    u64 to;
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(to) : "l"(at));
    at = to;
  }
  return at;
}

extern "C" __global__ void partitions(char* base, u32 lines, i64 stride, u32 rounds, u32* cycles) {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  for (u32 turn = 0; turn < lines; ++turn) {
    const u32 line = (sm * 7 + turn) % lines;
    u64 at = follow(u64(base + i64(line) * stride));
    u32 best = 0xffffffffu;
    for (u32 round = 0; round < rounds; ++round) {
      const u32 start = u32(clock64());
      at = follow(at);
      const u32 taken = u32(clock_after(at)) - start;
      best = taken < best ? taken : best;
    }
    cycles[sm * lines + line] = best;
  }
}
