// C[m,n] = A[m,k] B in fp32 without tensor cores for sm_90a: eight warps do nothing but multiply,
// four copy for them and give up their registers. Stages are handed over by a pair of barriers each
// in shared memory, so that no warp waits for all others.
//
// Macros: those of sgemm.cuh; PART_K, steps of k to unroll, 2 or more and even; CUT_K=1: several blocks
// share a tile, each with its part of k, and the last one to finish adds up what all have left.
// Launch: ceil(m / 128) * ceil(n / 256) blocks of 384 threads, times the parts of k with CUT_K. Rows
// must be shorter than 2^24.

#include "gemm/sgemm.cuh"
#include "common/handover.cuh"

constexpr int copy_threads = 128;
constexpr int barriers_bytes = STAGES * 16;
static_assert(SHARED_BYTES == STAGES * stage_bytes + barriers_bytes, "launch and kernel differ");

template <bool whole, class CopierA, class CopierB>
DEVICE void produce(CopierA copier_a, CopierB copier_b, u32 barriers, int stages_in_k) {
  Slot slot;
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage, slot.advance()) {
    barrier_await(empty(barriers, slot.index), slot.parity ^ 1);
    copier_a.template copy<whole>(slot.index * stage_bytes, stage * STAGE_K, 0);
    copier_b.template copy<whole>(slot.index * stage_bytes, stage * STAGE_K, 0);
    arrive_with_copies(full(barriers, slot.index));
  }
}

// Loads run a step ahead of the products, so a stage is given back before its last step is
// multiplied. The first products are of zeros.
DEVICE void consume(float (&sum)[16][8], u32 read_a, u32 read_b, u32 barriers, int stages_in_k) {
  Fragment fragments[2] = {};
  Slot slot;
#pragma unroll 1
  for (int stage = 0; stage < stages_in_k; ++stage) {
    barrier_await(full(barriers, slot.index), slot.parity);
    u32 a = read_a + slot.index * stage_bytes, b = read_b + slot.index * stage_bytes;
#pragma unroll 1
    for (int part = 0; part < STAGE_K / PART_K; ++part) {
#pragma unroll
      for (int step = 0; step < PART_K; ++step) {
        load_fragment(fragments[step % 2], a + step * line_bytes, b + step * line_bytes);
        multiply(sum, fragments[(step + 1) % 2]);
      }
      a += PART_K * line_bytes, b += PART_K * line_bytes;
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(empty(barriers, slot.index));
    slot.advance();
  }
  multiply(sum, fragments[1]);
}

#if CUT_K
// Where sums 4i..4i+3 of this thread lie among what one block leaves.
DEVICE float* left_at(float* left, int i) { return left + (i * math_threads + threadIdx.x) * 4; }

DEVICE void leave(float* left, const float (&sum)[16][8], u32 own) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float4 v = passed_on(&sum[i / 2][i % 2 * 4], own);
    asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(left_at(left, i)), "f"(v.x),
                 "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  }
}

// Whether this block is the last of those that share its tile; then what all left can be read.
DEVICE bool is_last(u32* finished, int parts, u32* told) {
  __threadfence();
  asm volatile("bar.sync 1, %0;" ::"n"(math_threads) : "memory");
  if (threadIdx.x == 0) {
    const bool last = atomicAdd(finished, 1) == u32(parts - 1);
    if (last) *finished = 0;  // As the next launch expects it.
    *told = last;
  }
  asm volatile("bar.sync 1, %0;" ::"n"(math_threads) : "memory");
  __threadfence();
  return *told;
}

DEVICE void add_up(float* __restrict__ c, float* left, int parts, int row0, int column0, int m,
                   int n) {
  const bool vectors = n % 4 == 0;
#pragma unroll 4
  for (int i = 0; i < 32; ++i) {
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int part = 0; part < parts; ++part) {
      float4 v;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "l"(left_at(left + part * (tile_m * tile_n), i)));
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    const int row = row0 + i / 8 * 16 + i / 2 % 4, column = column0 + i % 2 * 32;
    if (row >= m) continue;
    float* const to = c + i64(row) * n + column;
    if (vectors && column < n) {
      *reinterpret_cast<float4*>(to) = total;
    } else {
      if (column < n) to[0] = total.x;
      if (column + 1 < n) to[1] = total.y;
      if (column + 2 < n) to[2] = total.z;
      if (column + 3 < n) to[3] = total.w;
    }
  }
}
#define CUT_ARGUMENTS , float *left, u32 *finished, int parts, int part_k
#else
#define CUT_ARGUMENTS
#endif

extern "C" __global__ void __launch_bounds__(math_threads + copy_threads, 1)
    gemm_sgemm_split(const float* __restrict__ a, const float* __restrict__ b,
                     float* __restrict__ c, int m, int n, int k CUT_ARGUMENTS) {
  extern __shared__ __align__(16) float memory[];
  const u32 ring = u32(__cvta_generic_to_shared(memory));
  const u32 barriers = ring + STAGES * stage_bytes;
  const Tile tile = tile_of_block(tiles_of(m, tile_m), tiles_of(n, tile_n));
  const int m0 = tile.row * tile_m, n0 = tile.column * tile_n;
#if CUT_K
  const int first_k = blockIdx.y * part_k, length = min(part_k, k - first_k);
  a += first_k, b += LAYOUT_NN ? i64(first_k) * n : first_k;
  finished += blockIdx.x, left += i64(blockIdx.x) * parts * (tile_m * tile_n);
#else
  const int length = k;
#endif
  const int stages_in_k = (length + STAGE_K - 1) / STAGE_K;
  if (threadIdx.x == 0)
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(full(barriers, slot), copy_threads);
      barrier_init(empty(barriers, slot), math_threads / 32);
    }
  __syncthreads();

  if (threadIdx.x >= math_threads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    const int thread = threadIdx.x - math_threads;
    const RowCopier<tile_m, copy_threads, 1> copier_a(a, ring, m0, m, k, length, thread);
#if LAYOUT_NN
    const LineCopier<copy_threads, 1> copier_b(b, ring + tile_m * 4, n0, n, length, thread);
#else
    const RowCopier<tile_n, copy_threads, 1> copier_b(b, ring + tile_m * 4, n0, n, k, length, thread);
#endif
    if (m0 + tile_m <= m && n0 + tile_n <= n && length % STAGE_K == 0)
      produce<true>(copier_a, copier_b, barriers, stages_in_k);
    else
      produce<false>(copier_a, copier_b, barriers, stages_in_k);
    asm volatile("cp.async.wait_all;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = warp / 4 * 64 + lane / 8 * 4, column0 = warp % 4 * 64 + lane % 8 * 4;
    float sum[16][8] = {};
    consume(sum, ring + row0 * 4, ring + (tile_m + column0) * 4, barriers, stages_in_k);
    // The ring is free once every multiplying warp is here.
    asm volatile("bar.sync 1, %0;" ::"n"(math_threads) : "memory");
#if CUT_K
    leave(left + blockIdx.y * (tile_m * tile_n), sum, ring + threadIdx.x * 16);
    if (is_last(finished, parts, reinterpret_cast<u32*>(memory) + math_threads * 4))
      add_up(c, left, parts, m0 + row0, n0 + column0, m, n);
#else
    store_c(c, sum, ring + threadIdx.x * 16, m0 + row0, n0 + column0, m, n);
#endif
  }
}
