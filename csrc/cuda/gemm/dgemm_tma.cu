// C[m,n] = A[m,k] B in fp64 on the tensor cores of Hopper (sm_90a). A pair of blocks computes two tiles
// of C one below the other; each fetches its tile of A by TMA, and half of the B they share for both.
// One thread fetches, eight warps multiply.
//
// A warp computes 64 x 32 of a 128 x 128 tile. A product wants its numbers in consecutive registers, a
// row, the row 8 below, the same two four further in k, ...: hence loads of 8 bytes, since longer
// ones would be sorted out by moves.
//
// Macros: LAYOUT_NN=1 reads B as k rows of n; STAGES; SHARED_BYTES as the launch gives it.
// Tensor maps: fp64, 128-byte swizzle, boxes of 16 numbers by 128 rows of A, by 64 rows of B in
// layout nt and by 16 rows in nn.
// Launch: 2 * ceil(m / 256) * ceil(n / 128) blocks of 384 threads in clusters of 2.

#define RASTER_BAND 6
#include "common/types.cuh"
#include "common/raster.cuh"
#include "common/handover.cuh"

struct alignas(64) TensorMap {
  u64 words[16];
};

constexpr int tile = 128, tile_k = 16, math_threads = 256;
constexpr int warp_m = 64, warp_n = 32, blocks_m = warp_m / 16, blocks_n = warp_n / 8;
constexpr int panel_bytes = tile * tile_k * 8, stage_bytes = 2 * panel_bytes;
static_assert(SHARED_BYTES == STAGES * (stage_bytes + 16) + 1024, "launch and kernel differ");

// --- shared memory as TMA leaves it: lines of 128 bytes, chunk c of line l at c ^ (l & 7) ---------

DEVICE u32 chunk_offset(int line, int chunk) { return line * 128 + (chunk ^ (line & 7)) * 16; }

// Which row of a block of eight lane group g works on. The four groups that read at the same time
// then find their 32 bytes in different quarters of the 128.
DEVICE int row_of(int g) { return g % 4 * 2 + g / 4; }

// Which column of the tile group g of block j works on. With B as lines of k, four groups and four
// lines of k read at the same time, and these columns keep them apart.
DEVICE int column_of(int j, int g) {
#if LAYOUT_NN
  return j / 2 * 16 + j % 2 * 4 + g % 2 + g / 2 % 2 * 8 + g / 4 * 2;
#else
  return j * 8 + row_of(g);
#endif
}

struct FragmentA {
  double a[8];
};
struct FragmentB {
  double b[4];
};

DEVICE double load(u32 address) {
  double x;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(address));
  return x;
}

// 16 rows by 16 of k: lane 4g + t holds a[r + 2 q], row g + 8 r, k number t + 4 q.
DEVICE void load_a(FragmentA& f, u32 panel, int row0) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int q = 0; q < 4; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      f.a[r + 2 * q] = load(panel + chunk_offset(row0 + 8 * r + row_of(lane / 4), 2 * q + t / 2) +
                            t % 2 * 8);
}

// 16 of k by 8 columns: b[q], k number t + 4 q, column g.
DEVICE void load_b(FragmentB& f, u32 panel, int column) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
#if LAYOUT_NN
    const u32 box = panel + column / 16 * (16 * 128);
    f.b[q] = load(box + chunk_offset(t + 4 * q, column % 16 / 2) + column % 2 * 8);
#else
    f.b[q] = load(panel + chunk_offset(column, 2 * q + t / 2) + t % 2 * 8);
#endif
  }
}

DEVICE void mma(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

// --- the fetching thread -------------------------------------------------------------------------

DEVICE void fetch(u32 to, const TensorMap& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// To the same place in both blocks, each of which is told by its own barrier.
DEVICE void fetch_for_both(u32 to, const TensorMap& map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(u16(3))
      : "memory");
}

DEVICE void produce(const TensorMap& map_a, const TensorMap& map_b, u32 ring, u32 barriers, int m0,
                    int n0, int rank, int k) {
  Slot slot;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += tile_k, slot.advance()) {
    const u32 panel_a = ring + slot.index * stage_bytes, ready = full(barriers, slot.index);
    const u32 half_b = panel_a + panel_bytes + rank * (panel_bytes / 2);
    barrier_await(empty(barriers, slot.index), slot.parity ^ 1);
    barrier_expect(ready, stage_bytes);
    fetch(panel_a, map_a, k0, m0, ready);
#if LAYOUT_NN
#pragma unroll
    for (int box = 0; box < 4; ++box)
      fetch_for_both(half_b + box * 2048, map_b, n0 + rank * 64 + box * 16, k0, ready);
#else
    fetch_for_both(half_b, map_b, k0, n0 + rank * 64, ready);
#endif
  }
}

