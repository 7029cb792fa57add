// C[m,n] = A[m,k] B[n,k]^T on Hopper: TMA feeds a ring of shared-memory stages, warpgroups multiply
// them with wgmma, TMA stores C. Persistent: one block per SM walks through its tiles while the
// loads run ahead, so that the next tile's operands arrive while C is stored.
//
// Macros: FORMAT_*; BLOCK_M, BLOCK_N (tile of a block), WARPGROUPS (that multiply, each BLOCK_M /
// WARPGROUPS rows), INSTRUCTION_N, STAGES; CLUSTER_M, CLUSTER_N (blocks that share operands by
// multicast); PRODUCER (1: a warpgroup of its own loads; 0: one lane of the first warpgroup does,
// which leaves its registers to the sums); RESIDENT (blocks per SM; more than one where a launch
// should be able to start beside the one before it); LATE_STORE (1: a rounded tile waits in
// registers and is stored during the next one's products); PROMOTE (1: add the tensor core's sums
// to full-precision ones after every stage); POLICY_A, POLICY_B (evict_first, evict_normal or
// evict_last: order of leaving the second-level cache); BATCH (1: several products, whose rows of A,
// of B and of C lie one behind the other, tiles dividing m evenly).

#define POLICY__(word) policy_##word()
#define POLICY_(word) POLICY__(word)
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
#include "gemm/sm90_pipeline.cuh"

typedef Accumulator Sums[SLABS][BLOCK_N / 2];

// Queue the products of one stage; `add` 0 starts new sums.
DEVICE void multiply(Sums& sums, u32 a, u32 b, u32 add) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
#pragma unroll
      for (int part = 0; part < BLOCK_N / INSTRUCTION_N; ++part)
        wgmma(&sums[slab][part * INSTRUCTION_N / 2],
              descriptor(a + slab * (64 * 128 / 16) + k * 2),
              descriptor(b + part * (INSTRUCTION_N * 128 / 16) + k * 2), k == 0 ? add : 1);
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

// Barriers before anybody uses them, in this block and in the others of the cluster.
DEVICE void set_up(const Ring& ring, u32 warp, const TensorMap* a, const TensorMap* b,
                   const TensorMap* c) {
  if (warp == 0 && elect_one()) {
    prefetch_map(a);
    prefetch_map(b);
    prefetch_map(c);
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
}

#if PRODUCER
DEVICE void load_everything(const Plan& plan, const Ring& ring, const TensorMap* a,
                            const TensorMap* b) {
  Loader loader;
  loader.begin(plan);
  for (Position at; loader.more; at.advance()) loader.step(plan, ring, a, b, at.stage, at.parity);
}
#endif

// What a multiplying warp does from first to last. `loader` is used where there is no producer.
DEVICE void multiply_everything(const Plan& plan, const Ring& ring, u32 warp, const TensorMap* a,
                                const TensorMap* b, const TensorMap* c, Loader* loader) {
  const u32 warpgroup = warp / 4;
  const int slab_row = warpgroup * (SLABS * 64);
  const u32 staging = ring.staging + warp * WARP_STAGING_BYTES;
  const u32 first_a = lower_descriptor(ring.stages + slab_row * 128);
  const u32 first_b = lower_descriptor(ring.stages + A_BYTES);
  const Release release(ring);
#if LATE_STORE
  Stored late[SLAB_WORDS];
  int late_row = 0, late_column = -1;  // -1: nothing to store
#endif
  Position at;
  Piece piece;
  Schedule schedule;
  schedule.begin(plan);
  while (schedule.next(plan, piece)) {
    Sums sums;
    const int warp_row = piece.row + slab_row + warp % 4 * 16;
    const bool inside = piece.row < plan.m && piece.column < plan.n;
    const int begin = piece.k;
    int k = begin;
#if PROMOTE
    clear(sums);
    for (; k < piece.k_end; ++k, at.advance()) {
      barrier_wait(ring.full + at.stage * 8, at.parity);
      const u32 offset = at.stage * (STAGE_BYTES / 16);
      Sums fresh;
      multiply(fresh, first_a + offset, first_b + offset, 0);
      wgmma_wait<0>();
      release(at.stage);
      add(sums, fresh);
    }
#else
    // One stage; its products stay under way while the stage before is given back.
    const auto step = [&] {
      barrier_wait(ring.full + at.stage * 8, at.parity);
      const u32 offset = at.stage * (STAGE_BYTES / 16);
      const u32 previous = at.stage == 0 ? STAGES - 1 : at.stage - 1;
      if (inside) multiply(sums, first_a + offset, first_b + offset, k != begin);
      wgmma_wait<1>();
      if (k != begin) release(previous);
#if !PRODUCER
      if (warp == 0 && elect_one())
        loader->step(plan, ring, a, b, previous, at.stage == 0 ? at.parity : at.parity ^ 1);
      __syncwarp();
#endif
      at.advance();
      ++k;
    };
#if LATE_STORE
    // The tensor cores are busy with this tile while the last one goes out.
    store_late<0>(late, c, late_row, late_column, staging, [&] {
      if (k < piece.k_end) step();
    });
    late_column = -1;
#endif
    while (k < piece.k_end) step();
    wgmma_wait<0>();
    release(at.stage == 0 ? STAGES - 1 : at.stage - 1);
#endif
    // No `continue` here and nothing that differs from warp to warp above: else the compiler no longer
    // sees that a warp's threads are all at one stage, and the loop is half as long again.
    if (inside && begin != 0) {
      leave_partial(plan, sums[0], warpgroup);
    } else if (inside) {
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
        store_slab(stored, c, warp_row + slab * 64, piece.column, staging);
      }
#endif
    }
    __syncwarp();
  }
#if LATE_STORE
  if (late_column >= 0) store_slab(late, c, late_row, late_column, staging);
#endif
  bulk_wait_read<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    gemm_sm90(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
              const __grid_constant__ TensorMap c, const __grid_constant__ Plan plan) {
  extern __shared__ __align__(1024) char shared[];  // The swizzle counts from multiples of 1024.
  const Ring ring(shared_address(shared));
  const u32 warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  set_up(ring, warp, &a, &b, &c);
  wait_for_previous_kernel();
  allow_next_kernel();

#if PRODUCER
  if (warp >= WARPGROUPS * 4) {
    if (RESIDENT == 1) give_registers<PRODUCER_REGISTERS>();
    if (warp == WARPGROUPS * 4 && elect_one()) load_everything(plan, ring, &a, &b);
    __syncwarp();
  } else {
    if (RESIDENT == 1) take_registers<CONSUMER_REGISTERS>();
    multiply_everything(plan, ring, warp, &a, &b, &c, nullptr);
  }
#else
  // In shared memory: every thread's registers would hold it, and the sums need them.
  Loader* loader = (Loader*)(shared + STAGES * STAGE_BYTES + STAGING_BYTES + BARRIER_BYTES);
  if (warp == 0 && elect_one()) {
    loader->begin(plan);
    for (u32 stage = 0; stage < STAGES - 1; ++stage) loader->step(plan, ring, &a, &b, stage, 0);
  }
  __syncwarp();
  multiply_everything(plan, ring, warp, &a, &b, &c, loader);
#endif
  // No block may leave while another can still arrive on its barriers.
  if (CLUSTER > 1) cluster_barrier();
}
