// One operation on long arrays through registers: every thread has UNROLL packs of each input in
// flight before it stores the first. Blocks take tiles in turn, so that those which run together
// work in one narrow window of memory; a grid of as many blocks as tiles takes one each.
//
//   stream(a, b, c, s, count, passes, ahead)   c = a + s b and its kin (see access.cuh), `count`
//                                              elements
//
// With PREFETCH=n every n-th block asks L2 for the inputs of n tiles which lie `ahead` blocks on, in
// one piece: DRAM reads long stretches, and turns from reading to writing less often. Compute
// capability 9.0 and later.
//
// Arrays that stay in L2 are gone through `passes` times, since one pass would be over before the
// launch is. Blocks go on from pass to pass without a stop, so that none idles at the end of each.
// With SHARE=n the n blocks of a cluster read every tile together, each a pass of its own: what
// SMs side by side ask for at once, L2 sends once. Sums only, compute capability 9.0 and later.

#include "bandwidth/access.cuh"

#ifndef PREFETCH
#define PREFETCH 0
#endif
#ifndef SHARE
#define SHARE 1
#endif

constexpr int kTile = THREADS * UNROLL;  // packs

#if PREFETCH
DEVICE void prefetch(const Pack* from) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from),
               "r"(u32(PREFETCH * kTile * PACK_BYTES))
               : "memory");
}
#endif

DEVICE void meet() {
#if SHARE > 1 && defined(SYNC) && SYNC
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

DEVICE void one_tile(const Stream& w, i64 first, Totals& totals) {
  Pack a[UNROLL] = {}, b[UNROLL] = {};
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    if constexpr (kReadsA) a[i] = load(w.a + first + i * THREADS, w.policy);
    if constexpr (kReadsB) b[i] = load(w.b + first + i * THREADS, w.policy);
  }
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) {
    const Pack c = apply(a[i], b[i], w.s, totals);
    if constexpr (!kReduces) store(w.c + first + i * THREADS, c, w.policy);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stream(const Pack* a, const Pack* b, Pack* c, double s, i64 count, u32 passes, u32 ahead) {
  const Stream w = {a, b, c, Format::splat(s), evict_first()};
  const u32 tiles = u32(u64(count) / (kElements * kTile));
#if PREFETCH
  const u64 later = u64(blockIdx.x) + ahead;
  if (blockIdx.x % PREFETCH == 0 && threadIdx.x == 0 && later + PREFETCH <= tiles) {
    if constexpr (kReadsA) prefetch(a + later * kTile);
    if constexpr (kReadsB) prefetch(b + later * kTile);
  }
#endif
  Totals totals = {};
  const u32 groups = gridDim.x / SHARE, group = blockIdx.x / SHARE, rank = blockIdx.x % SHARE;
  u32 turn = group;
#pragma unroll 1
  for (u32 pass = rank; pass < passes; pass += SHARE) {
    if (pass + SHARE >= passes) totals = {};  // Sums are those of a block's last pass.
#pragma unroll 1
    for (; turn < tiles; turn += groups) {
      meet();
      one_tile(w, i64(turn) * kTile + threadIdx.x, totals);
    }
    turn -= tiles;
    if (pass / SHARE % groups == group) finish(w, i64(tiles) * kTile, count, totals);
  }
  if (SHARE > 1 && rank != 0) totals = {};  // Each block of a cluster has the same.
  if constexpr (kReduces) write_partial_sum(totals, (Sum*)c);
}
