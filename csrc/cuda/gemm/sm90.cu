// C[m,n] = A[m,k] B[n,k]^T on Hopper: TMA feeds a ring of shared-memory stages, warpgroups multiply
// them with wgmma. Persistent: one block per SM walks through its tiles while the
// loads run ahead, so that the next tile's operands arrive during the epilogue.
//
// Macros: FORMAT_*; BLOCK_M, BLOCK_N (tile of a block), WARPGROUPS (that multiply, each BLOCK_M /
// WARPGROUPS rows), INSTRUCTION_N, STAGES; CLUSTER_M, CLUSTER_N (blocks that share operands by
// multicast); PRODUCER (1: a warpgroup of its own loads; 0: one lane of the first warpgroup does,
// which leaves its registers to the sums); PROMOTE (add
// the tensor core's sums to full-precision ones after every stage); POLICY_A, POLICY_B (L2 hint:
// evict_first, evict_normal or evict_last); SERPENTINE (1: every other tile backwards along k); PREFETCH (k steps that loads into the second-level
// cache run ahead of those into shared memory; 0: none).

#include "common/ptx_sm90.cuh"
#include "gemm/sm90_wgmma.cuh"
#include "gemm/sm90_schedule.cuh"

#define SLABS (BLOCK_M / WARPGROUPS / 64)
#include "gemm/sm90_epilogue.cuh"

#if defined(FORMAT_FP16) || defined(FORMAT_BF16)
#define STEP 64  // elements of k in a stage: 128 bytes, the span of the swizzle
#elif defined(FORMAT_TF32)
#define STEP 32
#else
#define STEP 128
#endif

#define THREADS ((WARPGROUPS + PRODUCER) * 128)
#define CLUSTER (CLUSTER_M * CLUSTER_N)
#define A_BYTES (BLOCK_M * 128)
#define B_BYTES (BLOCK_N * 128)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define STAGING_BYTES (WARPGROUPS * 4 * WARP_STAGING_BYTES)
#define BARRIER_BYTES (STAGES * 16)

// Blocks that use what this block loads, and whose loads this block uses.
#define SHARERS (CLUSTER_M + CLUSTER_N - 1)

#define POLICY__(word) policy_##word()
#define POLICY_(word) POLICY__(word)

// Layout of shared memory: stages, staging of C, barriers; behind them the loader's state where a
// multiplying warp loads.
struct Ring {
  u32 stages, staging, full, empty;

  __device__ __forceinline__ Ring(u32 base) {
    stages = base;
    staging = stages + STAGES * STAGE_BYTES;
    full = staging + STAGING_BYTES;
    empty = full + STAGES * 8;
  }
};

struct Position {
  u32 stage = 0, parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == STAGES) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Walks the same pieces as the multiplying warps, ahead of them. Used by one lane.
struct Loader {
  Schedule schedule;
  Piece piece;
  bool more, backwards;

  __device__ __forceinline__ void begin(const Plan& plan) {
    schedule.begin(plan);
    more = schedule.next(plan, piece);
    backwards = false;
  }

  // Load the next k step into `stage` once everybody has finished with what it held; `parity` is
  // that of the loads into it: 0 for the first.
  __device__ __forceinline__ void step(const Plan& plan, const Ring& ring, const TensorMap* a,
                                       const TensorMap* b, u32 stage, u32 parity) {
    if (!more) return;
    barrier_wait(ring.empty + stage * 8, parity ^ 1);
    const u32 full = ring.full + stage * 8;
    const u32 to = ring.stages + stage * STAGE_BYTES;
    barrier_expect(full, STAGE_BYTES);
    const u32 rank = cluster_rank(), rank_m = rank % CLUSTER_M, rank_n = rank / CLUSTER_M;
    const int x = (backwards ? plan.k_steps - 1 - piece.k : piece.k) * STEP;
#if PREFETCH
    if (piece.k + PREFETCH < plan.k_steps) {
      const int ahead = x + (backwards ? -PREFETCH : PREFETCH) * STEP;
      tma_prefetch(a, ahead, piece.row + rank_n * (BLOCK_M / CLUSTER_N), POLICY_(POLICY_A));
      tma_prefetch(b, ahead, piece.column + rank_m * (BLOCK_N / CLUSTER_M), POLICY_(POLICY_B));
    }
#endif
    load<CLUSTER_N>(to, a, x, piece.row, BLOCK_M, rank_n,
                    ((1 << CLUSTER) - 1) / ((1 << CLUSTER_M) - 1) << rank_m, full,
                    POLICY_(POLICY_A));
    load<CLUSTER_M>(to + A_BYTES, b, x, piece.column, BLOCK_N, rank_m,
                    ((1 << CLUSTER_M) - 1) << rank_n * CLUSTER_M, full, POLICY_(POLICY_B));
    if (++piece.k == piece.k_end) {
      more = schedule.next(plan, piece);
      // Every other tile from the far end of k: what the last one left in the second-level cache
      // is then used before it is pushed out.
      backwards = SERPENTINE && !backwards && piece.k_end - piece.k == plan.k_steps;
    }
  }

