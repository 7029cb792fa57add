// C[m,n] = A[m,k] B in fp32 without tensor cores, for chips with `cp.async` (sm_80 on).
//
// A thread owns 16 x 8 numbers of C: per step of k it reads 24 numbers in six 16-byte loads for 128
// multiply-adds. Fragments are read one step ahead of their use.
//
// Shared memory holds a ring of lines, one per step of k: 128 numbers of A, then 256 of B. Operands
// stored as rows of k get there by 4-byte copies: 8 lanes along k share a 32-byte sector, and 4
// numbers of padding spread a warp's 8 x 4 copies over all banks.
//
// Registers decide the speed: a multiply-add per clock can read one register of each of the two
// banks (even, odd), besides those kept from the instruction before. `multiply` keeps A's number
// through eight columns and B's from one row to the next; what is left to read is a sum and mostly a
// number of B, and these must differ in parity. The assembler places what is loaded or stored as
// one vector in neighbouring registers, so `store_c` passes the sums on with pairs exchanged.
//
// Macros: LAYOUT_NN=1 reads B as k rows of n, in 16-byte copies: n must be a multiple of 4;
// STAGES; PART_K, steps of k between two portions of copies, 8 or 16; SHARED_BYTES as the launch
// gives it.
// Launch: ceil(m / 128) * ceil(n / 256) blocks of 256 threads. Rows must be shorter than 2^24.

#include "common/types.cuh"
#include "common/raster.cuh"

constexpr int tile_m = 128, tile_n = 256, threads = 256;
constexpr int line = tile_m + tile_n + 4;  // numbers
constexpr int stage_k = 32;
constexpr int part_k = PART_K;
constexpr int parts = stage_k / part_k;
constexpr u32 line_bytes = line * 4, stage_bytes = stage_k * line_bytes;
static_assert(SHARED_BYTES == STAGES * stage_bytes, "launch and kernel differ");

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

// Copies an operand stored as rows of k, 128 * `groups` of them. A part of a stage is, of each
// group, 128 / parts rows over the whole k of the stage.
template <int groups>
struct RowCopier {
  static constexpr int rows_per_part = 128 / parts;
  const float* source;
  u32 shared;
  i64 part_step;  // numbers from one part to the next
  int first_row, row, rows, k;

  DEVICE RowCopier(const float* operand, u32 ring, int first, int all_rows, int k_) {
    const int copy_k = threadIdx.x % 8, copy_row = threadIdx.x / 8;
    first_row = row = first + copy_row, rows = all_rows, k = k_ - copy_k;
    part_step = i64(k_) * rows_per_part;
    source = operand + i64(row) * k_ + copy_k;
    shared = ring + copy_k * line_bytes + copy_row * 4;
  }

  template <bool full>
  DEVICE void copy(u32 stage, int k0, int part) {
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int r = 0; r < rows_per_part; r += 32) {
        const float* from = source + (g * parts * rows_per_part + r) / 32 * (part_step / (rows_per_part / 32));
        const int shift = g * 128 + r;
#pragma unroll
        for (int s = 0; s < stage_k; s += 8) {
          const u32 to = shared + stage + s * line_bytes + shift * 4;
          if (full) copy_4(to, from + s);
          else copy_4_or_zero(to, from + s, row + shift < rows && k0 + s < k);
        }
      }
    source += part_step, shared += rows_per_part * 4, row += rows_per_part;
    if (part == parts - 1) {
      source += stage_k - part_step * parts, shared -= 128 * 4, row = first_row;
    }
  }
};

// Copies B stored as k rows of n: 16 bytes at a time, four rows at a time.
struct LineCopier {
  const float* source;
  u32 shared;
  i64 step;
  int row, k;
  bool column_inside;

  DEVICE LineCopier(const float* b, u32 ring, int first, int n, int k_) {
    const int column = threadIdx.x % 64 * 4;
    row = threadIdx.x / 64, k = k_, step = i64(n) * 4;
    column_inside = first + column < n;
    source = b + i64(row) * n + first + column;
    shared = ring + row * line_bytes + column * 4;
  }