// --- the multiplying warps -----------------------------------------------------------------------

typedef double Sums[blocks_m][blocks_n][4];

// Of A two row blocks are in registers, one being multiplied and one being loaded; numbers of B are
// replaced by those of the next stage after their last use.
DEVICE void consume(Sums& sum, u32 ring, u32 barriers, int row0, int column0, int k) {
  const int lane = threadIdx.x % 32;
  FragmentA fragment_a[2];
  FragmentB fragment_b[blocks_n];
  Slot slot;
  barrier_await(full(barriers, 0), 0);
  load_a(fragment_a[0], ring, row0);
#pragma unroll
  for (int j = 0; j < blocks_n; ++j)
    load_b(fragment_b[j], ring + panel_bytes, column0 + column_of(j, lane / 4));
  u32 stage = ring;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += tile_k) {
#pragma unroll
    for (int i = 0; i < blocks_m; ++i) {
      const bool last = i == blocks_m - 1;
      if (last) {
        // The first of these products needs the last numbers read from this stage.
        mma(sum[i][0], fragment_a[i % 2].a, fragment_b[0].b);
        __syncwarp();
        if (lane < 2) barrier_arrive_remote(address_in(empty(barriers, slot.index), lane));
        slot.advance();
        stage = ring + slot.index * stage_bytes;
        if (k0 + tile_k < k) barrier_await(full(barriers, slot.index), slot.parity);
      }
      load_a(fragment_a[(i + 1) % 2], stage, last ? row0 : row0 + 16 * (i + 1));
#pragma unroll
      for (int j = 0; j < blocks_n; ++j) {
        if (!last || j > 0) mma(sum[i][j], fragment_a[i % 2].a, fragment_b[j].b);
        if (last)
          load_b(fragment_b[j], stage + panel_bytes, column0 + column_of(j, lane / 4));
      }
    }
  }
}

// Lane 4g + t holds the sums of the rows of group g and of the columns of groups 2t and 2t + 1.
DEVICE void store_c(double* c, const Sums& sum, int row0, int column0, int m, int n) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + 16 * i + 8 * r + row_of(lane / 4);
      if (row >= m) continue;
      double* const line = c + i64(row) * n;
#pragma unroll
      for (int j = 0; j < blocks_n; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = column0 + column_of(j, 2 * t + e);
          if (column < n) line[column] = sum[i][j][2 * r + e];
        }
    }
}

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    gemm_dgemm_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                   double* __restrict__ c, int m, int n, int k) {
  extern __shared__ u8 memory[];
  const u32 ring = (u32(__cvta_generic_to_shared(memory)) + 1023) & ~1023u;
  const u32 barriers = ring + STAGES * stage_bytes;
  const int rank = blockIdx.x % 2;
  const Tile place = tile_at(blockIdx.x / 2, tiles_of(m, 2 * tile), tiles_of(n, tile));
  const int m0 = (2 * place.row + rank) * tile, n0 = place.column * tile;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(full(barriers, slot), 1);
      barrier_init(empty(barriers, slot), 2 * math_threads / 32);
    }
    barrier_init_fence();
  }
  cluster_sync();

  if (threadIdx.x >= math_threads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == math_threads) produce(map_a, map_b, ring, barriers, m0, n0, rank, k);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int warp = threadIdx.x / 32;
    const int row0 = warp / 4 * warp_m, column0 = warp % 4 * warp_n;
    Sums sum = {};
    if (k > 0) consume(sum, ring, barriers, row0, column0, k);
    store_c(c, sum, m0 + row0, n0 + column0, m, n);
  }
  // A block that leaves earlier would be written to by the other.
  cluster_sync();
}
