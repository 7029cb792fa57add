// Hopper's asynchronous machinery as one-line functions: mbarriers, the tensor copy engine (TMA),
// clusters, register reallocation. PTX ISA 8.x; addresses of shared memory are 32-bit.

typedef unsigned u32;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__

// The 128-byte descriptor that cuTensorMapEncodeTiled writes.
struct alignas(64) TensorMap {
  u64 words[16];
};

DEVICE u32 shared_address(const void* pointer) {
  u64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return (u32)address;
}

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

// --- mbarriers --------------------------------------------------------------------------------

DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The one arrival of a `full` barrier, which also announces how many bytes TMA will bring.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
      : "memory");
}

DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Where block `rank` of the cluster has what lies at `address` here.
DEVICE u32 address_in(u32 address, u32 rank) {
  u32 remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

// Arrive on a barrier of any block of the cluster. It orders no ordinary writes (asking for release
// at cluster scope costs a full memory barrier): enough where only wgmma has read the stage.
DEVICE void barrier_arrive_remote(u32 remote) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}

DEVICE bool barrier_test(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{ .reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Where a wait has gone on for WAIT_LIMIT tries it becomes a trap: for development only.
struct Patience {
#ifdef WAIT_LIMIT
  u32 tries = 0;

  __device__ __forceinline__ void wear() {
    if (++tries == WAIT_LIMIT) asm volatile("trap;");
  }
#else
  __device__ __forceinline__ void wear() {}
#endif
};

// Wait until the phase of this parity has completed. A fresh barrier counts as having completed
// parity 1.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
  for (Patience patience; !barrier_test(barrier, parity);) patience.wear();
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

DEVICE void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until at most `pending` of this thread's store groups still read shared memory.
template <int pending>
DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// Makes ordinary writes to shared memory visible to TMA and the tensor cores.
DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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
