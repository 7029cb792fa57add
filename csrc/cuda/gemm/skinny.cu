// C[m,n] = A[m,k] B[n,k]^T for few rows of A, as in a model that answers one token at a time: all of B
// is read once, so what counts is to ask for it at once and everywhere. A block has a narrow strip of
// C; its warps share k, and add up their sums at the end.
//
// Nothing passes through shared memory on the way in: a product adds up over k in any order, so a
// lane takes 16 neighbouring bytes of a row for two products, and both operands are in order alike.
//
// Macros: DTYPE, fp16 or bf16; BLOCKS_M, units of 16 rows; BLOCKS_N, units of 8 columns; WARPS; AHEAD,
// chunks of 64 bytes of k that a warp asks for before it uses them; OVERLAP=1 (sm_90 on): the next
// kernel may be launched beside this one's end.
// Launch: ceil(m / 16 BLOCKS_M) * ceil(n / 8 BLOCKS_N) blocks of 32 * WARPS threads. Rows of A and B
// are multiples of 16 bytes.

#define LAYOUT_NN 0
#define TILE_M (16 * BLOCKS_M)
#define TILE_N (8 * BLOCKS_N)
#define WARPS_M 1
#define WARPS_N 1
#define ROW_BYTES 64
#include "gemm/mma.cuh"

static_assert(element_bytes == 2, "a chunk of 16 bytes is two products wide");

struct Chunk {
  u32 word[4];
};

DEVICE Chunk load_chunk(const Stored* from, bool inside) {
  Chunk chunk = {};
  if (inside)
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(chunk.word[0]), "=r"(chunk.word[1]), "=r"(chunk.word[2]), "=r"(chunk.word[3])
                 : "l"(from));
  return chunk;
}

// Of `count` rows from row `first` of an operand those that this lane reads, eight apart.
template <int count>
struct Rows {
  const Stored* row[count / 8];
  bool inside[count / 8];

  DEVICE Rows(const Stored* operand, int first, int rows, int k) {
#pragma unroll
    for (int i = 0; i < count / 8; ++i) {
      const int own = first + 8 * i + int(threadIdx.x) % 32 / 4;
      inside[i] = own < rows;
      row[i] = operand + i64(inside[i] ? own : 0) * k;
    }
  }

  DEVICE void load(Chunk (&chunk)[count / 8], int at, int k) const {
#pragma unroll
    for (int i = 0; i < count / 8; ++i) chunk[i] = load_chunk(row[i] + at, inside[i] && at < k);
  }
};

struct Operands {
  Chunk a[TILE_M / 8], b[TILE_N / 8];
};

DEVICE void multiply(Sums& sums, const Operands& operands) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < BLOCKS_M; ++i) {
      const u32 *const top = operands.a[2 * i].word, *const low = operands.a[2 * i + 1].word;
      const u32 a[4] = {top[2 * half], low[2 * half], top[2 * half + 1], low[2 * half + 1]};
#pragma unroll
      for (int j = 0; j < BLOCKS_N; ++j) {
        const u32 b[2] = {operands.b[j].word[2 * half], operands.b[j].word[2 * half + 1]};
        mma(DTYPE(), sums[i][j], a, b);
      }
    }
}

struct Sum2 {
  float x, y;
};

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    gemm_skinny(const Stored* __restrict__ a, const Stored* __restrict__ b, Result* __restrict__ c,
                int m, int n, int k) {
  __shared__ Sum2 parts[WARPS][BLOCKS_M * BLOCKS_N * 2][32];
  const int tiles_m = tiles_of(m, TILE_M);
  const int m0 = int(blockIdx.x) % tiles_m * TILE_M, n0 = int(blockIdx.x) / tiles_m * TILE_N;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const Rows<TILE_M> rows_a(a, m0, m, k);
  const Rows<TILE_N> rows_b(b, n0, n, k);
#if OVERLAP
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif

  Sums sums = {};
  const int own = (warp * 4 + lane % 4) * 8;  // of the k of a round, WARPS chunks wide
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += AHEAD * WARPS * 32) {
    Operands operands[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int at = k0 + i * WARPS * 32 + own;
      rows_b.load(operands[i].b, at, k);
      rows_a.load(operands[i].a, at, k);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) multiply(sums, operands[i]);
  }

#pragma unroll
  for (int i = 0; i < BLOCKS_M; ++i)
#pragma unroll
    for (int j = 0; j < BLOCKS_N; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        parts[warp][(i * BLOCKS_N + j) * 2 + half][lane] = {sums[i][j][2 * half],
                                                            sums[i][j][2 * half + 1]};
  __syncthreads();
  for (int part = warp; part < BLOCKS_M * BLOCKS_N * 2; part += WARPS) {
    Sum2 sum = parts[0][part][lane];
#pragma unroll
    for (int other = 1; other < WARPS; ++other) {
      const Sum2 more = parts[other][part][lane];
      sum.x += more.x, sum.y += more.y;
    }
    const int row = m0 + part / 2 / BLOCKS_N * 16 + part % 2 * 8 + lane / 4;
    const int column = n0 + part / 2 % BLOCKS_N * 8 + lane % 4 * 2;
    if (row >= m) continue;
    Result* const to = c + i64(row) * n + column;
    const Pair pair = {DTYPE::narrow(sum.x), DTYPE::narrow(sum.y)};
    if (n % 2 == 0 && column < n) {
      *reinterpret_cast<Pair*>(to) = pair;
    } else {
      if (column < n) to[0] = pair.first;
      if (column + 1 < n) to[1] = pair.second;
    }
  }
}
