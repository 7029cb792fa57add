// Copies of elements that do not lie side by side: c[i] = a[index(i)] for i below `count`.
//
//   gather(a, c, count, stride, range)
//
// ACCESS=strided: index(i) = i x stride, in elements. ACCESS=random: index(i) is a permutation of
// the numbers below `range`, a mixing of bits that costs no memory traffic; the same function is
// in suite/bandwidth.py.

#include "bandwidth/formats.cuh"

enum class Access { strided, random };
typedef DTYPE::Element Element;

// A bijection on `bits` bits: odd multipliers and shifted exclusive-ors undo each other's gaps.
DEVICE u64 mix(u64 x, int bits) {
  const u64 mask = (u64(1) << bits) - 1;
  const int half = bits / 2 + 1;
  x = x * 0x9e3779b97f4a7c15u & mask;
  x ^= x >> half;
  x = x * 0xbf58476d1ce4e5b9u & mask;
  x ^= x >> half;
  return x * 0x94d049bb133111ebu & mask;
}

// Numbers that leave the range are mixed again until they come back: still a permutation.
DEVICE u64 shuffled(u64 i, u64 range) {
  const int bits = 64 - __clzll(i64(range - 1) | 1);
  do i = mix(i, bits);
  while (i >= range);
  return i;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const Element* a, Element* c, i64 count, i64 stride, i64 range) {
  const i64 step = i64(gridDim.x) * THREADS * UNROLL;
  for (i64 base = i64(blockIdx.x) * THREADS * UNROLL + threadIdx.x; base < count; base += step) {
    Element v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      const i64 at = base + i * THREADS;
      if (at < count)
        v[i] = a[Access::ACCESS == Access::strided ? at * stride : i64(shuffled(at, range))];
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      if (base + i * THREADS < count) c[base + i * THREADS] = v[i];
  }
}
