// C[m,n] = A[m,k] B in fp64 on tensor cores, for chips with `cp.async`: all threads copy and multiply.
// Of A a warp holds two row blocks in registers, one being multiplied and one being loaded.
//
// Macros: those of dgemm.cuh, STAGES 3 or more.
// Launch: ceil(m / 128) * ceil(n / 128) blocks of 256 threads. Rows must be shorter than 2^24.

#include "gemm/dgemm.cuh"

static_assert(SHARED_BYTES == STAGES * stage_bytes, "launch and kernel differ");

extern "C" __global__ void __launch_bounds__(math_threads, 1)
    gemm_dgemm(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c,
               int m, int n, int k) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const Tile place = tile_of_block(tiles_of(m, tile), tiles_of(n, tile));
  const int m0 = place.row * tile, n0 = place.column * tile;
  const int warp = threadIdx.x / 32;
  const int row0 = warp / 4 * warp_m, column0 = warp % 4 * warp_n;
  const int stages_in_k = (k + tile_k - 1) / tile_k;

  RowCopier<math_threads> copier_a(a, m0, m, k, threadIdx.x);
  CopierB<math_threads> copier_b(b, n0, n, k, threadIdx.x);
  int requested = 0;
  u32 write = ring;
  auto request_stage = [&] {
    if (requested < stages_in_k) {
      copier_a.copy(write, requested * tile_k, n, k);
      copier_b.copy(write + panel_a_bytes, requested * tile_k, n, k);
    }
    ++requested;
    write = write == ring + (STAGES - 1) * stage_bytes ? ring : write + stage_bytes;
    asm volatile("cp.async.commit_group;");
  };

  double sum[blocks_m][blocks_n][4] = {};
  FragmentA fragment_a[2];
  FragmentB fragment_b[2];
  for (int stage = 0; stage < STAGES - 1; ++stage) request_stage();
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
  __syncthreads();
  u32 read = ring, next = ring;
  load_a(fragment_a[0], read, row0, 0);
  load_b(fragment_b[0], read + panel_a_bytes, column0, 0);
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      const int b_now = groups == 1 ? 0 : group % 2, b_next = groups == 1 ? 0 : 1 - b_now;
      if (group == groups - 1) {
        // From here on every warp is past the stage before this one, whose place is written next.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3));
        __syncthreads();
        next = read == ring + (STAGES - 1) * stage_bytes ? ring : read + stage_bytes;
        request_stage();
      }
      const int group_next = (group + 1) % groups;
      if (groups > 1) load_b(fragment_b[b_next], next + panel_a_bytes, column0, group_next);
#pragma unroll
      for (int i = 0; i < blocks_m; ++i) {
        if (i < blocks_m - 1) load_a(fragment_a[(i + 1) % 2], read, row0 + 16 * (i + 1), group);
        else load_a(fragment_a[0], next, row0, group_next);
#pragma unroll
        for (int j = 0; j < blocks_n; ++j)
          mma(sum[i][j], fragment_a[i % 2].a, fragment_b[b_now].b[j]);
      }
      if (groups == 1) load_b(fragment_b[0], next + panel_a_bytes, column0, 0);
    }
    read = next;
  }
  store_c(c, sum, m0 + row0, n0 + column0, m, n);
}
