// What the fp64 kernels on tensor cores share: fragments, products, copies, the store of C.
//
// A warp computes 64 x 32 of a 128 x 128 tile. A product wants its numbers in consecutive registers, a
// row, the row 8 below, the same two four further in k, ...: hence loads of 8 bytes, since longer
// ones would be sorted out by moves.
//
// Macros: LAYOUT_NN=1 reads B as k rows of n; COPY_BYTES, 16 where rows are multiples of 16 bytes,
// else 8; STAGES; SHARED_BYTES as the launch gives it; PRODUCT_K, k of a product: 4 takes those of
// sm_80, 8 and 16 exist on sm_90.

#include "common/types.cuh"
#include "common/raster.cuh"

constexpr int tile = 128, tile_k = 16, math_threads = 256;
constexpr int warp_m = 64, warp_n = 32;
constexpr int blocks_m = warp_m / 16, blocks_n = warp_n / 8;
constexpr int row_bytes = tile_k * 8;
constexpr int line_bytes = tile * 8 + 32;  // of B stored as k rows of n
constexpr int panel_a_bytes = tile * row_bytes;
constexpr int panel_b_bytes = LAYOUT_NN ? tile_k * line_bytes : tile * row_bytes;
constexpr int stage_bytes = panel_a_bytes + panel_b_bytes;

// Byte offset of a 16-byte chunk in a panel of rows of k. Lanes read 32 bytes of four rows at a time,
// which must lie in different quarters of a 128-byte line.
DEVICE u32 row_offset(int row, int chunk) { return row * row_bytes + (chunk ^ row % 4 * 2) * 16; }

DEVICE double load(u32 address) {
  double x;
  asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(address));
  return x;
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
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int q = 0; q < group_k / 4; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int chunk = group * (group_k / 2) + 2 * q + t / 2;
      f.a[r + 2 * q] = load(panel + row_offset(row0 + 8 * r + lane / 4, chunk) + t % 2 * 8);
    }
}

DEVICE void load_b(FragmentB& f, u32 panel, int column0, int group) {
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
  for (int j = 0; j < blocks_n; ++j)
#pragma unroll
    for (int q = 0; q < group_k / 4; ++q) {
      const int column = column0 + 8 * j + lane / 4;
#if LAYOUT_NN
      f.b[j][q] = load(panel + (group * group_k + t + 4 * q) * line_bytes + column * 8);
#else
      const int chunk = group * (group_k / 2) + 2 * q + t / 2;
      f.b[j][q] = load(panel + row_offset(column, chunk) + t % 2 * 8);
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

// The chunks of an operand stored as rows of k that one of `copiers` threads copies.
template <int copiers>
struct RowCopier {
  static constexpr int at_once = copiers / 8, count = tile / at_once;
  const double* base;
  u32 offset[count], shared;
  int element;

  DEVICE RowCopier(const double* operand, int first, int rows, int k, int thread) {
    const int row = thread / 8, chunk = thread % 8;
    base = operand + i64(first) * k;
    element = chunk * 2;
    shared = row_offset(row, chunk);
#pragma unroll
    for (int i = 0; i < count; ++i)  // rows past the end repeat the last one
      offset[i] = u32(min(row + at_once * i, rows - 1 - first)) * u32(k) + element;
  }

  DEVICE void copy(u32 panel, int k0, int n, int k) {
#pragma unroll
    for (int i = 0; i < count; ++i)
      copy_chunk(panel + shared + i * at_once * row_bytes, base + offset[i], k - k0 - element);
    base += tile_k;
  }
};

// The same of B stored as k rows of n.
template <int copiers>
struct LineCopier {
  static constexpr int at_once = copiers / 64;
  const double* base;
  u32 shared;
  int row, column;

  DEVICE LineCopier(const double* b, int first, int n, int, int thread) {
    row = thread / 64;
    column = first + thread % 64 * 2;
    base = b + i64(row) * n + column;
    shared = row * line_bytes + thread % 64 * 16;
  }

  DEVICE void copy(u32 panel, int k0, int n, int k) {
#pragma unroll
    for (int i = 0; i < tile_k; i += at_once) {
      const int valid = k0 + row + i < k ? n - column : 0;
      copy_chunk(panel + shared + i * line_bytes, base, valid);
      base += i64(n) * at_once;
    }
  }
};

#if LAYOUT_NN
template <int copiers>
using CopierB = LineCopier<copiers>;
#else
template <int copiers>
using CopierB = RowCopier<copiers>;
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
