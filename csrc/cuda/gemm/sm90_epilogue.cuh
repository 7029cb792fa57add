// From accumulators to C: adding up the partial sums of tiles cut along k, rounding, and the way
// through shared memory that turns them into whole 128-byte lines.
//
// Each warp stores its own 16 rows, 128 bytes of columns at a time, through its own two staging
// buffers, so no warp waits for another. Ordinary stores: a TMA store would have to finish reading
// its buffer before the next piece goes in, and that wait is longer than the stores themselves.
// In a wgmma result of 64 rows, lane l of warp w holds in registers 4j..4j+3 rows 16w + l/4 and
// + 8 (two registers each), columns 8j + 2(l%4) and + 1.

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

DEVICE u32 rounded_pair(float low, float high) {
  u32 pair;
#ifdef FORMAT_FP16
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#else
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
  return pair;
}

// Which 16-byte chunk of a staged row holds chunk 0: the others follow by XOR. Chosen so that the
// lanes that write together, 8 rows of one chunk or 4 rows of two, meet in no bank.
DEVICE u32 first_chunk(u32 row) {
  return OUTPUT_BYTES == 2 ? row % 8 : row % 4 * 2;
}

// Sixteen rows x 128 bytes of one warp into `staging`.
DEVICE void stage_slice(u32 staging, const Accumulator* sums, u32 lane) {
#if OUTPUT_BYTES == 2
  const u32 row = lane % 16;
  const u32 first = staging + row * 128 + ((lane / 16) ^ first_chunk(row)) * 16;
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const Accumulator* s = sums + 4 * j;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     first ^ (j * 16)),
                 "r"(rounded_pair(s[0], s[1])), "r"(rounded_pair(s[2], s[3])),
                 "r"(rounded_pair(s[4], s[5])), "r"(rounded_pair(s[6], s[7]))
                 : "memory");
  }
#else
  const u32 row = lane / 4;
  const u32 first = staging + row * 128 + ((lane % 4 / 2) ^ first_chunk(row)) * 16 + lane % 2 * 8;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Accumulator* s = sums + 4 * j + 2 * half;
      asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"((first ^ (j * 32)) + half * 1024),
                   SUM(s[0]), SUM(s[1])
                   : "memory");
    }
  }
#endif
}

// One staged slice of C to memory: `row`, `column` are those of the first element of the warp's
// 16 rows. Lanes 8i..8i+7 write one line, 16 bytes each; what lies outside C is left out.
DEVICE void store_slice(const Plan& plan, u32 staging, int row, int column, u32 lane) {
  const u32 chunk = lane % 8;
  const u32 from = staging + lane / 8 * 128 + (chunk ^ first_chunk(lane / 8)) * 16;
  const bool inside = column + (int)chunk * (16 / OUTPUT_BYTES) < plan.n;
  char* to = plan.c + ((u64)(row + (int)lane / 8) * plan.n + column) * OUTPUT_BYTES + chunk * 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 piece[4];
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(piece[0]), "=r"(piece[1]), "=r"(piece[2]), "=r"(piece[3])
                 : "r"((from ^ first_chunk(i * 4) * 16) + i * 512)
                 : "memory");
    if (inside && row + i * 4 + (int)lane / 8 < plan.m)
      store_evict_first(to + (u64)(i * 4) * plan.n * OUTPUT_BYTES, piece);
  }
}

// One slab: 64 rows of the warpgroup, of which this warp stores rows `row` to `row` + 15.
DEVICE void store_slab(const Accumulator* sums, const Plan& plan, int row, int column,
                       u32 staging) {
  const u32 lane = thread_read_anew() % 32;
#pragma unroll
  for (int slice = 0; slice < SLICES; ++slice) {
    const u32 here = staging + slice % 2 * SLICE_BYTES;
    stage_slice(here, sums + slice * SLICE_COLUMNS / 2, lane);
    __syncwarp();
    store_slice(plan, here, row, column + slice * SLICE_COLUMNS, lane);
  }
  __syncwarp();
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
