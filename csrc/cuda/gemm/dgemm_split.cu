// C[m,n] = A[m,k] B in fp64 on tensor cores for sm_90a: eight warps do nothing but multiply, four copy
// for them and give up their registers, so that no warp waits for all others.
//
// Macros: those of dgemm.cuh, STAGES 2 or more.
// Launch: ceil(m / 128) * ceil(n / 128) blocks of 384 threads. Rows must be shorter than 2^24.

#include "gemm/dgemm.cuh"
#include "common/handover.cuh"

constexpr int copy_threads = 128;
static_assert(SHARED_BYTES == STAGES * (stage_bytes + 16), "launch and kernel differ");

DEVICE void produce(RowCopier<copy_threads>& copier_a, CopierB<copy_threads>& copier_b, u32 ring,
                    u32 barriers, int n, int k) {
  Slot slot;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += tile_k, slot.advance()) {
    const u32 stage = ring + slot.index * stage_bytes;
    barrier_wait(empty(barriers, slot.index), slot.parity ^ 1);
    copier_a.copy(stage, k0, n, k);
    copier_b.copy(stage + panel_a_bytes, k0, n, k);
    arrive_with_copies(full(barriers, slot.index));
  }
  asm volatile("cp.async.wait_all;");
}

// Fragments are loaded while the ones before are multiplied, across stages too.
DEVICE void consume(double (&sum)[blocks_m][blocks_n][4], u32 ring, u32 barriers, int row0,
                    int column0, int k) {
  FragmentA fragment_a[2];
  FragmentB fragment_b[2];
  Slot slot;
  barrier_wait(full(barriers, 0), 0);
  load_a(fragment_a[0], ring, row0, 0);
  load_b(fragment_b[0], ring + panel_a_bytes, column0, 0);
  u32 read = ring;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += tile_k) {
    u32 next = read;
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      const bool last = group == groups - 1;
      const int group_next = (group + 1) % groups;
      const int b_now = groups == 1 ? 0 : group % 2;
#pragma unroll
      for (int i = 0; i < blocks_m; ++i) {
        if (last && i == blocks_m - 1) {
          __syncwarp();
          if (threadIdx.x % 32 == 0) barrier_arrive(empty(barriers, slot.index));
          slot.advance();
          next = ring + slot.index * stage_bytes;
          if (k0 + tile_k < k) barrier_wait(full(barriers, slot.index), slot.parity);
        }
        if (i < blocks_m - 1) {
          load_a(fragment_a[(i + 1) % 2], read, row0 + 16 * (i + 1), group);
        } else {
          load_a(fragment_a[0], next, row0, group_next);
          if (groups > 1) load_b(fragment_b[1 - b_now], next + panel_a_bytes, column0, group_next);
        }
#pragma unroll
        for (int j = 0; j < blocks_n; ++j)
          mma(sum[i][j], fragment_a[i % 2].a, fragment_b[b_now].b[j]);
      }
      if (groups == 1) load_b(fragment_b[0], next + panel_a_bytes, column0, 0);
    }
    read = next;
  }
}

extern "C" __global__ void __launch_bounds__(math_threads + copy_threads, 1)
    gemm_dgemm_split(const double* __restrict__ a, const double* __restrict__ b,
                     double* __restrict__ c, int m, int n, int k) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const u32 barriers = ring + STAGES * stage_bytes;
  const Tile place = tile_of_block(tiles_of(m, tile), tiles_of(n, tile));
  const int m0 = place.row * tile, n0 = place.column * tile;
  if (threadIdx.x == 0)
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(full(barriers, slot), copy_threads);
      barrier_init(empty(barriers, slot), math_threads / 32);
    }
  __syncthreads();

  if (threadIdx.x >= math_threads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int thread = threadIdx.x - math_threads;
    RowCopier<copy_threads> copier_a(a, m0, m, k, thread);
    CopierB<copy_threads> copier_b(b, n0, n, k, thread);
    produce(copier_a, copier_b, ring, barriers, n, k);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    const int warp = threadIdx.x / 32;
    const int row0 = warp / 4 * warp_m, column0 = warp % 4 * warp_n;
    double sum[blocks_m][blocks_n][4] = {};
    if (k > 0) consume(sum, ring, barriers, row0, column0, k);
    store_c(c, sum, m0 + row0, n0 + column0, m, n);
  }
}
