// How the kernels of mma.sync divide a tile of C among warps, and how panels of A and
// B lie in shared memory.
//
// Macros: DTYPE, LAYOUT_NN, TILE_M, TILE_N, ROW_BYTES (bytes of k in a stage, 64 or 128), WARPS_M,
// WARPS_N.

#include "common/types.cuh"
#include "common/raster.cuh"

typedef DTYPE::Stored Stored;
typedef DTYPE::Sum Sum;
typedef DTYPE::Result Result;

constexpr int element_bytes = sizeof(Stored);
constexpr int tile_k = ROW_BYTES / element_bytes;
constexpr int chunks_per_row = ROW_BYTES / 16;
constexpr int elements_per_chunk = 16 / element_bytes;
constexpr int steps = ROW_BYTES / 32;  // products along k in a stage
constexpr int threads = 32 * WARPS_M * WARPS_N;
constexpr int warp_m = TILE_M / WARPS_M, warp_n = TILE_N / WARPS_N;
constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 8;

// Byte offset of a 16-byte chunk in a panel of rows of k. Eight rows at one chunk, which is what
// `ldmatrix` reads at a time, fall into eight different groups of four banks.
DEVICE u32 k_major_offset(int row, int chunk) {
  const int turn = ROW_BYTES == 128 ? row & 7 : (row >> 1) & 3;
  return row * ROW_BYTES + (chunk ^ turn) * 16;
}

// The same in a panel of tile_k rows of n, for 2-byte formats.
DEVICE u32 n_major_offset(int row, int chunk) { return row * (TILE_N * 2) + (chunk ^ (row & 7)) * 16; }

// For tf32 there is no transposing load: four rows of eight numbers must miss each other's banks.
constexpr int padded_row_bytes = (TILE_N + 8) * 4;

#ifndef HAS_SHARED_ADDRESS  // Kernels that fetch by TMA have it from barriers.cuh.
DEVICE u32 shared_address(const void* pointer) { return u32(__cvta_generic_to_shared(pointer)); }
#endif

struct alignas(2 * sizeof(Result)) Pair {
  Result first, second;
};
