// C[m,n] = A[m,k] B in fp64 on tensor cores. `cp.async` fills a ring of STAGES in shared memory; of A
// a warp holds two row blocks in registers, one being multiplied and one being loaded.
//
// A warp computes 64 x 32 of a 128 x 128 tile. Which numbers of k a product calls its 0th, 1st, ...
// is free as long as A and B agree: lane t of four takes the pairs 2t, 2t + 1 of each eight, so
// fragments of operands stored as rows of k are 16-byte loads.
//
// Macros: LAYOUT_NN=1 reads B as k rows of n; COPY_BYTES, 16 where rows are multiples of 16 bytes,
// else 8; STAGES, 3 or more; SHARED_BYTES as the launch gives it; PRODUCT_K, k of a product: 4 takes
// those of sm_80, 8 and 16 exist on sm_90.
// Launch: ceil(m / 128) * ceil(n / 128) blocks of 256 threads. Rows must be shorter than 2^24.

#include "common/types.cuh"
#include "common/raster.cuh"

constexpr int tile = 128, tile_k = 16, threads = 256;
constexpr int warp_m = 64, warp_n = 32;
constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 8;
constexpr int row_bytes = tile_k * 8;
constexpr int line_bytes = tile * 8 + 16;  // of B stored as k rows of n
constexpr int panel_a_bytes = tile * row_bytes;
constexpr int panel_b_bytes = LAYOUT_NN ? tile_k * line_bytes : tile * row_bytes;
constexpr int stage_bytes = panel_a_bytes + panel_b_bytes;
static_assert(SHARED_BYTES == STAGES * stage_bytes, "launch and kernel differ");

// Byte offset of a 16-byte chunk in a panel of rows of k. Lanes read two rows of four chunks at a
// time, which must be different halves of a 128-byte line; so neighbouring rows turn by four.
DEVICE u32 row_offset(int row, int chunk) { return row * row_bytes + (chunk ^ (row & 1) * 4) * 16; }

DEVICE void load_2(double& x, double& y, u32 address) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(address));
}

constexpr int group_k = PRODUCT_K == 16 ? 16 : 8;  // k of a fragment
constexpr int groups = tile_k / group_k, eights = group_k / 8;

// Lane 4g + t holds of a 16 x group_k block of A a[r + 2 q]: row g + 8 r, and of a block of B b[q]:
// column g, both at k number t + 4 q.
struct FragmentA {
  double a[4 * eights];
};
struct FragmentB {
  double b[blocks_n][2 * eights];
};

DEVICE void load_a(FragmentA& f, u32 panel, int row0, int group) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int e = 0; e < eights; ++e)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      load_2(f.a[4 * e + r], f.a[4 * e + r + 2],
             panel + row_offset(row0 + 8 * r + lane / 4, 4 * (group * eights + e) + lane % 4));
}

DEVICE void load_b(FragmentB& f, u32 panel, int column0, int group) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < blocks_n; ++j)
#pragma unroll
    for (int e = 0; e < eights; ++e) {
      const int column = column0 + 8 * j + lane / 4, eight = group * eights + e;
#if LAYOUT_NN
      const u32 first = panel + (8 * eight + lane % 4 * 2) * line_bytes + column * 8;
      asm volatile("ld.shared.f64 %0, [%1];" : "=d"(f.b[j][2 * e]) : "r"(first));
      asm volatile("ld.shared.f64 %0, [%1];" : "=d"(f.b[j][2 * e + 1]) : "r"(first + line_bytes));
#else
      load_2(f.b[j][2 * e], f.b[j][2 * e + 1], panel + row_offset(column, 4 * eight + lane % 4));
#endif
    }
}

// d[16,8] += a[16,group_k] b[group_k,8]; d: rows g, g, g + 8, g + 8 of columns 2t, 2t + 1.
DEVICE void mma(double (&d)[4], const double (&a)[4 * eights], const double (&b)[2 * eights]) {
#if PRODUCT_K == 16
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#elif PRODUCT_K == 8
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int q = 0; q < 2; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      asm volatile(
          "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+d"(d[2 * r]), "+d"(d[2 * r + 1])
          : "d"(a[r + 2 * q]), "d"(b[q]));
#endif
}

// Two numbers; those from `valid` on become zero.
DEVICE void copy_chunk(u32 shared, const double* source, int valid) {
#if COPY_BYTES == 16
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(source),
               "r"(valid > 0 ? 16 : 0));
#else
#pragma unroll
  for (int e = 0; e < 2; ++e)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared + e * 8),
                 "l"(source + e), "r"(e < valid ? 8 : 0));
#endif
}

// The four chunks of an operand stored as rows of k that this thread copies, 32 rows apart.
struct RowCopier {
  const double* base;
  u32 offset[4], shared;
  int element;

  DEVICE RowCopier(const double* operand, int first, int rows, int k) {
    const int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    base = operand + i64(first) * k;
    element = chunk * 2;
    shared = row_offset(row, chunk);
#pragma unroll
    for (int i = 0; i < 4; ++i)  // rows past the end repeat the last one
      offset[i] = u32(min(row + 32 * i, rows - 1 - first)) * u32(k) + element;
  }

  DEVICE void copy(u32 panel, int k0, int n, int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      copy_chunk(panel + shared + i * 32 * row_bytes, base + offset[i], k - k0 - element);
    base += tile_k;
  }
};

// The four chunks of B stored as k rows of n, 4 rows apart.
struct LineCopier {
  const double* base;
  u32 shared;
  int row, column;

  DEVICE LineCopier(const double* b, int first, int n, int) {
    row = threadIdx.x / 64;
    column = first + threadIdx.x % 64 * 2;
    base = b + i64(row) * n + column;
    shared = row * line_bytes + threadIdx.x % 64 * 16;
  }

  DEVICE void copy(u32 panel, int k0, int n, int k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int valid = k0 + row + 4 * i < k ? n - column : 0;
      copy_chunk(panel + shared + i * 4 * line_bytes, base, valid);
      base += i64(n) * 4;
    }
  }
};

#if LAYOUT_NN
typedef LineCopier CopierB;
#else
typedef RowCopier CopierB;
#endif

DEVICE void store_c(double* c, const double (&sum)[blocks_m][blocks_n][4], int row0, int column0,
                    int m, int n) {
  const int lane = threadIdx.x % 32;
  const bool pairs = n % 2 == 0;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + 16 * i + 8 * r + lane / 4;
      if (row >= m) continue;
#pragma unroll
      for (int j = 0; j < blocks_n; ++j) {
        const int column = column0 + 8 * j + lane % 4 * 2;
        double* const to = c + i64(row) * n + column;
        if (pairs && column < n) {
          *reinterpret_cast<double2*>(to) = make_double2(sum[i][j][2 * r], sum[i][j][2 * r + 1]);
        } else {
          if (column < n) to[0] = sum[i][j][2 * r];
          if (column + 1 < n) to[1] = sum[i][j][2 * r + 1];
        }
      }
    }
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    gemm_dgemm(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c,
               int m, int n, int k) {
  extern __shared__ __align__(128) u8 memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const Tile place = tile_of_block(tiles_of(m, tile), tiles_of(n, tile));
  const int m0 = place.row * tile, n0 = place.column * tile;
  const int warp = threadIdx.x / 32;
  const int row0 = warp / 4 * warp_m, column0 = warp % 4 * warp_n;
  const int stages_in_k = (k + tile_k - 1) / tile_k;

  RowCopier copier_a(a, m0, m, k);
  CopierB copier_b(b, n0, n, k);
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
