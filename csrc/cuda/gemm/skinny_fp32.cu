// C[m,n] = A[m,k] B[n,k]^T in fp32 for few rows of A: all of B is read once, so what counts is to ask
// for it at once and everywhere. A block has a narrow strip of C; its warps, and eight lanes of each,
// share k. Operands go from memory to registers; what lanes of a warp read twice the first-level
// cache gives.
//
// Macros: LANES_M * LANES_N = 4 groups of eight lanes; ROWS, COLUMNS of C of a lane; WARPS; AHEAD,
// pieces of 128 bytes of k that a warp asks for before it uses them; OVERLAP=1 (sm_90 on): the next
// kernel may be launched beside this one's end.
// Launch: ceil(m / LANES_M ROWS) * ceil(n / LANES_N COLUMNS) blocks of 32 * WARPS threads. Rows of A
// and B are multiples of 16 bytes.

#include "common/words.cuh"
#include "common/raster.cuh"

static_assert(LANES_M * LANES_N == 4, "eight lanes share 128 bytes of k");
constexpr int tile_m = LANES_M * ROWS, tile_n = LANES_N * COLUMNS, sums = ROWS * COLUMNS;

DEVICE float4 load_4(const float* from, bool inside) {
  float4 v = make_float4(0, 0, 0, 0);
  if (inside)
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
  return v;
}

// The rows `first` + i * `apart` of an operand, as far as there are any.
template <int count>
struct Rows {
  const float* row[count];
  bool inside[count];

  DEVICE Rows(const float* operand, int first, int apart, int rows, int k) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      inside[i] = first + i * apart < rows;
      row[i] = operand + i64(inside[i] ? first + i * apart : 0) * k;
    }
  }

  DEVICE void load(float4 (&v)[count], int at, int k) const {
#pragma unroll
    for (int i = 0; i < count; ++i) v[i] = load_4(row[i] + at, inside[i] && at < k);
  }
};

// Sums over eight lanes. Each halving leaves a lane the half of the numbers that its bit of `step`
// names, as long as there are halves; returns how far the first of them is from the first of all.
template <int count, int step>
DEVICE int add_up(float* sum) {
  if constexpr (step == 0) {
    return 0;
  } else if constexpr (count == 1) {
    sum[0] += __shfl_xor_sync(0xffffffff, sum[0], step);
    return add_up<1, step / 2>(sum);
  } else {
    constexpr int half = count / 2;
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float kept = upper ? sum[half + i] : sum[i], given = upper ? sum[i] : sum[half + i];
      sum[i] = kept + __shfl_xor_sync(0xffffffff, given, step);
    }
    return (upper ? half : 0) + add_up<half, step / 2>(sum);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gemm_skinny_fp32(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int m, int n, int k) {
  __shared__ float parts[WARPS][tile_m * tile_n];
  const int tiles_m = tiles_of(m, tile_m);
  const int m0 = int(blockIdx.x) % tiles_m * tile_m, n0 = int(blockIdx.x) / tiles_m * tile_n;
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 8;
  const int lane_m = group / LANES_N, lane_n = group % LANES_N;
  const Rows<ROWS> rows_a(a, m0 + lane_m, LANES_M, m, k);
  const Rows<COLUMNS> rows_b(b, n0 + lane_n, LANES_N, n, k);
#if OVERLAP
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif

  float sum[sums] = {};
  const int own = (warp * 8 + threadIdx.x % 8) * 4;  // of the k of a round, WARPS pieces wide
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += AHEAD * WARPS * 32) {
    float4 of_a[AHEAD][ROWS], of_b[AHEAD][COLUMNS];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      rows_b.load(of_b[i], k0 + i * WARPS * 32 + own, k);
      rows_a.load(of_a[i], k0 + i * WARPS * 32 + own, k);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i)
#pragma unroll
      for (int row = 0; row < ROWS; ++row)
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
          const float4 x = of_a[i][row], y = of_b[i][column];
          float& s = sum[row * COLUMNS + column];
          s += x.x * y.x, s += x.y * y.y, s += x.z * y.z, s += x.w * y.w;
        }
  }

  constexpr int kept = sums > 8 ? sums / 8 : 1;
  const int first = add_up<sums, 4>(sum);
#pragma unroll
  for (int i = 0; i < kept; ++i) {
    const int row = (first + i) / COLUMNS * LANES_M + lane_m;
    const int column = (first + i) % COLUMNS * LANES_N + lane_n;
    parts[warp][row * tile_n + column] = sum[i];
  }
  __syncthreads();
  for (int place = threadIdx.x; place < tile_m * tile_n; place += 32 * WARPS) {
    float total = parts[0][place];
#pragma unroll
    for (int other = 1; other < WARPS; ++other) total += parts[other][place];
    const int row = m0 + place / tile_n, column = n0 + place % tile_n;
    if (row < m && column < n) c[i64(row) * n + column] = total;
  }
}
