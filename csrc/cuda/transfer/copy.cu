// A copy by the SMs, over the link where one side is memory of the host: every thread has UNROLL
// loads of 16 bytes in flight, since a round trip over PCIe takes a microsecond or more.

constexpr int kUnroll = 8;

extern "C" __global__ void __launch_bounds__(512)
    copy(uint4* to, const uint4* from, long long count) {
  const long long threads = (long long)gridDim.x * blockDim.x;
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  for (; at + (kUnroll - 1) * threads < count; at += kUnroll * threads) {
    uint4 part[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) part[i] = from[at + i * threads];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) to[at + i * threads] = part[i];
  }
  for (; at < count; at += threads) to[at] = from[at];
}
