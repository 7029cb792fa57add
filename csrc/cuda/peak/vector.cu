// Multiply-adds of the vector units and nothing else: CHAINS independent sums a thread.
//
//   peak(pairs, trips, out)   pairs[thread] = {a0, b0, a1, b1, ...}, CHAINS of them; out as in
//                             counted.cuh
//
// OP is ffma, hfma2 (of bf16 with HALF_IS_BF16=1), dfma, dp4a or imad. A trip gives each chain STEPS
// products. Of dp4a and imad these are a[step] and b[chain + step]; imad multiplies the chain,
// x = x a + b: a compiler would multiply constant factors once. No two chains may be alike, or they
// become one.
//
// Floating point also multiplies the chain, by one factor and term for all of a thread's: a chain's
// own register is then the only one that an instruction reads anew, and the files of registers
// supply no more than that at the full rate. Factors are tamed, so that chains neither grow nor
// vanish: to 0.5 up to 1, or in dfma, which is faster with x = x a + x, to 2^-30 up to 2^-29.

#include "peak/counted.cuh"

constexpr int kChains = CHAINS, kSteps = STEPS;

struct ffma {
  typedef float Word;
  static constexpr bool contracts = true;
  static DEVICE Word tamed(Word a) {
    return __uint_as_float((__float_as_uint(a) & 0x807fffffu) | 0x3f000000u);
  }
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("fma.rn.f32 %0, %1, %2, %3;" : "=f"(x) : "f"(x), "f"(a), "f"(b));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct dfma {
  typedef double Word;
  static constexpr bool contracts = true;
  static DEVICE Word tamed(Word a) {
    const u32 upper = (u32(__double2hiint(a)) & 0x800fffffu) | (1023 - 30) << 20;
    return __hiloint2double(int(upper), __double2loint(a));
  }
  static DEVICE Word next(Word x, Word a, Word) {
    asm volatile("fma.rn.f64 %0, %1, %2, %3;" : "=d"(x) : "d"(x), "d"(a), "d"(x));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct hfma2 {
  typedef u32 Word;
  static constexpr bool contracts = true;
  static DEVICE Word tamed(Word a) {
#if HALF_IS_BF16
    return (a & 0x807f807fu) | 0x3f003f00u;
#else
    return (a & 0x83ff83ffu) | 0x38003800u;
#endif
  }
  static DEVICE Word next(Word x, Word a, Word b) {
#if HALF_IS_BF16
    asm volatile("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(x), "r"(a), "r"(b));
#else
    asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(x) : "r"(x), "r"(a), "r"(b));
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
  static constexpr bool contracts = false;
  static DEVICE Word tamed(Word a) { return a; }
  static DEVICE Word next(Word x, Word a, Word b) {
    asm volatile("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(x));
    return x;
  }
  static DEVICE double value(Word x) { return x; }
};

struct imad {
  typedef int Word;
  static constexpr bool contracts = false;
  static DEVICE Word tamed(Word a) { return a; }
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
  const Word factor = OP::tamed(p[0].a), term = p[0].b;
  Word x[kChains];
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) x[chain] = OP::contracts ? p[chain].b : Word(0);
  u32 done = 0;
#pragma unroll 1
  do {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain)
        x[chain] = OP::contracts
                       ? OP::next(x[chain], factor, term)
                       : OP::next(x[chain], p[step % kChains].a, p[(chain + step) % kChains].b);
    count(done);
  } while (done != trips);
  double sum = 0;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain) sum += OP::value(x[chain]);
  report(out, done, sum);
}
