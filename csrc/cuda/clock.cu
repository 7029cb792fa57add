// Reads each SM's cycle counter and the global nanosecond timer. Two launches around a piece of
// work give the mean SM clock during it: (cycles after - before) / (ns after - before).
// Launched with one block of one thread per SM and enough blocks that every SM gets some.

typedef unsigned long long u64;

extern "C" __global__ void clock_probe(u64* __restrict__ cycles, u64* __restrict__ nanoseconds) {
  unsigned sm;
  u64 ns;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  cycles[sm] = clock64();
  nanoseconds[sm] = ns;
}
