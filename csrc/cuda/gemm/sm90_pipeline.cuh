// The ring of shared-memory stages between TMA and the multiplying warps: its layout, who fills it
// and how a stage is given back. A stage holds 128 bytes of k of both operands of a block.

#define A_BYTES (BLOCK_M * 128)
#define B_BYTES (BLOCK_N * 128)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define STAGING_BYTES (WARPGROUPS * 4 * WARP_STAGING_BYTES)
#define BARRIER_BYTES (STAGES * 16)

// Blocks that use what this block loads, and whose loads this block uses.
#define SHARERS (CLUSTER_M + CLUSTER_N - 1)

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
    load<BLOCK_M, CLUSTER_N>(to, a, x, piece.row, rank_n,
                             ((1 << CLUSTER) - 1) / ((1 << CLUSTER_M) - 1) << rank_m, full,
                             POLICY_(POLICY_A));
    load<BLOCK_N, CLUSTER_M>(to + A_BYTES, b, x, piece.row_of_b(), rank_m,
                             ((1 << CLUSTER_M) - 1) << rank_n * CLUSTER_M, full,
                             POLICY_(POLICY_B));
    if (++piece.k == piece.k_end) {
      more = schedule.next(plan, piece);
      // Every other tile from the far end of k: what the last one left in the second-level cache
      // is then used before it is pushed out.
      backwards = !backwards && piece.k_end - piece.k == plan.k_steps;
    }
  }

 private:
  // This block's share of an operand tile of `rows` rows, to all `parts` blocks that use it: one
  // box, or where the tile does not divide evenly every `parts`-th of its boxes of 32 rows.
  template <int rows, int parts>
  __device__ __forceinline__ void load(u32 to, const TensorMap* map, int x, int row, u32 part,
                                       u32 blocks, u32 full, u64 policy) {
    constexpr bool even = rows % (8 * parts) == 0;
    constexpr int box = even ? rows / parts : 32;
#pragma unroll
    for (int i = 0; i < (even ? 1 : (rows / box + parts - 1) / parts); ++i) {
      const int from = (part + i * parts) * box;
      if (!even && from >= rows) break;
      if (parts == 1)
        tma_load(to + from * 128, map, x, row + from, full, policy);
      else
        tma_load_shared(to + from * 128, map, x, row + from, full, (unsigned short)blocks, policy);
    }
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
