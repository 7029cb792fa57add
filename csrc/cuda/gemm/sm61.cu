// C[m,n] = A[m,k] B without tensor cores on any chip since sm_61: fp32 and fp64 by multiply-add, int8 by
// DP4A, four products at a time. Later chips come here for problems too small for larger tiles.
// The next panels are loaded into registers while these are multiplied.
//
// Panels lie in shared memory as panel[word of k][row]; a word is one number, or four int8 along k.
// A thread owns TILE / 16 squared numbers of C, in groups as long as a 16-byte load of words.
//
// Macros: DTYPE, LAYOUT_NN=1 reads B as k rows of n, TILE, 128 or 64. Rows of A and B must be
// multiples of 16 bytes.
// Launch: ceil(m / TILE) * ceil(n / TILE) blocks of 256 threads, times the number of products
// with BATCH=1.

#include "common/types.cuh"
#include "common/raster.cuh"
#include "common/batch.cuh"

typedef DTYPE::Stored Stored;
typedef DTYPE::Sum Sum;

template <class Format>
struct WordOf {
  typedef typename Format::Stored type;
};
template <>
struct WordOf<int8> {
  typedef int type;
};
typedef WordOf<DTYPE>::type Word;

constexpr int threads = 256;
constexpr int per_word = sizeof(Word) / sizeof(Stored);
constexpr int vector = 16 / sizeof(Word);       // words of a 16-byte access
constexpr int depth = TILE == 128 ? 8 : 16;     // words of k in a panel
constexpr int own = TILE / 16;                  // rows and columns of C of a thread
constexpr int pitch = TILE + 16 / sizeof(Word); // in words; keeps vectors aligned
constexpr int chunks = TILE * depth / vector / threads;

union Chunk {
  uint4 bits;
  Word words[vector];
};

DEVICE void multiply_add(float& sum, float a, float b) { sum += a * b; }
DEVICE void multiply_add(double& sum, double a, double b) { sum += a * b; }
DEVICE void multiply_add(int& sum, int a, int b) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
}

// 16 bytes along k of a row; rows past the end repeat the last one, numbers past k are zero.
struct RowLoader {
  static constexpr int per_row = depth / vector;

  static DEVICE void load(Chunk (&chunk)[chunks], const Stored* operand, int first, int rows, int k,
                          int k0) {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int index = threadIdx.x + i * threads;
      const int row = min(first + index / per_row, rows - 1);
      const int element = k0 + index % per_row * (vector * per_word);
      chunk[i].bits = make_uint4(0, 0, 0, 0);
      if (element < k)
        chunk[i].bits = __ldg(reinterpret_cast<const uint4*>(operand + i64(row) * k + element));
    }
  }

  static DEVICE void store(Word* panel, const Chunk (&chunk)[chunks]) {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int index = threadIdx.x + i * threads;
#pragma unroll
      for (int e = 0; e < vector; ++e)
        panel[(index % per_row * vector + e) * pitch + index / per_row] = chunk[i].words[e];
    }
  }
};

// Four words for four columns out of four bytes from each of four lines of k.
DEVICE void transpose_bytes(u32 (&w)[4]) {
  const u32 low01 = __byte_perm(w[0], w[1], 0x5140), high01 = __byte_perm(w[0], w[1], 0x7362);
  const u32 low23 = __byte_perm(w[2], w[3], 0x5140), high23 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low01, low23, 0x5410), w[1] = __byte_perm(low01, low23, 0x7632);
  w[2] = __byte_perm(high01, high23, 0x5410), w[3] = __byte_perm(high01, high23, 0x7632);
}

// `vector` neighbouring columns at one word of k, of B stored as k rows of n.
struct LineLoader {
  static constexpr int per_line = TILE / vector;

  static DEVICE void load(Chunk (&chunk)[chunks], const Stored* b, int first, int n, int k, int k0) {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int index = threadIdx.x + i * threads;
      const int line = k0 + index / per_line * per_word;
      const int column = first + index % per_line * vector;
      const Stored* const source = b + i64(line) * n + column;
      if (per_word == 1) {
        chunk[i].bits = make_uint4(0, 0, 0, 0);
        if (line < k && column < n) chunk[i].bits = __ldg(reinterpret_cast<const uint4*>(source));
      } else {
        u32 w[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
          w[r] = line + r < k && column < n
                     ? __ldg(reinterpret_cast<const u32*>(source + i64(r) * n))
                     : 0;
        transpose_bytes(w);
        chunk[i].bits = make_uint4(w[0], w[1], w[2], w[3]);
      }
    }
  }

