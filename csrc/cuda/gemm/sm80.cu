// C[m,n] = A[m,k] B on the tensor cores of sm_80 and later: `cp.async` fills a ring of STAGES
// panels, `ldmatrix` reads fragments one step ahead of the products that use them.
//
// Macros: those of panels.cuh; STAGES; COPY_BYTES, 16 where every row of A, B and C is a multiple of
// that, 4 where rows are only multiples of 4; SHARED_BYTES as the launch gives it.
// Launch: ceil(m / TILE_M) * ceil(n / TILE_N) blocks of 32 * WARPS_M * WARPS_N threads,
// times the number of products with BATCH=1.

#include "gemm/mma.cuh"
#include "common/batch.cuh"

constexpr bool k_major_b = !LAYOUT_NN;
static_assert(k_major_b || element_bytes != 1, "1-byte formats cannot be transposed on their way");
constexpr int row_bytes_b = k_major_b ? ROW_BYTES : element_bytes == 2 ? TILE_N * 2 : padded_row_bytes;
constexpr int rows_b = k_major_b ? TILE_N : tile_k;
constexpr int panel_a_bytes = TILE_M * ROW_BYTES;
constexpr int stage_bytes = panel_a_bytes + rows_b * row_bytes_b;
static_assert(SHARED_BYTES == STAGES * stage_bytes, "launch and kernel differ");
static_assert(TILE_M * chunks_per_row % threads == 0 && TILE_N * chunks_per_row % threads == 0);
constexpr int copies_a = TILE_M * chunks_per_row / threads;
constexpr int copies_b = TILE_N * chunks_per_row / threads;
constexpr int elements_per_copy = COPY_BYTES / element_bytes;

// One chunk of 16 bytes; elements from `valid` on, counted from its first, become zero.
DEVICE void copy_chunk(u32 shared, const Stored* source, int valid) {
#pragma unroll
  for (int e = 0; e < elements_per_chunk; e += elements_per_copy) {
    const int bytes = e < valid ? COPY_BYTES : 0;
#if COPY_BYTES == 16
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(source),
                 "r"(bytes));
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared + e * element_bytes),
                 "l"(source + e), "r"(bytes));
#endif
  }
}

// The chunks of one operand that this thread copies: where they come from and where they go. They
// lie in rows `row_stride` apart, a multiple of 8, so that the turn of the swizzle is the same.
template <int copies, bool k_major>
struct Copier {
  static constexpr int chunks = k_major ? chunks_per_row : TILE_N / elements_per_chunk;
  static constexpr int row_stride = threads / chunks;
  static constexpr int row_bytes = k_major ? ROW_BYTES : row_bytes_b;
  static_assert(threads % chunks == 0 && (row_stride % 8 == 0 || element_bytes == 4 && !k_major));

  const Stored* base;
  u32 offset[k_major ? copies : 1];  // in elements: needs rows shorter than 2^24
  int row, element;
  u32 shared;

  // `first`: row of the operand (column of B in layout nn) at which the tile starts.
  DEVICE Copier(const Stored* operand, int first, int rows, int row_elements) {
    row = threadIdx.x / chunks;
    const int chunk = threadIdx.x % chunks;
    if (k_major) {
      // Rows past the end repeat the last one: what they yield is not stored.
      element = chunk * elements_per_chunk;
      shared = k_major_offset(row, chunk);
      base = operand + i64(first) * row_elements;
#pragma unroll
      for (int i = 0; i < copies; ++i)
        offset[i] = u32(min(row + i * row_stride, rows - 1 - first)) * row_elements + element;
    } else {
      element = first + chunk * elements_per_chunk;
      shared = element_bytes == 2 ? n_major_offset(row, chunk) : row * row_bytes + chunk * 16;
      base = operand;
      offset[0] = u32(row) * row_elements + element;
    }
  }

  // Copies the stage that starts at element k0 of k, and moves on to the next.
  DEVICE void copy(u32 panel, int k0, int n, int k) {
#pragma unroll
    for (int i = 0; i < copies; ++i) {
      const u32 from = k_major ? offset[i] : offset[0] + u32(i * row_stride) * n;
      const int valid =
          k_major ? k - k0 - element : (k0 + row + i * row_stride < k ? n - element : 0);
      copy_chunk(panel + shared + i * row_stride * row_bytes, base + from, valid);
    }
    base += k_major ? i64(tile_k) : i64(tile_k) * n;
  }
};

extern "C" __global__ void __launch_bounds__(threads)
    gemm_sm80(const Stored* __restrict__ a, const Stored* __restrict__ b, Result* __restrict__ c,
              int m, int n, int k) {
  extern __shared__ __align__(128) u8 memory[];
  TO_OWN_PRODUCT(a, b, c, m, n, k);
  const u32 ring = shared_address(memory);
  const Tile tile = tile_of_block(tiles_of(m, TILE_M), tiles_of(n, TILE_N));
  const int m0 = tile.row * TILE_M, n0 = tile.column * TILE_N;
  const int warp = threadIdx.x / 32;
  const int row0 = warp / WARPS_N * warp_m, column0 = warp % WARPS_N * warp_n;
  const int stages_in_k = (k + tile_k - 1) / tile_k;

  Copier<copies_a, true> copier_a(a, m0, m, k);
  Copier<copies_b, k_major_b> copier_b(b, n0, n, k_major_b ? k : n);
  int requested = 0, write = 0;
  auto request_stage = [&] {
    if (requested < stages_in_k) {
      const u32 stage = ring + write * stage_bytes;
      copier_a.copy(stage, requested * tile_k, n, k);
      copier_b.copy(stage + panel_a_bytes, requested * tile_k, n, k);
    }
    ++requested;
    write = write + 1 == STAGES ? 0 : write + 1;
    asm volatile("cp.async.commit_group;");
  };
  auto wait_for_stage = [&] {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
  };

  Sums sums = {};
  Fragments fragments[2];
  int read = 0;
  auto load = [&](Fragments& into, int step) {
    const u32 stage = ring + read * stage_bytes;
    load_a(into, stage, row0, step);
    load_b<k_major_b>(into, stage + panel_a_bytes, column0, step);
  };

  for (int stage = 0; stage < STAGES - 1; ++stage) request_stage();
  wait_for_stage();
  load(fragments[0], 0);
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step == steps - 1) {
        wait_for_stage();
        read = read + 1 == STAGES ? 0 : read + 1;
      }
      load(fragments[(step + 1) % 2], (step + 1) % steps);
      // The panel written now was read for the last time before the latest barrier.
      if (step == 0) request_stage();
      multiply(sums, fragments[step % 2]);
    }
  }
  store_c(c, sums, m0 + row0, n0 + column0, m, n);
}
