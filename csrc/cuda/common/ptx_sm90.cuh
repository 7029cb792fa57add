// Hopper's machinery as one-line functions: the tensor copy engine (TMA), clusters, register
// reallocation; its barriers are included. PTX ISA 8.x; addresses of shared memory are 32-bit.

#include "common/barriers.cuh"

// The 128-byte descriptor that cuTensorMapEncodeTiled writes.
struct alignas(64) TensorMap {
  u64 words[16];
};

// One lane of a converged warp; the compiler knows that it is one, so TMA needs no loop over lanes.
DEVICE bool elect_one() {
  u32 chosen;
  asm volatile(
      "{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
  return chosen != 0;
}

// threadIdx.x read anew: what is computed from it is not kept in registers across a loop.
DEVICE u32 thread_read_anew() {
  u32 thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// --- clusters ---------------------------------------------------------------------------------

DEVICE u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

DEVICE u32 cluster_index() {
  u32 index;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
  return index;
}

DEVICE u32 cluster_count() {
  u32 count;
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
  return count;
}

// All threads of the cluster have come here. Orders no memory accesses.
DEVICE void cluster_barrier() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// --- dependent launches -----------------------------------------------------------------------

// The next kernel of the stream, if launched so, may start its preamble as soon as SMs are free.
DEVICE void allow_next_kernel() {
  asm volatile("griddepcontrol.launch_dependents;");
}

// Until the kernels before have finished and their writes can be seen. Without the launch
// attribute this returns at once.
DEVICE void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// --- TMA --------------------------------------------------------------------------------------

DEVICE void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

DEVICE u64 policy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

DEVICE u64 policy_evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

DEVICE u64 policy_evict_normal() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// A box at column x, row y into this block's shared memory.
DEVICE void tma_load(u32 to, const TensorMap* map, int x, int y, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

// The same into every block of the cluster whose bit is set in `blocks`, at the same offset;
// each block's own barrier counts the bytes.
DEVICE void tma_load_shared(u32 to, const TensorMap* map, int x, int y, u32 barrier,
                            unsigned short blocks, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks), "l"(policy)
      : "memory");
}

DEVICE void tma_store(const TensorMap* map, int x, int y, u32 from, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint"
      " [%0, {%1, %2}], [%3], %4;" ::"l"(map),
      "r"(x), "r"(y), "r"(from), "l"(policy)
      : "memory");
}

// --- registers and named barriers -------------------------------------------------------------

template <int registers>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

DEVICE void named_barrier(u32 name, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}