  static DEVICE void store(Word* panel, const Chunk (&chunk)[chunks]) {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int index = threadIdx.x + i * threads;
      *reinterpret_cast<uint4*>(panel + index / per_line * pitch + index % per_line * vector) =
          chunk[i].bits;
    }
  }
};

#if LAYOUT_NN
typedef LineLoader LoaderB;
#else
typedef RowLoader LoaderB;
#endif

// Where the i-th of a thread's rows (or columns) lies in the tile, `place` its index of 16.
DEVICE int own_row(int i, int place) { return i / vector * (16 * vector) + place * vector + i % vector; }

DEVICE void load_own(Word (&words)[own], const Word* line, int place) {
#pragma unroll
  for (int i = 0; i < own; i += vector) {
    Chunk chunk;
    chunk.bits = *reinterpret_cast<const uint4*>(line + own_row(i, place));
#pragma unroll
    for (int e = 0; e < vector; ++e) words[i + e] = chunk.words[e];
  }
}

DEVICE void store_c(Sum* __restrict__ c, const Sum (&sum)[own][own], int m0, int n0, int m, int n) {
  const bool vectors = n % vector == 0;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const int row = m0 + own_row(i, threadIdx.x / 16);
    if (row >= m) continue;
#pragma unroll
    for (int j = 0; j < own; j += vector) {
      const int column = n0 + own_row(j, threadIdx.x % 16);
      Sum* const to = c + i64(row) * n + column;
      union {
        uint4 bits;
        Sum sums[vector];
      } out;
#pragma unroll
      for (int e = 0; e < vector; ++e) out.sums[e] = sum[i][j + e];
      if (vectors && column < n) {
        *reinterpret_cast<uint4*>(to) = out.bits;
      } else {
#pragma unroll
        for (int e = 0; e < vector; ++e)
          if (column + e < n) to[e] = out.sums[e];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(threads)
    gemm_sm61(const Stored* __restrict__ a, const Stored* __restrict__ b, Sum* __restrict__ c,
              int m, int n, int k) {
  __shared__ __align__(16) Word panel_a[2][depth * pitch], panel_b[2][depth * pitch];
  TO_OWN_PRODUCT(a, b, c, m, n, k);
  const Tile tile = tile_of_block(tiles_of(m, TILE), tiles_of(n, TILE));
  const int m0 = tile.row * TILE, n0 = tile.column * TILE;
  Chunk next_a[chunks], next_b[chunks];
  Sum sum[own][own] = {};

  RowLoader::load(next_a, a, m0, m, k, 0);
  LoaderB::load(next_b, b, n0, n, k, 0);
  RowLoader::store(panel_a[0], next_a);
  LoaderB::store(panel_b[0], next_b);
  __syncthreads();
  int buffer = 0;
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += depth * per_word, buffer ^= 1) {
    const bool more = k0 + depth * per_word < k;
    if (more) {
      RowLoader::load(next_a, a, m0, m, k, k0 + depth * per_word);
      LoaderB::load(next_b, b, n0, n, k, k0 + depth * per_word);
    }
#pragma unroll
    for (int d = 0; d < depth; ++d) {
      Word own_a[own], own_b[own];
      load_own(own_a, panel_a[buffer] + d * pitch, threadIdx.x / 16);
      load_own(own_b, panel_b[buffer] + d * pitch, threadIdx.x % 16);
#pragma unroll
      for (int i = 0; i < own; ++i)
#pragma unroll
        for (int j = 0; j < own; ++j) multiply_add(sum[i][j], own_a[i], own_b[j]);
    }
    if (more) {
      RowLoader::store(panel_a[buffer ^ 1], next_a);
      LoaderB::store(panel_b[buffer ^ 1], next_b);
    }
    __syncthreads();
  }
  store_c(c, sum, m0, n0, m, n);
}
