// Reads an array that stays in each SM's L1, `passes` times over, and adds up its 32-bit words.
// Every block reads the whole array: launch one block an SM, with LOAD=l1 and an array of whole
// tiles that is smaller than L1.
//
//   l1(a, sums, packs, passes)   sums[block] = passes x sum of the 32-bit words, mod 2^32

#include "bandwidth/access.cuh"

constexpr u32 kTile = THREADS * UNROLL;

DEVICE void add_tile(const Pack* from, u32 (&words)[kWords]) {
  Pack a[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) a[i] = load(from + i * THREADS, 0);
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
#pragma unroll
    for (int word = 0; word < kWords; ++word) words[word] += a[i].word[word];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    l1(const Pack* a, u32* sums, i64 packs, u32 passes) {
  const u32 tiles = u32(u64(packs) / kTile);
  u32 words[kWords] = {};
#pragma unroll 1
  for (u32 pass = 0; pass < passes; ++pass)
#pragma unroll 1
    for (u32 tile = 0; tile < tiles; ++tile) add_tile(a + tile * kTile + threadIdx.x, words);
  Totals totals;
#pragma unroll
  for (int word = 0; word < kWords; ++word) totals.unit[word] = words[word];
  write_partial_sum(totals, sums);
}