 private:
  // This block's part of an operand tile of `rows` rows, to all `parts` blocks that share it.
  template <int parts>
  __device__ __forceinline__ void load(u32 to, const TensorMap* map, int x, int row, int rows,
                                       u32 part, u32 blocks, u32 full, u64 policy) {
    const int height = rows / parts;
    if (parts == 1)
      tma_load(to, map, x, row, full, policy);
    else
      tma_load_shared(to + part * height * 128, map, x, row + part * height, full,
                      (unsigned short)blocks, policy);
  }
};

// How one warp tells every block that writes into its stages that it has finished with one: lane
// i to block i of the cluster.
struct Release {
  u32 empty;
  bool tells;

  __device__ __forceinline__ Release(const Ring& ring) {
    const u32 lane = threadIdx.x % 32, rank = cluster_rank();
    tells = lane < CLUSTER &&
            (lane % CLUSTER_M == rank % CLUSTER_M || lane / CLUSTER_M == rank / CLUSTER_M);
    empty = CLUSTER == 1 ? ring.empty : address_in(ring.empty, lane % CLUSTER);
  }

  __device__ __forceinline__ void operator()(u32 stage) const {
    if (!tells) return;
    if (CLUSTER == 1)
      barrier_arrive(empty + stage * 8);
    else
      barrier_arrive_remote(empty + stage * 8);
  }
};

typedef Accumulator Sums[SLABS][BLOCK_N / 2];

// Queue the products of one stage; `add` 0 starts new sums.
DEVICE void multiply(Sums& sums, u64 a, u64 b, u32 add) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
#pragma unroll
      for (int part = 0; part < BLOCK_N / INSTRUCTION_N; ++part)
        wgmma(&sums[slab][part * INSTRUCTION_N / 2], a + slab * (64 * 128 / 16) + k * 2,
              b + part * (INSTRUCTION_N * 128 / 16) + k * 2, k == 0 ? add : 1);
  wgmma_commit();
}

#if PROMOTE
DEVICE void clear(Sums& sums) {
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sums[0][i] = 0;
}

DEVICE void add(Sums& sums, const Sums& more) {
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sums[0][i] += more[0][i];
}
#endif

#if LATE_STORE
static_assert(SLABS == 1 && OUTPUT_BYTES == 2, "registers for one slab of rounded results");

// Store the slices of an earlier tile, each after one more `step` of the present one.
template <int slice, class Step>
DEVICE void store_late(const Stored* slab, const TensorMap* c, int row, int column, u32 staging,
                       const Step& step) {
  step();
  if (column >= 0) store_slice<slice>(slab, c, row, column, staging);
  if constexpr (slice + 1 < SLICES) store_late<slice + 1>(slab, c, row, column, staging, step);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    gemm_sm90(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
              const __grid_constant__ TensorMap c, const __grid_constant__ Plan plan) {
  extern __shared__ __align__(1024) char shared[];  // The swizzle counts from multiples of 1024.
  const Ring ring(shared_address(shared));
  const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);

  if (warp == 0 && elect_one()) {
    prefetch_map(&a);
    prefetch_map(&b);
    prefetch_map(&c);
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(ring.full + stage * 8, 1);
      barrier_init(ring.empty + stage * 8, WARPGROUPS * 4 * SHARERS);
    }
    barrier_init_fence();
  }
  if (CLUSTER == 1)
    __syncthreads();
  else
    cluster_barrier();
  wait_for_previous_kernel();
  allow_next_kernel();

