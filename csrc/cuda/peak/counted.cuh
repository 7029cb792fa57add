// What all probes share: the counted loop and what each thread leaves behind.
//
// Each of `threads` threads of a block stores two doubles: how many trips of the loop it made, in
// the first half of `out`, and the sum of its chains in the second.

#include "common/types.cuh"

// One trip more. The compiler does not see through it, so a loop that it removed is not counted.
DEVICE void count(u32& done) { asm volatile("add.u32 %0, %0, 1;" : "+r"(done)); }

// Zero, as long as fewer than 2^31 trips were made. Sums that restart from it differ from trip to
// trip as far as the compiler knows, so it cannot take them out of the loop.
DEVICE u32 zero_of(u32 done) { return done >> 31; }

DEVICE void report(double* out, u32 done, double sum) {
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  out[thread] = done;
  out[gridDim.x * blockDim.x + thread] = sum;
}
