// Reads an array that stays in a cache, `passes` times over, and adds up its 32-bit words.
//
//   resident(a, sums, packs, passes)   sums[block] = passes x (sum of the words it read), mod 2^32
//
// LEVEL_L2: all blocks share one array; from pass to pass a block moves on by some tiles, and
// LOAD=l2 keeps L1 out of it. Otherwise each block has `packs` packs of its own, small enough for
// its SM's L1 with LOAD=l1. What fills no tile is not read: choose `packs` as whole tiles.

#include "bandwidth/access.cuh"

constexpr u32 kTile = THREADS * UNROLL;

DEVICE void add_tile(const Pack* from, u32 (&sums)[kWords]) {
  Pack a[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) a[i] = load(from + i * THREADS, 0);
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
#pragma unroll
    for (int word = 0; word < kWords; ++word) sums[word] += a[i].word[word];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    resident(const Pack* a, u32* sums, i64 packs, int passes) {
  const u32 tiles = u32(u64(packs) / kTile);
  u32 words[kWords] = {};
#if LEVEL_L2
  const u32 first = blockIdx.x, step = gridDim.x;
#else
  const u32 first = 0, step = 1;
  a += blockIdx.x * packs;
#endif
  u32 shift = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (u32 turn = first; turn < tiles; turn += step) {
      const u32 tile = turn + shift < tiles ? turn + shift : turn + shift - tiles;
      add_tile(a + i64(tile) * kTile + threadIdx.x, words);
    }
#if LEVEL_L2
    shift = (shift + gridDim.x / 2 + 1) % tiles;  // Not where this block has just been.
#endif
  }
  Totals totals;
#pragma unroll
  for (int word = 0; word < kWords; ++word) totals.unit[word] = words[word];
  write_partial_sum(totals, sums);
}