#if PRODUCER
  if (warp >= WARPGROUPS * 4) {
    if (RESIDENT == 1) give_registers<PRODUCER_REGISTERS>();
    if (warp == WARPGROUPS * 4 && elect_one()) {
      Loader loader;
      loader.begin(plan);
      for (Position at; loader.more; at.advance())
        loader.step(plan, ring, &a, &b, at.stage, at.parity);
    }
    __syncwarp();
  } else {
    if (RESIDENT == 1) take_registers<CONSUMER_REGISTERS>();
#else
  {
    // In shared memory: every thread's registers would hold it, and the sums need them.
    Loader& loader = *(Loader*)(shared + STAGES * STAGE_BYTES + STAGING_BYTES + BARRIER_BYTES);
    if (warp == 0 && elect_one()) {
      loader.begin(plan);
      for (u32 stage = 0; stage < STAGES - 1; ++stage) loader.step(plan, ring, &a, &b, stage, 0);
    }
    __syncwarp();
#endif
    const u32 warpgroup = warp / 4;
    const int slab_row = warpgroup * (SLABS * 64);
    const u64 first_a = descriptor(ring.stages + slab_row * 128);
    const u64 first_b = descriptor(ring.stages + A_BYTES);
    const Release release(ring);
    Position at;
    Piece piece;
    Schedule schedule;
    schedule.begin(plan);
#if LATE_STORE
    Stored late[SLAB_WORDS];
    int late_row = 0, late_column = -1;  // -1: nothing to store
#endif
    const u32 staging = ring.staging + warp * WARP_STAGING_BYTES;
    while (schedule.next(plan, piece)) {
      Sums sums;
      const int warp_row = piece.row + slab_row + warp % 4 * 16;
      const bool inside = piece.row + slab_row < plan.m && piece.column < plan.n;
      const int begin = piece.k;
      int k = begin;
      const auto step = [&] {
        barrier_wait(ring.full + at.stage * 8, at.parity);
        const u64 offset = at.stage * (STAGE_BYTES / 16);
        const u32 previous = at.stage == 0 ? STAGES - 1 : at.stage - 1;
        if (inside) multiply(sums, first_a + offset, first_b + offset, k != begin);
        wgmma_wait<1>();
        if (k != begin) release(previous);
#if !PRODUCER
        // One step behind: its last readers are ahead of this warpgroup's products under way.
        if (warp == 0 && elect_one())
          loader.step(plan, ring, &a, &b, previous, at.stage == 0 ? at.parity : at.parity ^ 1);
        __syncwarp();
#endif
        at.advance();
        ++k;
      };
#if PROMOTE
      clear(sums);
      for (; k < piece.k_end; ++k, at.advance()) {
        barrier_wait(ring.full + at.stage * 8, at.parity);
        const u64 offset = at.stage * (STAGE_BYTES / 16);
        Sums fresh;
        multiply(fresh, first_a + offset, first_b + offset, 0);
        wgmma_wait<0>();
        release(at.stage);
        add(sums, fresh);
      }
#else
#if LATE_STORE
      // The tensor cores are busy with this tile while the last one goes out.
      store_late<0>(late, &c, late_row, late_column, staging, [&] {
        if (k < piece.k_end) step();
      });
      late_column = -1;
#endif
      while (k < piece.k_end) step();
      wgmma_wait<0>();
      release(at.stage == 0 ? STAGES - 1 : at.stage - 1);
#endif
      if (!inside) continue;
      if (begin != 0) {
        leave_partial(plan, sums[0], warpgroup);
        continue;
      }
      if (piece.k_end != plan.k_steps)
        add_partials(plan, schedule.position - piece.k_end + plan.k_steps, sums[0], warpgroup);
#if LATE_STORE
      round_slab(late, sums[0]);
      late_row = warp_row;
      late_column = piece.column;
#else
#pragma unroll
      for (int slab = 0; slab < SLABS; ++slab) {
        Stored stored[SLAB_WORDS];
        round_slab(stored, sums[slab]);
        store_slab(stored, &c, warp_row + slab * 64, piece.column, staging);
      }
#endif
    }
#if LATE_STORE
    if (late_column >= 0) store_slab(late, &c, late_row, late_column, staging);
#endif
    tma_store_wait_read<0>();
  }
  // No block may leave while another can still arrive on its barriers.
  if (CLUSTER > 1) cluster_barrier();
}
