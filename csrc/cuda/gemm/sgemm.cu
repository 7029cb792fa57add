// C[m,n] = A[m,k] B in fp32 without tensor cores, for chips with `cp.async` (sm_80 on): all threads
// copy, a portion after every quarter of a stage, and multiply.
//
// Macros: those of sgemm.cuh. The loop over a quarter of STAGE_K is unrolled, and must fit the
// instruction cache next to the multiplying units.
// Launch: ceil(m / 128) * ceil(n / 256) blocks of 256 threads. Rows must be shorter than 2^24.

#include "gemm/sgemm.cuh"

constexpr int parts = 4, part_k = STAGE_K / parts;
static_assert(SHARED_BYTES == STAGES * stage_bytes, "launch and kernel differ");

template <bool full, class CopierA, class CopierB>
DEVICE void add_products(float (&sum)[16][8], CopierA copier_a, CopierB copier_b, u32 read_a,
                         u32 read_b, int k) {
  const int stages_in_k = (k + STAGE_K - 1) / STAGE_K;
  u32 write = 0;  // ring offset of the stage requested next
  for (int stage = 0; stage < STAGES - 1; ++stage, write += stage_bytes) {
    if (stage < stages_in_k)
      for (int part = 0; part < parts; ++part) {
        copier_a.template copy<full>(write, stage * STAGE_K, part);
        copier_b.template copy<full>(write, stage * STAGE_K, part);
      }
    asm volatile("cp.async.commit_group;");
  }

  // Loads run a step ahead of the products; the first products are of zeros.
  const u32 end_a = read_a + STAGES * stage_bytes;
  Fragment fragments[2] = {};
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    // Past this barrier all have read the stage before, whose place is written next.
    __syncthreads();
    const bool more = stage + STAGES - 1 < stages_in_k;
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      if (more) {
        copier_a.template copy<full>(write, (stage + STAGES - 1) * STAGE_K, part);
        copier_b.template copy<full>(write, (stage + STAGES - 1) * STAGE_K, part);
      }
#pragma unroll
      for (int step = 0; step < part_k; ++step) {
        load_fragment(fragments[step % 2], read_a + step * line_bytes, read_b + step * line_bytes);
        multiply(sum, fragments[(step + 1) % 2]);
      }
      read_a += part_k * line_bytes, read_b += part_k * line_bytes;
    }
    asm volatile("cp.async.commit_group;");
    if (read_a == end_a) read_a -= STAGES * stage_bytes, read_b -= STAGES * stage_bytes;
    write = write == (STAGES - 1) * stage_bytes ? 0 : write + stage_bytes;
  }
  multiply(sum, fragments[1]);
}

extern "C" __global__ void __launch_bounds__(math_threads, 1)
    gemm_sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
               int m, int n, int k) {
  extern __shared__ __align__(16) float memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const Tile tile = tile_of_block(tiles_of(m, tile_m), tiles_of(n, tile_n));
  const int m0 = tile.row * tile_m, n0 = tile.column * tile_n;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = warp / 4 * 64 + lane / 8 * 4, column0 = warp % 4 * 64 + lane % 8 * 4;

  float sum[16][8] = {};
  const RowCopier<tile_m, math_threads, parts> copier_a(a, ring, m0, m, k, k, threadIdx.x);
#if LAYOUT_NN
  const LineCopier<math_threads, parts> copier_b(b, ring + tile_m * 4, n0, n, k, threadIdx.x);
#else
  const RowCopier<tile_n, math_threads, parts> copier_b(b, ring + tile_m * 4, n0, n, k, k, threadIdx.x);
#endif
  const u32 read_a = ring + row0 * 4, read_b = ring + (tile_m + column0) * 4;
  if (m0 + tile_m <= m && n0 + tile_n <= n && k % STAGE_K == 0)
    add_products<true>(sum, copier_a, copier_b, read_a, read_b, k);
  else
    add_products<false>(sum, copier_a, copier_b, read_a, read_b, k);

  asm volatile("cp.async.wait_all;");
  __syncthreads();
  store_c(c, sum, ring + threadIdx.x * 16, m0 + row0, n0 + column0, m, n);
}
