// The same chase where memory is inside the SM, or in a neighbour of the cluster (compute
// capability 9.0 on): a chain linked by the block that holds it. Places in the own SM are 32-bit
// shared addresses; those of a neighbour are 64-bit generic ones, which its loads take as they are.
//
//   chase(order, count, warm_up, rounds, out)   `count` places; out as in chase.cu
//
// HOP=0 is the own SM; HOP=n reads the block n ranks on in its cluster. STEP=atomic adds nothing
// to each place instead of loading it.

#include "latency/clocks.cuh"

enum class Step { load, atomic };

constexpr int kSteps = 32;

#if HOP
typedef u64 Place;
#define SUFFIX ".u64"
#define SPACE ""
#define PLACE "l"
#else
typedef u32 Place;
#define SUFFIX ".u32"
#define SPACE ".shared"
#define PLACE "r"
#endif

extern __shared__ Place places[];

// The address that lies at `at`. Input and output are two operands: one for both costs moves.
DEVICE Place next(Place at) {
  Place to;
  if constexpr (Step::STEP == Step::load)
    asm volatile("ld" SPACE SUFFIX " %0, [%1];" : "=" PLACE(to) : PLACE(at));
  else
    asm volatile("atom" SPACE ".add" SUFFIX " %0, [%1], 0;"
                 : "=" PLACE(to)
                 : PLACE(at)
                 : "memory");
  return to;
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
DEVICE Place address(u32 place, u32 owner) {
  u64 there;
#if HOP
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(places + place), "r"(owner));
#else
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(there) : "l"(places + place));
#endif
  return Place(there);
}

extern "C" __global__ void chase(const u32* order, u32 count, u32 warm_up, u32 rounds, Out* out) {
  for (u32 i = threadIdx.x; i < count; i += blockDim.x)
    places[order[i]] = address(order[i + 1 < count ? i + 1 : 0], rank());
  wait_for_all();
  if (rank() == 0 && threadIdx.x == 0) {
    Place at = address(order[0], HOP);
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
    const u64 cycles = u64(clock_after(u64(at) + 1) - start);
    *out = {cycles, global_timer() - ns, at - address(0, HOP)};
  }
  wait_for_all();  // The neighbour's memory lives as long as the block.
}
