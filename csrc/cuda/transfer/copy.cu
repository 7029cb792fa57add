// A copy by the SMs, over the link where one side is memory of the host: every thread has UNROLL
// loads of 16 bytes in flight, since a round trip over PCIe takes a microsecond or more, and those
// of a warp adjoin. The next copy in the queue, if it is launched to overlap, starts as the blocks
// of this one end: else the link would run dry for some microseconds between two.

constexpr int kUnroll = 8;
constexpr int kWarp = 32;

extern "C" __global__ void __launch_bounds__(512)
    copy(uint4* to, const uint4* from, long long count) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const long long threads = (long long)gridDim.x * blockDim.x;
  const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long round = kUnroll * threads;
  // A division takes longer than a small copy's own instructions.
  const long long rounds_end = count < round ? 0 : count / round * round;
  long long at = thread / kWarp * (kUnroll * kWarp) + thread % kWarp;
  for (; at < rounds_end; at += round) {
    uint4 part[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) part[i] = from[at + i * kWarp];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) to[at + i * kWarp] = part[i];
  }
  for (at = rounds_end + thread; at < count; at += threads) to[at] = from[at];
}
