// Tensor core products of sm_70, fp16 only, with the interface of mma.cuh. A product of 8 x 8 numbers
// over 4 of k is the work of eight lanes, q = 0..3 of a warp: lanes 4q..4q+3 and 16 more. Low lanes
// bring rows 0..3 of A and columns 0..3 of B, high lanes 4..7.
//
// A warp's four products make 16 x 16: product q takes rows 4 (q % 2) + {0..3} and 8 more, and columns
// 4 (q / 2) + {0..3} and 8 more. So any eight neighbouring lanes read neighbouring rows.

#include "gemm/panels.cuh"

constexpr int squares_n = warp_n / 16;

struct Fragments {
  u32 a[blocks_m][2][4];  // 8 of k in each half of the step
  u32 b[squares_n][2][4];
};

DEVICE void load_chunk_16(u32 (&f)[4], u32 address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(address));
}

DEVICE void load_a(Fragments& fragments, u32 panel, int row0, int step) {
  const int lane = threadIdx.x % 32;
  const int row = row0 + lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      load_chunk_16(fragments.a[i][half], panel + k_major_offset(row + 16 * i, 2 * step + half));
}

template <bool k_major>
DEVICE void load_b(Fragments& fragments, u32 panel, int column0, int step) {
  static_assert(k_major, "there is no transposing load");
  const int lane = threadIdx.x % 32;
  const int column = column0 + lane % 4 + lane / 8 % 2 * 4 + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < squares_n; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      load_chunk_16(fragments.b[j][half], panel + k_major_offset(column + 16 * j, 2 * step + half));
}

typedef float Sums[blocks_m][squares_n][8];

DEVICE void multiply(Sums& sums, const Fragments& fragments) {
#pragma unroll
  for (int quarter = 0; quarter < 4; ++quarter)
#pragma unroll
    for (int i = 0; i < blocks_m; ++i)
#pragma unroll
      for (int j = 0; j < squares_n; ++j) {
        float(&d)[8] = sums[i][j];
        const u32* const a = fragments.a[i][quarter / 2] + quarter % 2 * 2;
        const u32* const b = fragments.b[j][quarter / 2] + quarter % 2 * 2;
        asm volatile(
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
            "{%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
              "+f"(d[7])
            : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
      }
}

// Sum i of a lane lies in row (lane & 1) + (i & 2) of its four and column (lane & 2) + (i & 1) of the
// first or, from i = 4 on, the second four.
DEVICE void store_c(Result* __restrict__ c, const Sums& sums, int row0, int column0, int m, int n) {
  const int lane = threadIdx.x % 32, q = lane / 4 % 4;
  const bool pairs = n % 2 == 0;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int e = 0; e < 8; e += 2)
#pragma unroll
      for (int j = 0; j < squares_n; ++j) {
        const int row = row0 + 16 * i + (lane & 1) + (e & 2) + q % 2 * 4 + lane / 16 * 8;
        const int column = column0 + 16 * j + (lane & 2) + q / 2 * 4 + e / 4 * 8;
        if (row >= m) continue;
        Result* const to = c + i64(row) * n + column;
        const Pair pair = {DTYPE::narrow(sums[i][j][e]), DTYPE::narrow(sums[i][j][e + 1])};
        if (pairs && column < n) {
          *reinterpret_cast<Pair*>(to) = pair;
        } else {
          if (column < n) to[0] = pair.first;
          if (column + 1 < n) to[1] = pair.second;
        }
      }
}
