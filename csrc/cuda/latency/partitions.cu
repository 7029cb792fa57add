// How far lines of L2 are from each SM. On large chips L2 lies in two parts. A line has its home in
// one of them; an SM of the other part that asks for it is served from there once, and leaves a copy
// in its own part.
//
//   place(base, lines, stride)                    every line holds its own address
//   touch(base, lines, stride, sink)              one SM asks for all lines: its part has them
//   firsts(base, lines, stride, sms, cycles)      cycles[s * lines + i] of the first load of line i of
//                                                 SM s's own lines, cycles[(sms + s) * lines + i] of
//                                                 the second
//   again(base, lines, stride, sms, rounds, cycles)
//                                                 cycles[s * lines + i] of kSteps loads in a row
//
// Launch `touch` with one block; `firsts` and `again` with a block of one thread for every SM. Each SM
// has `lines` of its own, so that none finds the copy that another left; one whose number is `sms` or
// more, which may be where many are fused off, is left out.

#include "latency/clocks.cuh"

constexpr int kSteps = 16;

// A load past L1.
DEVICE u64 load(u64 at) {
  u64 to;
  asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(to) : "l"(at));
  return to;
}

DEVICE u64 follow(u64 at) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) at = load(at);
  return at;
}

extern "C" __global__ void place(u64 base, u32 lines, i64 stride) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x)
    *(u64*)(base + i * stride) = base + i * stride;
}

extern "C" __global__ void touch(u64 base, u32 lines, i64 stride, u64* sink) {
  u64 sum = 0;
  for (u32 i = threadIdx.x; i < lines; i += blockDim.x) sum += load(base + i * stride);
  if (sum == 1) *sink = sum;  // Addresses are even and few: never, but the compiler cannot know.
}

DEVICE u32 this_sm() {
  u32 sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  return sm;
}

extern "C" __global__ void firsts(u64 base, u32 lines, i64 stride, u32 sms, u32* cycles) {
  const u32 sm = this_sm();
  if (sm >= sms) return;
  const u64 own = base + i64(sm) * lines * stride;
#pragma unroll 1
  for (u32 turn = 0; turn < 2; ++turn) {
#pragma unroll 1
    for (u32 i = 0; i < lines; ++i) {
      const u32 start = u32(clock64());
      const u64 at = load(own + i * stride);
      cycles[(turn * sms + sm) * lines + i] = u32(clock_after(at)) - start;
    }
  }
}

extern "C" __global__ void again(u64 base, u32 lines, i64 stride, u32 sms, u32 rounds,
                                 u32* cycles) {
  const u32 sm = this_sm();
  if (sm >= sms) return;
  const u64 own = base + i64(sm) * lines * stride;
#pragma unroll 1
  for (u32 i = 0; i < lines; ++i) {
    u64 at = follow(own + i * stride);
    u32 best = 0xffffffffu;
#pragma unroll 1
    for (u32 round = 0; round < rounds; ++round) {
      const u32 start = u32(clock64());
      at = follow(at);
      const u32 taken = u32(clock_after(at)) - start;
      best = taken < best ? taken : best;
    }
    cycles[sm * lines + i] = best;
  }
}
