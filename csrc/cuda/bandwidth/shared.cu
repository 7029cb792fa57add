// Shared memory of one SM, or of a neighbour in the cluster (HOP blocks on, from compute
// capability 9.0). Each block fills its chunk of UNROLL x THREADS packs from `a`, then reads it,
// or its neighbour's, `passes` times: a warp reads 512 bytes in a row, which meets every bank
// evenly. OP=write stores instead: the first pack of `a`, its first word being the pass; then it
// reads once.
//
//   shared_memory(a, sums, passes)   sums[block] = sum of all 32-bit words read, mod 2^32

#include "bandwidth/access.cuh"
#include "common/bulk.cuh"

#ifndef HOP
#define HOP 0
#endif

constexpr bool kReads = kOp == Op::read;

extern __shared__ __align__(128) Pack chunk[];

// Volatile to the assembler too, which otherwise loads once what every pass reads again.
DEVICE Pack get(u32 from) {
  Pack v;
#if HOP
  asm volatile("ld.volatile.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : PACK_OUT(v) : "r"(from));
#else
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : PACK_OUT(v) : "r"(from));
#endif
  return v;
}

DEVICE void set(u32 to, const Pack& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), PACK_IN(v) : "memory");
}

DEVICE void cluster_barrier() {
#if HOP && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

// Where a block HOP ranks on has what lies at `address` here.
DEVICE u32 neighbour(u32 address) {
#if HOP && __CUDA_ARCH__ >= 900
  u32 rank, size, there;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"((rank + HOP) % size));
  return there;
#else
  return address;
#endif
}

DEVICE void add(const Pack& v, u32 (&words)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] += v.word[i];
}

DEVICE void read_chunk(u32 from, u32 (&words)[4]) {
  Pack v[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) v[i] = get(from + i * THREADS * 16);
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) add(v[i], words);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    shared_memory(const Pack* a, u32* sums, int passes) {
  const u32 own = shared_address(chunk) + threadIdx.x * 16, from = neighbour(own);
  Pack seed = a[0];
  u32 words[4] = {};
#pragma unroll 1
  for (int i = 0; i < UNROLL; ++i) set(own + i * THREADS * 16, a[i * THREADS + threadIdx.x]);
  cluster_barrier();
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    if constexpr (kReads) {
      read_chunk(from, words);
    } else {
      seed.word[0] = u32(pass);
#pragma unroll
      for (int i = 0; i < UNROLL; ++i) set(own + i * THREADS * 16, seed);
    }
  }
  if constexpr (!kReads) read_chunk(own, words);
  cluster_barrier();  // A neighbour may still be reading here.
  Totals totals;
#pragma unroll
  for (int i = 0; i < 4; ++i) totals.unit[i] = words[i];
  write_partial_sum(totals, sums);
}
