// Tensor core products by mma.sync: fragments, the product of 16 x 8 numbers over 32 bytes of k,
// and the store of C.
//
// Every format is fed alike because a fragment register holds 4 bytes of k whatever the format:
// `ldmatrix` hands lane 4g + t the bytes 4t..4t+3 of row g, which is what fp16, bf16, tf32, int8
// and fp8 products all expect. Only B stored as k rows of n (LAYOUT_NN) depends on the width.
//
// MMA_SM75=1 takes the products of sm_75, twice or four times as many.

#include "gemm/panels.cuh"

// --- fragments ----------------------------------------------------------------------------------

DEVICE void load_matrices(u32& r0, u32& r1, u32& r2, u32& r3, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address));
}

DEVICE void load_matrices_transposed(u32& r0, u32& r1, u32& r2, u32& r3, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address));
}

template <class Format>
DEVICE u32 rounded(Format, u32 bits) { return bits; }
#if __CUDA_ARCH__ >= 800
DEVICE u32 rounded(tf32, u32 bits) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
  return bits;
}
#endif

struct Fragments {
  u32 a[blocks_m][4];
  u32 b[blocks_n][2];
};

// Rows [row0, row0 + warp_m) of A at 32-byte step `step` of the stage.
DEVICE void load_a(Fragments& fragments, u32 panel, int row0, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i) {
    u32(&f)[4] = fragments.a[i];
    load_matrices(f[0], f[1], f[2], f[3],
                  panel + k_major_offset(row0 + 16 * i + lane % 16, 2 * step + lane / 16));
#pragma unroll
    for (int r = 0; r < 4; ++r) f[r] = rounded(DTYPE(), f[r]);
  }
}

// Columns [column0, column0 + warp_n) of B. `k_major`: the panel holds rows of k.
template <bool k_major>
DEVICE void load_b(Fragments& fragments, u32 panel, int column0, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < blocks_n; j += 2) {
    u32(&f)[2] = fragments.b[j];
    u32(&next)[2] = fragments.b[j + 1];
    const int column = column0 + 8 * j;
    if (k_major) {
      load_matrices(f[0], f[1], next[0], next[1],
                    panel + k_major_offset(column + lane % 8 + lane / 16 * 8,
                                           2 * step + lane / 8 % 2));
    } else if (element_bytes == 2) {
      load_matrices_transposed(f[0], f[1], next[0], next[1],
                               panel + n_major_offset(16 * step + lane % 16,
                                                      column / 8 + lane / 16));
    } else {
      const u32 first = panel + (8 * step + lane % 4) * padded_row_bytes + (column + lane / 4) * 4;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u32 address = first + r * 4 * padded_row_bytes;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(f[r]) : "r"(address));
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(next[r]) : "r"(address + 32));
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      f[r] = rounded(DTYPE(), f[r]);
      next[r] = rounded(DTYPE(), next[r]);
    }
  }
}

// --- products: d[16,8] += a[16, 32 bytes] b[32 bytes, 8] ----------------------------------------

#define MMA_16x8(shape_and_types, sum)                                                     \
  asm volatile("mma.sync.aligned." shape_and_types                                         \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"          \
               : "+" sum(d[0]), "+" sum(d[1]), "+" sum(d[2]), "+" sum(d[3])                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

#if MMA_SM75
DEVICE void mma(fp16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}
DEVICE void mma(int8, int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int rows = 0; rows < 2; ++rows)
      asm volatile(
          "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+r"(d[2 * rows]), "+r"(d[2 * rows + 1])
          : "r"(a[2 * half + rows]), "r"(b[half]));
}
#else
DEVICE void mma(fp16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MMA_16x8("m16n8k16.row.col.f32.f16.f16.f32", "f");
}
DEVICE void mma(int8, int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MMA_16x8("m16n8k32.row.col.s32.s8.s8.s32", "r");
}
DEVICE void mma(bf16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MMA_16x8("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
}
DEVICE void mma(tf32, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MMA_16x8("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
}
#if __CUDA_ARCH__ >= 890
DEVICE void mma(fp8_e4m3, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  MMA_16x8("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
}
#endif
#endif

typedef Sum Sums[blocks_m][blocks_n][4];

DEVICE void multiply(Sums& sums, const Fragments& fragments) {
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int j = 0; j < blocks_n; ++j)
      mma(DTYPE(), sums[i][j], fragments.a[i], fragments.b[j]);
}

// --- C ------------------------------------------------------------------------------------------

// Lane 4g + t holds columns 2t, 2t + 1 of rows g and g + 8 of each 16 x 8 block.
DEVICE void store_c(Result* __restrict__ c, const Sums& sums, int row0, int column0, int m, int n) {
  const int lane = threadIdx.x % 32;
  const bool pairs = n % 2 == 0;
#pragma unroll
  for (int i = 0; i < blocks_m; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 16 * i + 8 * half + lane / 4;
      if (row >= m) continue;
      Result* const line = c + i64(row) * n;
#pragma unroll
      for (int j = 0; j < blocks_n; ++j) {
        const int column = column0 + 8 * j + lane % 4 * 2;
        const Pair pair = {DTYPE::narrow(sums[i][j][2 * half]),
                           DTYPE::narrow(sums[i][j][2 * half + 1])};
        if (pairs && column < n) {
          *reinterpret_cast<Pair*>(line + column) = pair;
        } else {
          if (column < n) line[column] = pair.first;
          if (column + 1 < n) line[column + 1] = pair.second;
        }
      }
    }
}
