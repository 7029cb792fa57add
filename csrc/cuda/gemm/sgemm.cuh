// What the fp32 kernels without tensor cores share: how a thread of 256 multiplies its 16 x 8 part
// of a 128 x 256 tile of C, and how operands get into shared memory.
//
// Per step of k a thread reads 24 numbers in six 16-byte loads for 128 multiply-adds. Registers
// decide the speed: a multiply-add per clock can read one register of each of the two banks (even,
// odd), besides those kept from the instruction before. `multiply` keeps A's number through eight
// columns and B's from one row to the next; what is left to read is a sum and mostly a number of B,
// and these must differ in parity. The assembler places what is loaded or stored as one vector in
// neighbouring registers, so `store_c` passes the sums on with pairs exchanged.
//
// Shared memory holds a ring of lines, one per step of k: 128 numbers of A, then 256 of B. Operands
// stored as rows of k get there by 4-byte copies: 8 lanes along k share a 32-byte sector, and 4
// numbers of padding spread a warp's 8 x 4 copies over all banks.
//
// Macros: LAYOUT_NN=1 reads B as k rows of n, in 16-byte copies: n must be a multiple of 4; STAGE_K,
// steps of k in a stage of the ring, a multiple of 8; STAGES; SHARED_BYTES as the launch gives it.

#include "common/types.cuh"
#include "common/raster.cuh"

constexpr int tile_m = 128, tile_n = 256, math_threads = 256;
constexpr int line = tile_m + tile_n + 4;  // numbers
constexpr u32 line_bytes = line * 4, stage_bytes = STAGE_K * line_bytes;

DEVICE float4 load_4(u32 address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address));
  return v;
}

struct Fragment {
  float a[16], b[8];
};

// Rows r * 16 + lane_m * 4 + {0..3}, r < 4, and columns c * 32 + lane_n * 4 + {0..3}, c < 2.
DEVICE void load_fragment(Fragment& f, u32 a, u32 b) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float4 v = load_4(a + r * 16 * 4);
    f.a[4 * r] = v.x, f.a[4 * r + 1] = v.y, f.a[4 * r + 2] = v.z, f.a[4 * r + 3] = v.w;
  }
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float4 v = load_4(b + c * 32 * 4);
    f.b[4 * c] = v.x, f.b[4 * c + 1] = v.y, f.b[4 * c + 2] = v.z, f.b[4 * c + 3] = v.w;
  }
}

// A walk without jumps. It turns to odd rows at the last column, whose sum lies in an even register,
// and to even rows at the first, so that the new number of A and the sum are of different banks.
DEVICE void multiply(float (&sum)[16][8], const Fragment& f) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int column = i % 2 ? 7 - j : j;
      sum[i][column] += f.a[i] * f.b[column];
    }
}

DEVICE void copy_4(u32 shared, const float* source) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(source));
}

DEVICE void copy_4_or_zero(u32 shared, const float* source, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(source),
               "r"(inside ? 4 : 0));
}

DEVICE void copy_16_or_zero(u32 shared, const float* source, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(source),
               "r"(inside ? 16 : 0));
}

// Copies an operand stored as rows of k, `all` of them, by `copiers` threads in `parts` portions of
// a stage: of each 128 rows 128 / parts, over the whole k of the stage.
template <int all, int copiers, int parts>
struct RowCopier {
  static constexpr int at_once = copiers / 8, rows_per_part = 128 / parts;
  static_assert(rows_per_part % at_once == 0);
  const float* source;
  u32 shared;
  i64 step;  // numbers from one row to the next that this thread copies
  int first_row, row, rows, k;

  // `length`: how much of the rows, each of k_ numbers, is multiplied.
  DEVICE RowCopier(const float* operand, u32 ring, int first, int rows_, int k_, int length,
                   int thread) {
    const int copy_k = thread % 8, copy_row = thread / 8;
    first_row = row = first + copy_row, rows = rows_, k = length - copy_k;
    step = i64(k_) * at_once;
    source = operand + i64(row) * k_ + copy_k;
    shared = ring + copy_k * line_bytes + copy_row * 4;
  }

  template <bool full>
  DEVICE void copy(u32 stage, int k0, int part) {
#pragma unroll
    for (int g = 0; g < all; g += 128)
#pragma unroll
      for (int r = 0; r < rows_per_part; r += at_once) {
        const float* const from = source + (g + r) / at_once * step;
#pragma unroll
        for (int s = 0; s < STAGE_K; s += 8) {
          const u32 to = shared + stage + s * line_bytes + (g + r) * 4;
          if (full) copy_4(to, from + s);
          else copy_4_or_zero(to, from + s, row + g + r < rows && k0 + s < k);
        }
      }
    source += rows_per_part / at_once * step, shared += rows_per_part * 4, row += rows_per_part;
    if (part == parts - 1) {
      source += STAGE_K - 128 / at_once * step, shared -= 128 * 4, row = first_row;
    }
  }
};

// Copies B stored as k rows of n, 16 bytes at a time.
template <int copiers, int parts>
struct LineCopier {
  static constexpr int at_once = copiers / 64, lines_per_part = STAGE_K / parts;
  static_assert(lines_per_part % at_once == 0);
  const float* source;
  u32 shared;
  i64 step;
  int row, k;
  bool column_inside;

  DEVICE LineCopier(const float* b, u32 ring, int first, int n, int k_, int thread) {
    const int column = thread % 64 * 4;
    row = thread / 64, k = k_, step = i64(n) * at_once;
    column_inside = first + column < n;
    source = b + i64(row) * n + first + column;
    shared = ring + row * line_bytes + column * 4;
  }

  template <bool full>
  DEVICE void copy(u32 stage, int k0, int part) {
#pragma unroll
    for (int r = 0; r < lines_per_part; r += at_once) {
      const int l = part * lines_per_part + r;
      copy_16_or_zero(shared + stage + l * line_bytes, source,
                      full || column_inside && k0 + l + row < k);
      source += step;
    }
  }
};

// Four neighbouring sums by way of 16 bytes of shared memory, second and fourth first: this, and
// nothing else, tells the assembler which bank each sum belongs in.
DEVICE float4 passed_on(const float* sum, u32 own) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own), "f"(sum[1]), "f"(sum[0]),
               "f"(sum[3]), "f"(sum[2]));
  const float4 v = load_4(own);
  return make_float4(v.y, v.x, v.w, v.z);
}

DEVICE void store_c(float* __restrict__ c, const float (&sum)[16][8], u32 own, int row0, int column0,
                    int m, int n) {
  const bool vectors = n % 4 == 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int row = row0 + i / 4 * 16 + i % 4;
    if (row >= m) continue;
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int column = column0 + j * 8;
      float* const to = c + i64(row) * n + column;
      const float4 v = passed_on(&sum[i][j], own);
      if (vectors && column < n) {
        *reinterpret_cast<float4*>(to) = v;
      } else {
        if (column < n) to[0] = v.x;
        if (column + 1 < n) to[1] = v.y;
        if (column + 2 < n) to[2] = v.z;
        if (column + 3 < n) to[3] = v.w;
      }
    }
  }
}
