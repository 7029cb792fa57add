// The same chase where memory is inside the SM, or in a neighbour of the cluster (compute
// capability 9.0 on): a chain of 32-bit shared addresses, linked by the block that holds it.
//
//   chase(order, count, warm_up, rounds, out)   `count` places of 4 bytes; out as in chase.cu
//
// HOP=0 is the own SM; HOP=n reads the block n ranks on in its cluster. STEP=atomic adds nothing
// to each place instead of loading it.

#include "latency/clocks.cuh"

enum class Step { load, atomic };

constexpr int kSteps = 32;

extern __shared__ u32 places[];

DEVICE u32 next(u32 at) {
#if HOP
  if constexpr (Step::STEP == Step::load)
    asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(at));
  else
    asm volatile("atom.shared::cluster.add.u32 %0, [%0], 0;" : "+r"(at)::"memory");
#else
  if constexpr (Step::STEP == Step::load) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at));
  else asm volatile("atom.shared.add.u32 %0, [%0], 0;" : "+r"(at)::"memory");
#endif
  return at;
}

DEVICE void wait_for_all() {
#if HOP
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

DEVICE u32 rank() {
  u32 rank = 0;
#if HOP
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

// The address of `place` as block `owner` of the cluster has it; a chain holds such addresses.
DEVICE u32 address(u32 place, u32 owner) {
  u64 wide;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(wide) : "l"(places + place));
  u32 there = u32(wide);
#if HOP
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(there) : "r"(owner));
#endif
  return there;
}

extern "C" __global__ void chase(const u32* order, u32 count, i64 warm_up, i64 rounds, Out* out) {
  for (u32 i = threadIdx.x; i < count; i += blockDim.x)
    places[order[i]] = address(order[i + 1 < count ? i + 1 : 0], rank());
  wait_for_all();
  if (rank() == 0 && threadIdx.x == 0) {
    u32 at = address(order[0], HOP);
#pragma unroll 1
    for (i64 i = 0; i < warm_up; ++i)
#pragma unroll
      for (int step = 0; step < kSteps; ++step) at = next(at);
    const u64 ns = global_timer();
    const i64 start = clock64();
#pragma unroll 1
    for (i64 i = 0; i < rounds; ++i)
#pragma unroll
      for (int step = 0; step < kSteps; ++step) at = next(at);
    const u64 cycles = u64(clock_after(u64(at) + 1) - start);
    *out = {cycles, global_timer() - ns, at - address(0, HOP)};
  }
  wait_for_all();  // The neighbour's memory lives as long as the block.
}
