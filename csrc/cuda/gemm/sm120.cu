// C[m,n] = A[m,k] B[n,k]^T where TMA and `mma.sync` are what there is: GeForce and workstation
// Blackwell (sm_120), and data-centre Blackwell (sm_100) without its own tensor memory. One thread
// fetches panels by TMA into a ring, the other warps multiply; nobody waits for all of a block.
//
// Nothing in it needs an architecture's `a` variant, so it also runs on Hopper.
//
// Macros: those of panels.cuh with LAYOUT_NN=0 and ROW_BYTES=128, the span of TMA's swizzle, which
// is that of k_major_offset; STAGES; SHARED_BYTES as the launch gives it.
// Tensor maps: 128-byte swizzle, boxes of 128 bytes of k by TILE_M rows of A, by TILE_N rows of B.
// Launch: ceil(m / TILE_M) * ceil(n / TILE_N) blocks of 32 * (WARPS_M * WARPS_N + 1) threads.

#include "common/handover.cuh"
#include "gemm/mma.cuh"

static_assert(ROW_BYTES == 128 && steps % 2 == 0 && !LAYOUT_NN, "panels as TMA leaves them");

struct alignas(64) TensorMap {
  u64 words[16];
};

constexpr int panel_a_bytes = TILE_M * ROW_BYTES;
constexpr int stage_bytes = panel_a_bytes + TILE_N * ROW_BYTES;
static_assert(SHARED_BYTES == STAGES * (stage_bytes + 16), "launch and kernel differ");

// A shared::cluster address would make the assembler add a call on sm_120.
DEVICE void fetch(u32 to, const TensorMap& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

DEVICE void produce(const TensorMap& map_a, const TensorMap& map_b, u32 ring, u32 barriers, int m0,
                    int n0, int stages_in_k) {
  Slot slot;
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage, slot.advance()) {
    const u32 panel = ring + slot.index * stage_bytes, ready = full(barriers, slot.index);
    barrier_wait(empty(barriers, slot.index), slot.parity ^ 1);
    barrier_expect(ready, stage_bytes);
    fetch(panel, map_a, stage * tile_k, m0, ready);
    fetch(panel + panel_a_bytes, map_b, stage * tile_k, n0, ready);
  }
}

extern "C" __global__ void __launch_bounds__(threads + 32)
    gemm_sm120(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               Result* __restrict__ c, int m, int n, int k) {
  extern __shared__ __align__(1024) u8 memory[];  // The swizzle counts from multiples of 1024.
  const u32 ring = shared_address(memory), barriers = ring + STAGES * stage_bytes;
  const Tile tile = tile_of_block(tiles_of(m, TILE_M), tiles_of(n, TILE_N));
  const int m0 = tile.row * TILE_M, n0 = tile.column * TILE_N;
  const int stages_in_k = (k + tile_k - 1) / tile_k;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(full(barriers, slot), 1);
      barrier_init(empty(barriers, slot), WARPS_M * WARPS_N);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (warp == WARPS_M * WARPS_N) {
    if (threadIdx.x % 32 == 0) produce(map_a, map_b, ring, barriers, m0, n0, stages_in_k);
    return;
  }

  const int row0 = warp / WARPS_N * warp_m, column0 = warp % WARPS_N * warp_n;
  Sums sums = {};
  Fragments fragments[2];
  Slot slot;
  auto load = [&](Fragments& into, int step) {
    const u32 stage = ring + slot.index * stage_bytes;
    load_a(into, stage, row0, step);
    load_b<true>(into, stage + panel_a_bytes, column0, step);
  };
  if (stages_in_k > 0) {
    barrier_wait(full(barriers, 0), 0);
    load(fragments[0], 0);
  }
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
#pragma unroll
    for (int step = 0; step < steps - 1; ++step) {
      load(fragments[(step + 1) % 2], step + 1);
      multiply(sums, fragments[step % 2]);
    }
    // All of this stage lies in registers; the arrival comes after those reads.
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(barriers, slot.index));
    slot.advance();
    if (stage + 1 < stages_in_k) barrier_wait(full(barriers, slot.index), slot.parity);
    load(fragments[steps % 2], 0);  // Past the last stage: what is read there is old, and not used.
    multiply(sums, fragments[(steps - 1) % 2]);
  }
  store_c(c, sums, m0 + row0, n0 + column0, m, n);
}
