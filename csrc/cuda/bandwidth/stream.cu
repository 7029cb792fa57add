// One operation on long arrays through registers: every thread has UNROLL packs of each input in
// flight before it stores the first. Blocks take tiles in turn, so that those which run together
// work in one narrow window of memory; a grid of as many blocks as tiles takes one each.
//
//   stream(a, b, c, s, count, passes)   c = a + s b and its kin (see access.cuh), `count` elements
//
// Arrays that stay in L2 are gone through `passes` times, since one pass would be over before the
// launch is. Blocks go on from pass to pass without a stop, so that none idles at the end of each.

#include "bandwidth/access.cuh"

constexpr int kTile = THREADS * UNROLL;  // packs

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
    stream(const Pack* a, const Pack* b, Pack* c, double s, i64 count, u32 passes) {
  const Stream w = {a, b, c, Format::splat(s), evict_first()};
  const u32 tiles = u32(u64(count) / (kElements * kTile));
  Totals totals = {};
  u32 tile = blockIdx.x;
#pragma unroll 1
  for (u32 pass = 0; pass < passes; ++pass) {
    if (pass + 1 == passes) totals = {};  // Sums are those of the last pass.
#pragma unroll 1
    for (; tile < tiles; tile += gridDim.x)
      one_tile(w, i64(tile) * kTile + threadIdx.x, totals);
    tile -= tiles;
    if (pass % gridDim.x == blockIdx.x) finish(w, i64(tiles) * kTile, count, totals);
  }
  if constexpr (kReduces) write_partial_sum(totals, (Sum*)c);
}
