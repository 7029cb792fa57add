// One operation on long arrays through the bulk-copy engine: a ring of STAGES tiles in shared
// memory is filled by one thread while all threads work on the oldest. A copy never touches a
// register. Compute capability 9.0 and later.
//
//   stream(a, b, c, s, count, passes, ahead)   as in stream.cu, but always one pass
//
// With DRAIN_BULK the result goes back over a's tile and leaves by the engine, else each thread
// stores its own. A stage that leaves by the engine is refilled LAG tiles later, when it was read.
// Blocks of a sum take whichever tile is next, so that none is left with work when others have none
// (an H200 gains 0.3 percent of 4 GiB); two launches must not overlap, since they share the count.

#include "bandwidth/access.cuh"
#include "common/bulk.cuh"

constexpr int kInputs = int(kReadsA) + int(kReadsB);
constexpr u32 kTileBytes = TILE_BYTES;
constexpr int kTilePacks = TILE_BYTES / PACK_BYTES;
constexpr bool kDrainBulk = DRAIN_BULK && !kReduces;
constexpr u32 kLag = STAGES / 2;

#if __CUDA_ARCH__ >= 900
extern __shared__ __align__(128) Pack ring[];
// Tiles of a sum that were taken, and blocks that found none left; zero between launches.
__device__ u32 taken, ended;

struct Ring {
  u32 full;  // address of the first of STAGES barriers
  u32 tiles, turns;  // of the array, and of this block

  DEVICE i64 tile(u32 turn) const { return blockIdx.x + i64(turn) * gridDim.x; }
  DEVICE Pack* stage(u32 turn) const { return ring + turn % STAGES * (kInputs * kTilePacks); }
  DEVICE u32 barrier(u32 turn) const { return full + turn % STAGES * 8; }
};

DEVICE void fetch(const Stream& w, const Ring& r, u32 turn, i64 tile) {
  const i64 at = tile * kTilePacks;
  const u32 barrier = r.barrier(turn), to = shared_address(r.stage(turn));
  barrier_expect(barrier, kInputs * kTileBytes);
  if constexpr (kLoad == Load::first) {
    bulk_load(to, w.a + at, kTileBytes, barrier, w.policy);
    if constexpr (kReadsB) bulk_load(to + kTileBytes, w.b + at, kTileBytes, barrier, w.policy);
  } else {
    bulk_load(to, w.a + at, kTileBytes, barrier);
    if constexpr (kReadsB) bulk_load(to + kTileBytes, w.b + at, kTileBytes, barrier);
  }
}

DEVICE void drain(const Stream& w, i64 tile, const Pack* from) {
  if constexpr (kStore == Store::first)
    bulk_store(w.c + tile * kTilePacks, shared_address(from), kTileBytes, w.policy);
  else
    bulk_store(w.c + tile * kTilePacks, shared_address(from), kTileBytes);
  bulk_commit();
}

DEVICE void work(const Stream& w, i64 tile, Pack* a, Totals& totals) {
  if constexpr (kOp == Op::copy && kDrainBulk) return;
  const Pack* b = a + kTilePacks;
#pragma unroll 8
  for (int i = threadIdx.x; i < kTilePacks; i += THREADS) {
    const Pack c = apply(a[i], kReadsB ? b[i] : Pack{}, w.s, totals);
    if constexpr (kDrainBulk) a[i] = c;
    else if constexpr (!kReduces) store(w.c + tile * kTilePacks + i, c, w.policy);
  }
  if constexpr (kDrainBulk) fence_async();
}

DEVICE void write_tiles(const Stream& w, const Ring& r) {
  Totals none;
  for (int i = threadIdx.x; i < kTilePacks; i += THREADS) ring[i] = apply({}, {}, w.s, none);
  fence_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (u32 turn = 0; turn < r.turns; ++turn) {
    drain(w, r.tile(turn), ring);
    bulk_wait_read<STAGES>();
  }
  bulk_wait_read<0>();
}

DEVICE void pass_tiles(const Stream& w, const Ring& r, Totals& totals) {
  if (threadIdx.x == 0)
    for (u32 turn = 0; turn < STAGES && turn < r.turns; ++turn) fetch(w, r, turn, r.tile(turn));
  for (u32 turn = 0; turn < r.turns; ++turn) {
    barrier_wait(r.barrier(turn), turn / STAGES & 1);
    work(w, r.tile(turn), r.stage(turn), totals);
    __syncthreads();
    if (threadIdx.x != 0) continue;
    u32 next = turn + STAGES;
    if constexpr (kDrainBulk) {
      drain(w, r.tile(turn), r.stage(turn));
      bulk_wait_read<kLag>();
      if (turn < kLag) continue;
      next -= kLag;
    }
    if (next < r.turns) fetch(w, r, next, r.tile(next));
  }
  if (kDrainBulk && threadIdx.x == 0) bulk_wait_read<0>();
}

DEVICE void sum_tiles(const Stream& w, const Ring& r, Totals& totals) {
  __shared__ u32 tiles[STAGES];
  u32 next = threadIdx.x == 0 ? atomicAdd(&taken, 1) : 0;
  const auto take = [&](u32 turn) {
    tiles[turn % STAGES] = next;
    if (next < r.tiles) fetch(w, r, turn, next);
    else barrier_arrive(r.barrier(turn));
    next = atomicAdd(&taken, 1);  // Asked for a turn ahead, so that nobody waits for the answer.
  };
  if (threadIdx.x == 0)
    for (u32 turn = 0; turn < STAGES; ++turn) take(turn);
#pragma unroll 1
  for (u32 turn = 0;; ++turn) {
    barrier_wait(r.barrier(turn), turn / STAGES & 1);
    const u32 tile = tiles[turn % STAGES];
    if (tile >= r.tiles) break;
    work(w, tile, r.stage(turn), totals);
    __syncthreads();
    if (threadIdx.x == 0) take(turn + STAGES);
  }
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicInc(&ended, gridDim.x - 1) == gridDim.x - 1) taken = 0;
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    stream(const Pack* a, const Pack* b, Pack* c, double s, i64 count, u32, u32) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(8) u64 barriers[STAGES];
  const Stream w = {a, b, c, Format::splat(s), evict_first()};
  const u32 tiles = u32(u64(count) / (kElements * kTilePacks));
  const u32 turns = blockIdx.x < tiles ? (tiles - blockIdx.x - 1) / gridDim.x + 1 : 0;
  const Ring r = {shared_address(barriers), tiles, turns};
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) barrier_init(r.full + 8 * i, 1);
    barrier_init_fence();
  }
  __syncthreads();
  Totals totals = {};
  if constexpr (kOp == Op::write) write_tiles(w, r);
  else if constexpr (kReduces) sum_tiles(w, r, totals);
  else pass_tiles(w, r, totals);
  if (tiles % gridDim.x == blockIdx.x) finish(w, i64(tiles) * kTilePacks, count, totals);
  if constexpr (kReduces) write_partial_sum(totals, (Sum*)c);
#endif
}
