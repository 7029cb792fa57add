// Stages of a ring in shared memory, handed from copying to multiplying warps and back: a pair of
// mbarriers (sm_90 on) for each of STAGES slots, 8 bytes each, the full ones first.

DEVICE void barrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Waits for the phase of this parity to end; the phase before a fresh barrier's first has ended.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra again;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
}

DEVICE void barrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same in block `rank` of the cluster. Asking for release at the cluster's scope would cost a full
// memory barrier; callers have already used what they read.
DEVICE void barrier_arrive_in(u32 barrier, u32 rank) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\t"
      "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// One arrival, which also announces bytes that the copy engine will bring.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

// Counts as this thread's arrival once all its copies so far are there.
DEVICE void arrive_with_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

DEVICE u32 full(u32 barriers, int slot) { return barriers + slot * 8; }
DEVICE u32 empty(u32 barriers, int slot) { return barriers + (STAGES + slot) * 8; }

struct Slot {
  int index = 0;
  u32 parity = 0;  // of the round trip through the ring, 0 in the first
  DEVICE void advance() {
    if (++index == STAGES) index = 0, parity ^= 1;
  }
};
