// Holds a stream until the host raises a flag, so that work queued behind it starts together and
// the host's own speed stays out of the measurement. Gives up after `timeout_ns`: a host that
// died, or work that cannot be queued without the stream moving, must not hang the device.

typedef unsigned long long u64;

extern "C" __global__ void gate(const volatile unsigned* open, volatile unsigned* timed_out,
                                u64 timeout_ns) {
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (*open == 0) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > timeout_ns) {
      *timed_out = 1;
      return;
    }
  }
}
