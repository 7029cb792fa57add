// mma.sync products and nothing else: CHAINS tiles of 16 x 8 a warp, operands in registers.
//
//   peak(a, b, trips, out)   a: MATRICES_A of 16 rows, b: CHAINS of 8 rows, rows of 32 bytes (16 doubles);
//                            out as in counted.cuh
//
// A trip gives each chain STEPS products a[step] b[chain + step], indices going round. DTYPE names the format.
// fp8 sums restart each trip, since matrix units keep about 14 bits of them. tf32 is rounded once,
// before the loop. Chips whose instructions are smaller take several for one product.

#include "peak/counted.cuh"

constexpr int kChains = CHAINS, kSteps = STEPS, kMatricesA = MATRICES_A;
constexpr bool kRestarts = RESTARTS;

template <class Format>
struct Fragment {
  typedef u32 Word;
  static constexpr int words_a = 4, words_b = 2, row = 8, quarter = 4;  // in words
};
template <>
struct Fragment<fp64> {
  typedef double Word;
  static constexpr int words_a = 8, words_b = 4, row = 16, quarter = 4;
};

typedef Fragment<DTYPE> Layout;
typedef Layout::Word Word;
typedef DTYPE::Sum Sum;

DEVICE double rounded(double x) { return x; }
DEVICE u32 rounded(u32 bits) {
#if IS_TF32
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
#endif
  return bits;
}

#define MMA_16x8(shape_and_types, sum)                                            \
  asm volatile("mma.sync.aligned." shape_and_types                                \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
               : "=" sum(d[0]), "=" sum(d[1]), "=" sum(d[2]), "=" sum(d[3])       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), \
                 sum(c[0]), sum(c[1]), sum(c[2]), sum(c[3]))

// d = a b + c. Lane 4g + t holds rows g and g + 8, columns 2t and 2t + 1 of c and d.
DEVICE void product(Sum (&d)[4], const Word (&a)[Layout::words_a], const Word (&b)[Layout::words_b],
                    const Sum (&c)[4]) {
#if IS_FP64 && __CUDA_ARCH__ == 900
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};"
      : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
        "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
#elif IS_FP64
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = c[i];
#pragma unroll
  for (int q = 0; q < 4; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      asm volatile(
          "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+d"(d[2 * r]), "+d"(d[2 * r + 1])
          : "d"(a[r + 2 * q]), "d"(b[q]));
#elif IS_FP16 && __CUDA_ARCH__ < 800
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = c[i];
#pragma unroll
  for (int q = 0; q < 2; ++q)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2 * q]), "r"(a[2 * q + 1]), "r"(b[q]));
#elif IS_INT8 && __CUDA_ARCH__ < 800
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = c[i];
#pragma unroll
  for (int q = 0; q < 2; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+r"(d[2 * r]), "+r"(d[2 * r + 1])
                   : "r"(a[r + 2 * q]), "r"(b[q]));
#elif IS_FP16
  MMA_16x8("m16n8k16.row.col.f32.f16.f16.f32", "f");
#elif IS_BF16
  MMA_16x8("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
#elif IS_TF32
  MMA_16x8("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
#elif IS_INT8
  MMA_16x8("m16n8k32.row.col.s32.s8.s8.s32", "r");
#elif IS_FP8_E4M3
  MMA_16x8("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    peak(const Word* a, const Word* b, u32 trips, double* out) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  Word fa[kMatricesA][Layout::words_a], fb[kChains][Layout::words_b];
#pragma unroll
  for (int i = 0; i < kMatricesA; ++i)
#pragma unroll
    for (int w = 0; w < Layout::words_a; ++w)
      fa[i][w] = rounded(a[(16 * i + g + w % 2 * 8) * Layout::row + t + w / 2 * Layout::quarter]);
#pragma unroll
  for (int i = 0; i < kChains; ++i)
#pragma unroll
    for (int w = 0; w < Layout::words_b; ++w)
      fb[i][w] = rounded(b[(8 * i + g) * Layout::row + t + w * Layout::quarter]);
  Sum sums[kChains][4] = {};
  u32 done = 0;
#pragma unroll 1
  do {
    Sum start[kChains][4];
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain)
#pragma unroll
      for (int i = 0; i < 4; ++i) start[chain][i] = zero_of(done);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int chain = 0; chain < kChains; ++chain)
        product(sums[chain], fa[step % kMatricesA], fb[(chain + step) % kChains],
                (kRestarts && step == 0 ? start : sums)[chain]);
    count(done);
  } while (done != trips);
  double sum = 0;
#pragma unroll
  for (int chain = 0; chain < kChains; ++chain)
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += sums[chain][i];
  report(out, done, sum);
}
