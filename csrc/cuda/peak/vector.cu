// Multiply-adds of the vector units and nothing else: CHAINS independent sums a thread.
//
//   peak(pairs, trips, out)   pairs[thread] = {a0, b0, a1, b1, ...}, CHAINS of them; out as in
//                             counted.cuh
//
// OP is ffma, hfma2 (of bf16 with HALF_IS_BF16=1), dfma, dp4a or imad. A trip gives each chain STEPS
// products a[step] b[chain + step]. Halves restart each trip, lest they stop growing. IMAD
// multiplies the chain, x = x a + b: a compiler would multiply constant factors once. No two chains
// may be alike, or they become one.
//
// A pair lies in an even and an odd register, so the three sources of an instruction are never in
// one bank of the register file, wherever the sum lies.

#include "peak/counted.cuh"

constexpr int kChains = CHAINS, kSteps = STEPS;

struct ffma {
  typedef float Word;
  static constexpr bool restarts = false;
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(x) : "f"(a), "f"(b), "f"(x));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct dfma {
  typedef double Word;
  static constexpr bool restarts = false;
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("fma.rn.f64 %0, %1, %2, %3;" : "=d"(x) : "d"(a), "d"(b), "d"(x));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct hfma2 {
  typedef u32 Word;
  static constexpr bool restarts = true;
  static DEVICE Word next(Word x, Word a, Word b) {
#if HALF_IS_BF16
    asm volatile("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(x));
#else
    asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(x));
#endif
    return x;
  }
  static DEVICE double value(Word x) {
#if HALF_IS_BF16
    return double(bf16::widen(u16(x))) + bf16::widen(u16(x >> 16));
#else
    return double(fp16_to_float(u16(x))) + fp16_to_float(u16(x >> 16));
#endif
  }
};

struct dp4a {
  typedef int Word;
  static constexpr bool restarts = false;
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(x));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct imad {
  typedef int Word;
  static constexpr bool restarts = false;
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("mad.lo.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(x), "r"(a), "r"(b));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

typedef OP::Word Word;

struct alignas(2 * sizeof(Word)) Pair {
  Word a, b;
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    peak(const Pair* pairs, u32 trips, double* out) {
  Pair p[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) p[i] = pairs[threadIdx.x * kChains + i];
  Word x[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) x[chain] = 0;
  u32 done = 0;
#pragma unroll 1
  do {
    const Word start = OP::restarts ? Word(zero_of(done)) : Word(0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain) {
        const Word from = OP::restarts && step == 0 ? start : x[chain];
        x[chain] = OP::next(from, p[step % kChains].a, p[(chain + step) % kChains].b);
      }
    count(done);
  } while (done != trips);
  double sum = 0;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += OP::value(x[chain]);
  report(out, done, sum);
}
