// Stages of a ring in shared memory, handed from copying to multiplying warps and back: a pair of
// mbarriers (sm_90 on) for each of STAGES slots, 8 bytes each, the full ones first.

#include "common/barriers.cuh"

DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

// `barrier_wait` with its loop as one piece to the compiler. A loop that it sees compiles to other
// machine code than what was timed.
DEVICE void barrier_await(u32 barrier, u32 parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n"
      "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra again;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
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
