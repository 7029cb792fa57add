// AVX2 with FMA and F16C: 6 x 16 tiles (6 x 8 in fp64), 12 of the 16 registers hold sums.
#include "avx2.hpp"
#include "kernel.hpp"
#include "portable.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

namespace pymicro {
namespace {

struct Fp32 {
    using Word = float;
    using Vector = __m256;
    static constexpr int kLanes = 8;
    TARGET_AVX2 static INLINE Vector start(const Word*) { return _mm256_setzero_ps(); }
    TARGET_AVX2 static INLINE Vector load(const Word* p) { return _mm256_loadu_ps(p); }
    TARGET_AVX2 static INLINE void store(Word* p, Vector v) { _mm256_storeu_ps(p, v); }
    TARGET_AVX2 static INLINE Vector broadcast(const Word* p) { return _mm256_broadcast_ss(p); }
    TARGET_AVX2 static INLINE Vector add(Vector x, Vector y) { return _mm256_add_ps(x, y); }
    TARGET_AVX2 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm256_fmadd_ps(a, b, sum);
    }
};

struct Fp64 {
    using Word = double;
    using Vector = __m256d;
    static constexpr int kLanes = 4;
    TARGET_AVX2 static INLINE Vector start(const Word*) { return _mm256_setzero_pd(); }
    TARGET_AVX2 static INLINE Vector load(const Word* p) { return _mm256_loadu_pd(p); }
    TARGET_AVX2 static INLINE void store(Word* p, Vector v) { _mm256_storeu_pd(p, v); }
    TARGET_AVX2 static INLINE Vector broadcast(const Word* p) { return _mm256_broadcast_sd(p); }
    TARGET_AVX2 static INLINE Vector add(Vector x, Vector y) { return _mm256_add_pd(x, y); }
    TARGET_AVX2 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm256_fmadd_pd(a, b, sum);
    }
};

struct Int {
    using Word = std::int32_t;
    using Vector = __m256i;
    static constexpr int kLanes = 8;
    TARGET_AVX2 static INLINE Vector start(const Word*) { return _mm256_setzero_si256(); }
    TARGET_AVX2 static INLINE Vector load(const Word* p) {
        return _mm256_loadu_si256(reinterpret_cast<const Vector*>(p));
    }
    TARGET_AVX2 static INLINE void store(Word* p, Vector v) {
        _mm256_storeu_si256(reinterpret_cast<Vector*>(p), v);
    }
    TARGET_AVX2 static INLINE Vector broadcast(const Word* p) { return _mm256_set1_epi32(*p); }
    TARGET_AVX2 static INLINE Vector add(Vector x, Vector y) { return _mm256_add_epi32(x, y); }
};

// int8 widened to pairs of int16: exact for all values, since (-128)^2 * 2 fits 32 bits. The
// 8-bit vpmaddubsw would saturate.
struct Int16Pairs : Int {
    TARGET_AVX2 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
        __asm__ volatile("" : "+x"(sum));  // or gcc overlaps the steps and spills the sums
        return sum;
    }
};

// uint8 x int8 in one instruction: A is stored with 128 added, the panel's sums take it off again.
struct Bytes : Int {
    TARGET_AVX2 static INLINE Vector start(const Word* sums) { return load(sums); }
    TARGET_AVX_VNNI static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm256_dpbusd_avx_epi32(sum, a, b);
    }
};

TARGET_AVX_VNNI void sum_panel(void* panel, std::int64_t words) {
    auto* b = static_cast<std::int32_t*>(panel);
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (std::int64_t w = 0; w < words; ++w, b += 16)
        for (int v = 0; v < 2; ++v)
            sum[v] = Bytes::step(_mm256_set1_epi8(-128), Int::load(b + 8 * v), sum[v]);
    for (int v = 0; v < 2; ++v)
        Int::store(b + 8 * v, _mm256_sub_epi32(_mm256_setzero_si256(), sum[v]));
}

namespace base {
#define TILE_TARGET TARGET_AVX2
#include "register_tile.inc"
}  // namespace base

namespace vnni {
#define TILE_TARGET TARGET_AVX_VNNI
#include "register_tile.inc"
}  // namespace vnni

bool has_avx2(const CpuFeatures& cpu) { return cpu.avx2 && cpu.fma && cpu.f16c; }
bool has_avx_vnni(const CpuFeatures& cpu) { return has_avx2(cpu) && cpu.avx_vnni; }

constexpr Kernel kFp32 = {.path = "avx2",
                          .dtype = DType::fp32,
                          .runs_on = has_avx2,
                          .mr = 6,
                          .nr = 16,
                          .k_unit = 1,
                          .word_bytes = 4,
                          .input_bytes = 4,
                          .output_bytes = 4,
                          .k_step_words = 1,
                          .convert_a = nullptr,
                          .convert_b = nullptr,
                          .transpose = transpose4_avx2,
                          .sum_panel = nullptr,
                          .multiply = base::multiply<Fp32, 6>,
                          .store = store_words<float, 16>};

constexpr Kernel fp64() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp64;
    kernel.nr = 8;
    kernel.word_bytes = kernel.input_bytes = kernel.output_bytes = 8;
    kernel.transpose = transpose8_avx2;
    kernel.store = store_words<double, 8>;
    kernel.multiply = base::multiply<Fp64, 6>;
    return kernel;
}

constexpr Kernel fp16() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp16;
    kernel.input_bytes = kernel.output_bytes = 2;
    kernel.convert_a = kernel.convert_b = fp16_to_float_avx2;
    kernel.store = store_rows<float, std::uint16_t, 16, float_to_fp16_avx2>;
    return kernel;
}

constexpr Kernel bf16() {
    Kernel kernel = fp16();
    kernel.dtype = DType::bf16;
    kernel.convert_a = kernel.convert_b = bf16_to_float_avx2;
    kernel.store = store_rows<float, std::uint16_t, 16, float_to_bf16_avx2>;
    return kernel;
}

constexpr Kernel int8() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::int8;
    kernel.k_unit = 2;
    kernel.input_bytes = 1;
    kernel.convert_a = kernel.convert_b = int8_to_int16_avx2;
    kernel.multiply = base::multiply<Int16Pairs, 6>;
    return kernel;
}

constexpr Kernel int8_vnni() {
    Kernel kernel = int8();
    kernel.path = "avx_vnni";
    kernel.runs_on = has_avx_vnni;
    kernel.k_unit = 4;
    kernel.convert_a = int8_to_uint8;
    kernel.convert_b = nullptr;
    kernel.sum_panel = sum_panel;
    kernel.multiply = vnni::multiply<Bytes, 6>;
    return kernel;
}

constexpr Kernel kKernels[] = {fp64(), kFp32, fp16(), bf16(), int8_vnni(), int8()};

}  // namespace

std::span<const Kernel> avx2_kernels() { return kKernels; }

}  // namespace pymicro

#else

namespace pymicro {
std::span<const Kernel> avx2_kernels() { return {}; }
}  // namespace pymicro

#endif
