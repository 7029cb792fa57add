// Hopper's wgmma m64n256 and nothing else: operands lie in shared memory, which nobody writes.
//
//   peak(a, b, trips, out)   a: 64 rows, b: 256 rows, rows of 128 bytes; out as in counted.cuh
//
// A trip is STEPS instructions over the row's four steps of k again and again. Its first one starts
// the sums from nothing, as a tile of a product does.

#include "peak/counted.cuh"
#include "gemm/sm90_wgmma.cuh"

constexpr int kSteps = STEPS, kRowBytes = 128, kSums = INSTRUCTION_N / 2;

extern __shared__ unsigned char memory[];

// `rows` rows of 128 bytes with the 128-byte swizzle: chunk c of row r lies at c ^ r % 8.
DEVICE void copy(const uint4* from, u32 to, int rows) {
  for (int i = threadIdx.x; i < rows * (kRowBytes / 16); i += THREADS) {
    uint4 v = from[i];
    const int row = i / 8;
#ifdef FORMAT_TF32
    u32* const words = reinterpret_cast<u32*>(&v);
#pragma unroll
    for (int w = 0; w < 4; ++w)
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(words[w]) : "f"(__uint_as_float(words[w])));
#endif
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                     to + row * kRowBytes + ((i % 8) ^ (row % 8)) * 16),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    peak(const uint4* a, const uint4* b, u32 trips, double* out) {
  u64 first;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(first) : "l"(memory));
  const u32 panel_b = (u32(first) + 1023) & ~1023u;
  const u32 panel_a = panel_b + INSTRUCTION_N * kRowBytes;
  copy(a, panel_a, 64);
  copy(b, panel_b, INSTRUCTION_N);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  Accumulator sums[kSums] = {};
  const u32 from_a = lower_descriptor(panel_a), from_b = lower_descriptor(panel_b);
  u32 done = 0;
#pragma unroll 1
  do {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      wgmma(sums, descriptor(from_a + step % 4 * 2), descriptor(from_b + step % 4 * 2), step != 0);
    wgmma_commit();
    wgmma_wait<1>();  // The next trip queues behind this one, so the unit never waits for it.
    count(done);
  } while (done != trips);
  wgmma_wait<0>();
  double sum = 0;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum += sums[i];
  report(out, done, sum);
}
