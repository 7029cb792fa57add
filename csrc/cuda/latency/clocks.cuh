// What all chases share: the clocks, and what is reported.

typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE __device__ __forceinline__

// What a chase reports: SM cycles and nanoseconds of the timed rounds, and where it ended, in
// bytes from the first place.
struct Out {
  u64 cycles, nanoseconds, end;
};

DEVICE u64 global_timer() {
  u64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  return ns;
}

// The cycle counter, read when `loaded` (never 0) has arrived and not before.
DEVICE i64 clock_after(u64 loaded) {
  i64 cycles = 0;
  asm volatile(
      "{ .reg .pred p;\n"
      "setp.ne.u64 p, %1, 0;\n"
      "@p mov.u64 %0, %%clock64; }"
      : "+l"(cycles)
      : "l"(loaded)
      : "memory");
  return cycles;
}
