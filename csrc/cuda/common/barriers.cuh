// mbarriers, on which copies in the background complete (compute capability 9.0 and later), and the
// order between such copies and ordinary writes. PTX ISA 8.x; addresses of shared memory are 32-bit.

#include "common/words.cuh"

#define HAS_SHARED_ADDRESS
DEVICE u32 shared_address(const void* pointer) {
  u64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return u32(address);
}

#if __CUDA_ARCH__ >= 900
DEVICE void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes initialised barriers visible to the copy engine and to the cluster.
DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival, which also announces how many bytes the copy engine will bring.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
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

// Arrives on a barrier of any block of the cluster. It orders no ordinary writes (asking for release
// at cluster scope costs a full memory barrier): enough where callers have used what they read.
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

  DEVICE void wear() {
    if (++tries == WAIT_LIMIT) asm volatile("trap;");
  }
#else
  DEVICE void wear() {}
#endif
};

// Waits for the phase of this parity to end. The phase before a fresh barrier's first, of parity 1,
// counts as ended.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
  for (Patience patience; !barrier_test(barrier, parity);) patience.wear();
}

// --- copies from shared memory, in groups of a thread ---------------------------------------------

DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until at most `pending` of this thread's groups still read shared memory.
template <int pending>
DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// Makes ordinary writes to shared memory visible to the copy engine and the tensor cores.
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
