// C[m,n] = A[m,k] B on tensor cores without `cp.async`: the next panels are loaded into registers
// while this one is multiplied, then stored into the other of two buffers. sm_70 and sm_75 know no other;
// later chips come here for what their own copies cannot do, which is rows that are no multiple of
// 4 bytes (ALIGNED=0: element by element) and 1-byte B stored as k rows of n.
//
// Macros: those of panels.cuh; ALIGNED=1 where every row of A and B is a multiple of 16 bytes;
// MMA_SM75=1 takes the products of sm_75, MMA_SM70=1 those of sm_70.
// Launch: ceil(m / TILE_M) * ceil(n / TILE_N) blocks of 32 * WARPS_M * WARPS_N threads.

#include "gemm/panels.cuh"
#if MMA_SM70
#include "gemm/mma884.cuh"
#else
#include "gemm/mma.cuh"
#endif

// Layout nn: `ldmatrix`, from sm_75 on, transposes 2-byte formats; others are gathered as rows of k.
constexpr bool gathered_b = LAYOUT_NN && (element_bytes != 2 || MMA_SM70);
constexpr bool k_major_b = !LAYOUT_NN || gathered_b;
constexpr int panel_a_bytes = TILE_M * ROW_BYTES;
constexpr int buffer_bytes = panel_a_bytes + TILE_N * ROW_BYTES;
static_assert(SHARED_BYTES == 2 * buffer_bytes, "launch and kernel differ");
constexpr int chunks_a = TILE_M * chunks_per_row / threads;
constexpr int chunks_b = TILE_N * chunks_per_row / threads;

union Chunk {
  uint4 words;
  Stored elements[elements_per_chunk];
};

// `valid` leading elements of a chunk whose elements lie `stride` apart; the rest are zero.
template <bool contiguous>
DEVICE Chunk load_chunk(const Stored* source, i64 stride, int valid) {
  Chunk chunk;
  if (contiguous && ALIGNED) {
    chunk.words = make_uint4(0, 0, 0, 0);
    if (valid > 0) chunk.words = __ldg(reinterpret_cast<const uint4*>(source));
  } else {
#pragma unroll
    for (int e = 0; e < elements_per_chunk; ++e)
      chunk.elements[e] = e < valid ? __ldg(source + e * stride) : Stored(0);
  }
  return chunk;
}

// Rows of k, `first` the row at which the tile starts.
template <int count>
DEVICE void load_rows(Chunk (&chunks)[count], const Stored* operand, int first, int rows, int k,
                      int k0) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = threadIdx.x + i * threads;
    const int row = min(first + index / chunks_per_row, rows - 1);
    const int element = k0 + index % chunks_per_row * elements_per_chunk;
    chunks[i] = load_chunk<true>(operand + i64(row) * k + element, 1, k - element);
  }
}

template <int count>
DEVICE void store_rows(u8* panel, const Chunk (&chunks)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int index = threadIdx.x + i * threads;
    const u32 offset = k_major_offset(index / chunks_per_row, index % chunks_per_row);
    *reinterpret_cast<uint4*>(panel + offset) = chunks[i].words;
  }
}

// B stored as k rows of n: along n, or gathered along k with neighbouring lanes at neighbouring n.
DEVICE void load_columns(Chunk (&chunks)[chunks_b], const Stored* b, int first, int n, int k,
                         int k0) {
#pragma unroll
  for (int i = 0; i < chunks_b; ++i) {
    const int index = threadIdx.x + i * threads;
    if (gathered_b) {
      const int column = min(first + index % TILE_N, n - 1);
      const int depth = k0 + index / TILE_N * elements_per_chunk;
      chunks[i] = load_chunk<false>(b + i64(depth) * n + column, n, k - depth);
    } else {
      constexpr int chunks_per_line = TILE_N / elements_per_chunk;
      const int depth = k0 + index / chunks_per_line;
      const int column = first + index % chunks_per_line * elements_per_chunk;
      chunks[i] = load_chunk<true>(b + i64(depth) * n + column, 1, depth < k ? n - column : 0);
    }
  }
}

DEVICE void store_columns(u8* panel, const Chunk (&chunks)[chunks_b]) {
#pragma unroll
  for (int i = 0; i < chunks_b; ++i) {
    const int index = threadIdx.x + i * threads;
    constexpr int chunks_per_line = TILE_N / elements_per_chunk;
    const u32 offset = gathered_b ? k_major_offset(index % TILE_N, index / TILE_N)
                                  : n_major_offset(index / chunks_per_line, index % chunks_per_line);
    *reinterpret_cast<uint4*>(panel + offset) = chunks[i].words;
  }
}

extern "C" __global__ void __launch_bounds__(threads)
    gemm_sm75(const Stored* __restrict__ a, const Stored* __restrict__ b, Result* __restrict__ c,
              int m, int n, int k) {
  extern __shared__ __align__(128) u8 memory[];
  const Tile tile = tile_of_block(tiles_of(m, TILE_M), tiles_of(n, TILE_N));
  const int m0 = tile.row * TILE_M, n0 = tile.column * TILE_N;
  const int warp = threadIdx.x / 32;
  const int row0 = warp / WARPS_N * warp_m, column0 = warp % WARPS_N * warp_n;

  Chunk next_a[chunks_a], next_b[chunks_b];
  auto load_next = [&](int k0) {
    load_rows(next_a, a, m0, m, k, k0);
    if (LAYOUT_NN) load_columns(next_b, b, n0, n, k, k0);
    else load_rows(next_b, b, n0, n, k, k0);
  };
  auto store_next = [&](int buffer) {
    u8* const panels = memory + buffer * buffer_bytes;
    store_rows(panels, next_a);
    if (LAYOUT_NN) store_columns(panels + panel_a_bytes, next_b);
    else store_rows(panels + panel_a_bytes, next_b);
  };

  Sums sums = {};
  if (k > 0) {
    load_next(0);
    store_next(0);
  }
  __syncthreads();
  int buffer = 0;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += tile_k, buffer ^= 1) {
    const bool more = k0 + tile_k < k;
    if (more) load_next(k0 + tile_k);
    const u32 panels = shared_address(memory) + buffer * buffer_bytes;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      Fragments fragments;
      load_a(fragments, panels, row0, step);
      load_b<k_major_b>(fragments, panels + panel_a_bytes, column0, step);
      multiply(sums, fragments);
    }
    if (more) store_next(buffer ^ 1);
    __syncthreads();
  }
  store_c(c, sums, m0 + row0, n0 + column0, m, n);
}
