// From accumulators to C: rounding, the way through shared memory that lets TMA write whole lines
// and clip at the edges of C, and adding up the partial sums of tiles cut along k.
//
// Each warp stores its own 16 rows, 128 bytes of columns at a time, through its own two staging
// buffers, so no warp waits for another. In a wgmma result of 64 rows, lane l of warp w holds in
// registers 4j..4j+3 rows 16w + l/4 and + 8 (two registers each), columns 8j + 2(l%4) and + 1.

#if defined(FORMAT_INT8) || defined(FORMAT_TF32)
#define OUTPUT_BYTES 4
#else
#define OUTPUT_BYTES 2
#endif
#define SLICE_COLUMNS (128 / OUTPUT_BYTES)
#define SLICES (BLOCK_N / SLICE_COLUMNS)
static_assert(BLOCK_N % SLICE_COLUMNS == 0, "a tile is stored in whole lines");
#define SLICE_BYTES (16 * 128)
#define WARP_STAGING_BYTES (2 * SLICE_BYTES)

// What a thread stores of one slab of 64 rows: words of two 16-bit values, or the sums themselves.
#if OUTPUT_BYTES == 2
typedef u32 Stored;
#else
typedef Accumulator Stored;
#endif
#define SLAB_WORDS (BLOCK_N / 2 * OUTPUT_BYTES / 4)
#define SLICE_WORDS (SLAB_WORDS / SLICES)

DEVICE void round_slab(Stored* stored, const Accumulator* sums) {
#pragma unroll
  for (int i = 0; i < SLAB_WORDS; ++i) {
#if defined(FORMAT_FP16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(stored[i]) : "f"(sums[2 * i + 1]), "f"(sums[2 * i]));
#elif OUTPUT_BYTES == 2
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(stored[i]) : "f"(sums[2 * i + 1]), "f"(sums[2 * i]));
#else
    stored[i] = sums[i];
#endif
  }
}

// Sixteen rows x 128 bytes of one warp into `staging`, in the 128-byte swizzle: 16-byte chunk
// index XOR row modulo 8. Numbers of pieces are XORed in as constants.
DEVICE void stage_slice(u32 staging, const Stored* words) {
  const u32 lane = thread_read_anew() % 32;
#if OUTPUT_BYTES == 2
  const u32 row = lane % 16;
  const u32 first = staging + row * 128 + ((lane / 16) ^ (row % 8)) * 16;
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     first ^ (j * 16)),
                 "r"(words[2 * j]), "r"(words[2 * j + 1]), "r"(words[2 * j + 2]),
                 "r"(words[2 * j + 3])
                 : "memory");
#else
  const u32 row = lane / 4;
  const u32 first = staging + row * 128 + ((lane % 4 / 2) ^ row) * 16 + lane % 2 * 8;
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"((first ^ (j * 32)) + half * 1024),
                   SUM(words[4 * j + 2 * half]), SUM(words[4 * j + 2 * half + 1])
                   : "memory");
#endif
}

// Slice `slice` of a slab to memory; `row`, `column` are those of the warp's first element in it.
template <int slice>
DEVICE void store_slice(const Stored* slab, const TensorMap* c, int row, int column, u32 staging) {
  const u32 here = staging + slice % 2 * SLICE_BYTES;
  // The buffer of two stores ago; of the last one where an odd count brings it round at once.
  if (elect_one()) bulk_wait_read<(slice == 0 && SLICES % 2) ? 0 : 1>();
  __syncwarp();
  stage_slice(here, slab + slice * SLICE_WORDS);
  fence_async();
  __syncwarp();
  if (elect_one()) {  // The same lane each time: it waits for its own stores.
    tma_store(c, column + slice * SLICE_COLUMNS, row, here, policy_evict_first());
    bulk_commit();
  }
}

template <int slice = 0>
DEVICE void store_slab(const Stored* slab, const TensorMap* c, int row, int column, u32 staging) {
  store_slice<slice>(slab, c, row, column, staging);
  if constexpr (slice + 1 < SLICES) store_slab<slice + 1>(slab, c, row, column, staging);
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
