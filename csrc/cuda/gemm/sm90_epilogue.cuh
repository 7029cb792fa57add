// From accumulators to C: adding up the partial sums of tiles cut along k, rounding, and the way
// through shared memory that lets TMA write whole 128-byte lines and clip at the edges of C.
//
// Each warp stores its own 16 rows, 128 bytes of columns at a time, through its own staging
// buffers, so no warp waits for another. In a wgmma result of 64 rows, lane l of warp w holds in
// registers 4j..4j+3 rows 16w + l/4 and + 8 (two registers each), columns 8j + 2(l%4) and + 1.

#if defined(FORMAT_INT8) || defined(FORMAT_TF32)
#define OUTPUT_BYTES 4
#else
#define OUTPUT_BYTES 2
#endif
#define SLICE_COLUMNS (128 / OUTPUT_BYTES)
#define SLICES (BLOCK_N / SLICE_COLUMNS)
static_assert(BLOCK_N % SLICE_COLUMNS == 0 && SLICES % STORE_BUFFERS == 0, "buffers in turn");
#define SLICE_BYTES (16 * 128)
#define WARP_STAGING_BYTES (STORE_BUFFERS * SLICE_BYTES)

DEVICE u32 rounded_pair(float low, float high) {
  u32 pair;
#ifdef FORMAT_FP16
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}

// Sixteen rows x 128 bytes of one warp into `staging`, in the 128-byte swizzle (16-byte chunk
// index XOR row modulo 8), which also keeps the banks apart.
DEVICE void stage_slice(u32 staging, const Accumulator* sums) {
  const int lane = threadIdx.x % 32;
#if OUTPUT_BYTES == 2
  const int row = lane % 16;
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const Accumulator* s = sums + 4 * j;
    const u32 chunk = (j + lane / 16) ^ (row % 8);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     staging + row * 128 + chunk * 16),
                 "r"(rounded_pair(s[0], s[1])), "r"(rounded_pair(s[2], s[3])),
                 "r"(rounded_pair(s[4], s[5])), "r"(rounded_pair(s[6], s[7]))
                 : "memory");
  }
#else
  // Odd rows take the pieces in another order: otherwise rows 2i and 2i+1 meet in the same banks.
  const int row = lane / 4;
  const bool odd = row % 2;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Accumulator first = odd ? sums[4 * (j ^ 2) + 2 * half] : sums[4 * j + 2 * half];
      const Accumulator second =
          odd ? sums[4 * (j ^ 2) + 2 * half + 1] : sums[4 * j + 2 * half + 1];
      const int piece = odd ? j ^ 2 : j;
      const u32 chunk = (2 * piece + lane % 4 / 2) ^ row;
      const u32 to = staging + (row + 8 * half) * 128 + chunk * 16 + lane % 2 * 8;
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), SUM(first), SUM(second)
                   : "memory");
    }
  }
#endif
}

// One slab: 64 rows of the warpgroup, of which this warp stores rows `row` to `row` + 15.
DEVICE void store_slab(const Accumulator* sums, const TensorMap* c, int row, int column,
                       u32 staging, u64 policy) {
#pragma unroll
  for (int slice = 0; slice < SLICES; ++slice) {
    const u32 here = staging + slice % STORE_BUFFERS * SLICE_BYTES;
    if (elect_one()) tma_store_wait_read<STORE_BUFFERS - 1>();
    __syncwarp();
    stage_slice(here, sums + slice * SLICE_COLUMNS / 2);
    fence_async_proxy();
    __syncwarp();
    if (elect_one()) {  // The same lane each time: it waits for its own stores.
      tma_store(c, column + slice * SLICE_COLUMNS, row, here, policy);
      tma_store_commit();
    }
  }
}

// --- tiles cut along k ------------------------------------------------------------------------

#define SUMS (SLABS * BLOCK_N / 2)

DEVICE u32 block_slot(int cluster) {
  return cluster * (CLUSTER_M * CLUSTER_N) + cluster_rank();
}

// Where sums 4i..4i+3 of this thread lie: neighbouring threads side by side.
DEVICE Accumulator* partial(const Plan& plan, u32 slot, int warpgroup) {
  return plan.partials + ((u64)slot * WARPGROUPS + warpgroup) * (SUMS * 128) + threadIdx.x % 128 * 4;
}

// Leave this warpgroup's sums for the block that began the tile.
DEVICE void leave_partial(const Plan& plan, const Accumulator* sums, int warpgroup) {
  const u32 slot = block_slot(cluster_index());
  Accumulator* to = partial(plan, slot, warpgroup);
#pragma unroll
  for (int i = 0; i < SUMS; i += 4)
    asm volatile("st.global.cg.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + i * 128), SUM(sums[i]),
                 SUM(sums[i + 1]), SUM(sums[i + 2]), SUM(sums[i + 3])
                 : "memory");
  __threadfence();
  named_barrier(1 + warpgroup, 128);
  if (threadIdx.x % 128 == 0)
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(plan.ready + slot * WARPGROUPS +
                                                             warpgroup),
                 "r"(1)
                 : "memory");
}

// Add what the clusters after this one computed of the same tile, which ends at step `tile_end` of
// the tail, and lower their flags again.
DEVICE void add_partials(const Plan& plan, int tile_end, Accumulator* sums, int warpgroup) {
  for (int other = (int)cluster_index() + 1; other * plan.share < tile_end; ++other) {
    const u32 slot = block_slot(other);
    u32* flag = plan.ready + slot * WARPGROUPS + warpgroup;
    if (threadIdx.x % 128 == 0) {
      u32 ready;
      for (Patience patience;; patience.wear()) {
        asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
        if (ready) break;
      }
      *flag = 0;
    }
    named_barrier(1 + warpgroup, 128);
    const Accumulator* from = partial(plan, slot, warpgroup);
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
      Accumulator more[4];
      asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=" SUM(more[0]), "=" SUM(more[1]), "=" SUM(more[2]), "=" SUM(more[3])
                   : "l"(from + i * 128)
                   : "memory");
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i + j] += more[j];
    }
  }
}
