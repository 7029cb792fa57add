// C[m,n] = A[m,k] B for every format, shape, layout and architecture: scalar loads, each checked,
// widened to the format of the sum on their way into shared memory. The net under the fast paths.
//
// -DDTYPE=fp16 ... names the format; -DLAYOUT_NN=1 reads B as k rows of n, else as n rows of k.
// Launch: ceil(m / 64) * ceil(n / 64) blocks of 256 threads; a thread owns 4 x 4 numbers of C;
// times the number of products with BATCH=1.

#include "common/types.cuh"
#include "common/raster.cuh"
#include "common/batch.cuh"

#define TILE 64
#define TILE_K 16
#define THREADS 256

typedef DTYPE::Stored Stored;
typedef DTYPE::Sum Sum;

// Rows [first, first + 64) of an operand stored as `rows` rows of k, to panel[k][row].
__device__ void stage_rows(Sum (*panel)[TILE + 1], const Stored* operand, int first, int rows, int k,
                       int k0) {
  const int depth = threadIdx.x % TILE_K;
  for (int r = threadIdx.x / TILE_K; r < TILE; r += THREADS / TILE_K) {
    const bool inside = first + r < rows && k0 + depth < k;
    panel[depth][r] = inside ? DTYPE::widen(operand[i64(first + r) * k + k0 + depth]) : Sum(0);
  }
}

// Columns [first, first + 64) of B stored as k rows of n.
__device__ void stage_columns(Sum (*panel)[TILE + 1], const Stored* operand, int first, int n, int k,
                          int k0) {
  const int column = threadIdx.x % TILE;
  for (int depth = threadIdx.x / TILE; depth < TILE_K; depth += THREADS / TILE) {
    const bool inside = first + column < n && k0 + depth < k;
    panel[depth][column] =
        inside ? DTYPE::widen(operand[i64(k0 + depth) * n + first + column]) : Sum(0);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_simt(const Stored* __restrict__ a, const Stored* __restrict__ b,
              DTYPE::Result* __restrict__ c, int m, int n, int k) {
  // An odd pitch keeps the stores of `stage_rows`, 16 apart in depth, out of each other's banks.
  __shared__ Sum panel_a[TILE_K][TILE + 1], panel_b[TILE_K][TILE + 1];
  TO_OWN_PRODUCT(a, b, c, m, n, k);
  const Tile tile = tile_of_block(tiles_of(m, TILE), tiles_of(n, TILE));
  const int m0 = tile.row * TILE, n0 = tile.column * TILE;
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  Sum sum[4][4] = {};

  for (int k0 = 0; k0 < k; k0 += TILE_K) {
    stage_rows(panel_a, a, m0, m, k, k0);
#if LAYOUT_NN
    stage_columns(panel_b, b, n0, n, k, k0);
#else
    stage_rows(panel_b, b, n0, n, k, k0);
#endif
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < TILE_K; ++depth)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] += panel_a[depth][row + 16 * i] * panel_b[depth][column + 16 * j];
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = m0 + row + 16 * i, s = n0 + column + 16 * j;
      if (r < m && s < n) c[i64(r) * n + s] = DTYPE::narrow(sum[i][j]);
    }
}