  template <bool full>
  DEVICE void copy(u32 stage, int k0, int part) {
#pragma unroll
    for (int r = 0; r < part_k; r += 4) {
      const bool inside = full || column_inside && k0 + part * part_k + r + row < k;
      copy_16_or_zero(shared + stage + (part * part_k + r) * line_bytes, source, inside);
      source += step;
    }
  }
};

template <bool full, class CopierA, class CopierB>
DEVICE void add_products(float (&sum)[16][8], CopierA copier_a, CopierB copier_b, u32 read_a,
                         u32 read_b, int k) {
  const int stages_in_k = (k + stage_k - 1) / stage_k;
  u32 write = 0;  // ring offset of the stage requested next
  for (int stage = 0; stage < STAGES - 1; ++stage, write += stage_bytes) {
    if (stage < stages_in_k)
      for (int part = 0; part < parts; ++part) {
        copier_a.template copy<full>(write, stage * stage_k, part);
        copier_b.template copy<full>(write, stage * stage_k, part);
      }
    asm volatile("cp.async.commit_group;");
  }
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
  __syncthreads();

  const u32 end_a = read_a + STAGES * stage_bytes;
  Fragment fragments[2];
  load_fragment(fragments[0], read_a, read_b);
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
    const bool more = stage + STAGES - 1 < stages_in_k;
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      // The stage written now was read for the last time before the latest barrier.
      if (more) {
        copier_a.template copy<full>(write, (stage + STAGES - 1) * stage_k, part);
        copier_b.template copy<full>(write, (stage + STAGES - 1) * stage_k, part);
      }
#pragma unroll
      for (int step = 0; step < part_k; ++step) {
        if (step == part_k - 1) {
          read_a += part_k * line_bytes, read_b += part_k * line_bytes;
          if (part == parts - 1) {
            if (read_a == end_a) read_a -= STAGES * stage_bytes, read_b -= STAGES * stage_bytes;
            asm volatile("cp.async.commit_group;");
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
          }
        }
        const u32 next = (step + 1) % part_k * line_bytes;
        load_fragment(fragments[(step + 1) % 2], read_a + next, read_b + next);
        multiply(sum, fragments[step % 2]);
      }
    }
    write = write == (STAGES - 1) * stage_bytes ? 0 : write + stage_bytes;
  }
}

// Four neighbouring sums by way of 16 bytes of shared memory, second and fourth first: this, and
// nothing else, tells the assembler which bank each sum belongs in.
DEVICE float4 passed_on(const float* sum, u32 own) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own), "f"(sum[1]), "f"(sum[0]),
               "f"(sum[3]), "f"(sum[2]));
  const float4 v = load_4(own);
  return make_float4(v.y, v.x, v.w, v.z);
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    gemm_sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
               int m, int n, int k) {
  extern __shared__ __align__(16) float memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const Tile tile = tile_of_block(tiles_of(m, tile_m), tiles_of(n, tile_n));
  const int m0 = tile.row * tile_m, n0 = tile.column * tile_n;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = warp / 4 * 64 + lane / 8 * 4, column0 = warp % 4 * 64 + lane % 8 * 4;

  float sum[16][8] = {};
  const RowCopier<1> copier_a(a, ring, m0, m, k);
#if LAYOUT_NN
  const LineCopier copier_b(b, ring + tile_m * 4, n0, n, k);
#else
  const RowCopier<2> copier_b(b, ring + tile_m * 4, n0, n, k);
#endif
  const u32 read_a = ring + row0 * 4, read_b = ring + (tile_m + column0) * 4;
  if (m0 + tile_m <= m && n0 + tile_n <= n && k % stage_k == 0)
    add_products<true>(sum, copier_a, copier_b, read_a, read_b, k);
  else
    add_products<false>(sum, copier_a, copier_b, read_a, read_b, k);

  asm volatile("cp.async.wait_all;");
  __syncthreads();
  const u32 own = ring + threadIdx.x * 16;
  const bool vectors = n % 4 == 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int row = m0 + row0 + i / 4 * 16 + i % 4;
    if (row >= m) continue;
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      const int column = n0 + column0 + j * 8;
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
