// Hopper's wgmma as the inner loop of a product has it: a pair of blocks shares operands that TMA
// brings into a ring of stages, and nothing is stored. Beside wgmma.cu it shows what moving the
// operands costs, in cycles and, on a card at its power limit, in speed.
//
//   peak(a, b, trips, down, b_rows, out)   tensor maps of A and of B; out as in counted.cuh, of
//                                          the multiplying threads only
//
// Clusters stand in a grid, `down` of them one below the other, as the tiles of a product that are
// computed at a time. A trip is LAP stages of k and starts the sums from nothing. All trips read
// the same A, which stays in the second-level cache; B's rows lie b_rows further down from trip to
// trip: 0 leaves B in the cache too, else it comes from memory once for all who use it.
//
// Macros: those of gemm/sm90.cu that say what a block is, STEP elements of k in a stage, and LAP.

#include "common/ptx_sm90.cuh"
#include "peak/counted.cuh"
#include "gemm/sm90_wgmma.cuh"

#define WARP_STAGING_BYTES 0
#include "gemm/sm90_schedule.cuh"

#define CLUSTER (CLUSTER_M * CLUSTER_N)
#define POLICY__(word) policy_##word()
#define POLICY_(word) POLICY__(word)
#define POLICY_A evict_last
#define POLICY_B evict_normal
#include "gemm/sm90_pipeline.cuh"

#define MULTIPLYING (WARPGROUPS * 128)
#define SUMS (BLOCK_N / 2)
static_assert(BLOCK_M == WARPGROUPS * 64 && BLOCK_N == INSTRUCTION_N, "a product a warpgroup");

// This block's share of `rows` rows of an operand, to all `parts` blocks that use them.
template <int rows, int parts>
DEVICE void bring(u32 to, const TensorMap* map, int x, int row, u32 part, u32 blocks, u32 full,
                  u64 policy) {
  const int from = part * (rows / parts);
  if (parts == 1)
    tma_load(to, map, x, row, full, policy);
  else
    tma_load_shared(to + from * 128, map, x, row + from, full, (unsigned short)blocks, policy);
}

struct Feeder {
  Ring ring;
  const TensorMap *a, *b;
  int row, column, b_rows;
  u32 left;  // stages to be filled
  int k = 0;

  DEVICE void step(u32 stage, u32 parity) {
    if (left == 0) return;
    --left;
    barrier_wait(ring.empty + stage * 8, parity ^ 1);
    const u32 full = ring.full + stage * 8, to = ring.stages + stage * STAGE_BYTES;
    barrier_expect(full, STAGE_BYTES);
    const u32 rank = cluster_rank(), rank_m = rank % CLUSTER_M, rank_n = rank / CLUSTER_M;
    const int x = k * STEP;
    bring<BLOCK_M, CLUSTER_N>(to, a, x, row, rank_n,
                              ((1 << CLUSTER) - 1) / ((1 << CLUSTER_M) - 1) << rank_m, full,
                              POLICY_(POLICY_A));
    bring<BLOCK_N, CLUSTER_M>(to + A_BYTES, b, x, column, rank_m,
                              ((1 << CLUSTER_M) - 1) << rank_n * CLUSTER_M, full,
                              POLICY_(POLICY_B));
    if (++k == LAP) {
      k = 0;
      column += b_rows;
    }
  }
};

DEVICE void multiply(Accumulator* sums, u32 a, u32 b, u32 add) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k)
    wgmma(sums, descriptor(a + k * 2), descriptor(b + k * 2), k == 0 ? add : 1);
  wgmma_commit();
}

extern "C" __global__ void __launch_bounds__(MULTIPLYING + PRODUCER * 128, 1)
    peak(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, u32 trips,
         u32 down, u32 b_rows, double* out) {
  extern __shared__ __align__(1024) char shared[];
  const Ring ring(shared_address(shared));
  const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp == 0 && elect_one()) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(ring.full + stage * 8, 1);
      barrier_init(ring.empty + stage * 8, WARPGROUPS * 4 * SHARERS);
    }
    barrier_init_fence();
  }
  cluster_barrier();
  const u32 cluster = cluster_index(), rank = cluster_rank();
  const int row = (cluster % down * CLUSTER_M + rank % CLUSTER_M) * BLOCK_M;
  const int column = (cluster / down * CLUSTER_N + rank / CLUSTER_M) * BLOCK_N;

  if (PRODUCER && warp >= WARPGROUPS * 4) {
#if PRODUCER
    give_registers<PRODUCER_REGISTERS>();
    if (warp == WARPGROUPS * 4 && elect_one()) {
      Feeder feeder{ring, &a, &b, row, column, int(b_rows), trips * LAP};
      for (Position at; feeder.left; at.advance()) feeder.step(at.stage, at.parity);
    }
    __syncwarp();
#endif
  } else {
#if PRODUCER
    take_registers<CONSUMER_REGISTERS>();
#else
    // In shared memory, as every thread's registers would hold it.
    Feeder* feeder = (Feeder*)(shared + STAGES * STAGE_BYTES + BARRIER_BYTES);
    if (warp == 0 && elect_one()) {
      *feeder = Feeder{ring, &a, &b, row, column, int(b_rows), trips * LAP};
      for (u32 stage = 0; stage < STAGES - 1; ++stage) feeder->step(stage, 0);
    }
    __syncwarp();
#endif
    const u32 first_a = lower_descriptor(ring.stages + warp / 4 * (64 * 128));
    const u32 first_b = lower_descriptor(ring.stages + A_BYTES);
    const Release release(ring);
    Accumulator sums[SUMS];
    Position at;
    u32 done = 0;
    do {
#pragma unroll 1
      for (int k = 0; k < LAP; ++k) {
        barrier_wait(ring.full + at.stage * 8, at.parity);
        const u32 offset = at.stage * (STAGE_BYTES / 16);
        const u32 previous = at.stage == 0 ? STAGES - 1 : at.stage - 1;
        multiply(sums, first_a + offset, first_b + offset, k != 0);
        wgmma_wait<1>();
        if (done + k != 0) release(previous);
#if !PRODUCER
        if (warp == 0 && elect_one())
          feeder->step(previous, at.stage == 0 ? at.parity : at.parity ^ 1);
        __syncwarp();
#endif
        at.advance();
      }
      count(done);
    } while (done != trips);
    wgmma_wait<0>();
    double sum = 0;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sum += sums[i];
    const u32 thread = blockIdx.x * MULTIPLYING + threadIdx.x;
    out[thread] = done;
    out[gridDim.x * MULTIPLYING + thread] = sum;
  }
  cluster_barrier();  // No block may leave while another can still arrive on its barriers.
}
