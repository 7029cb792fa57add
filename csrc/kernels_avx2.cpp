// AVX2 with FMA and F16C: 6 x 16 tiles (6 x 8 in fp64), 12 of the 16 registers hold sums.
#include "kernel.hpp"
#include "portable.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

namespace pymicro {
namespace {

constexpr int kMr = 6, kVectors = 2;

struct Fp32 {
    using Word = float;
    using Vector = __m256;
    static constexpr int kLanes = 8;
    TARGET_AVX2 static INLINE Vector zero() { return _mm256_setzero_ps(); }
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
    TARGET_AVX2 static INLINE Vector zero() { return _mm256_setzero_pd(); }
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
    TARGET_AVX2 static INLINE Vector zero() { return _mm256_setzero_si256(); }
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
        return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    }
};

template <class T>
TARGET_AVX2 void multiply(std::int64_t words, const void* strip, const void* panel,
                          void* accumulator, std::int64_t row_elements, bool add) {
    using Word = typename T::Word;
    constexpr int kChunkWords = kChunkBytes / sizeof(Word), kNr = kVectors * T::kLanes;
    const auto* a = static_cast<const Word*>(strip);
    const auto* b = static_cast<const Word*>(panel);
    auto* c = static_cast<Word*>(accumulator);
    typename T::Vector sum[kMr][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < kMr; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(c + i * row_elements), _MM_HINT_T0);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[i][v] = T::zero();
    }
    for (; words > 0; words -= kChunkWords, a += kMr * kChunkWords) {
        const int count = words < kChunkWords ? static_cast<int>(words) : kChunkWords;
        const Word* column = a;
        for (int w = 0; w < count; ++w, ++column, b += kNr) {
            const auto b0 = T::load(b), b1 = T::load(b + T::kLanes);
#pragma GCC unroll 6
            for (int i = 0; i < kMr; ++i) {
                const auto x = T::broadcast(column + i * kChunkWords);
                sum[i][0] = T::step(x, b0, sum[i][0]);
                sum[i][1] = T::step(x, b1, sum[i][1]);
            }
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < kMr; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
            Word* out = c + i * row_elements + v * T::kLanes;
            T::store(out, add ? T::add(T::load(out), sum[i][v]) : sum[i][v]);
        }
}

// 8 x 8 words of 4 bytes.
TARGET_AVX2 INLINE void transpose_block(const char* rows, std::int64_t row_bytes, float* out,
                                        int nr) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
        r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(rows + i * row_bytes));
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(out + i * nr, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * nr, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

// 4 x 4 words of 8 bytes.
TARGET_AVX2 INLINE void transpose_block(const char* rows, std::int64_t row_bytes, double* out,
                                        int nr) {
    auto row = [&](int i) { return reinterpret_cast<const double*>(rows + i * row_bytes); };
    const __m256d r0 = _mm256_loadu_pd(row(0)), r1 = _mm256_loadu_pd(row(1));
    const __m256d r2 = _mm256_loadu_pd(row(2)), r3 = _mm256_loadu_pd(row(3));
    const __m256d s0 = _mm256_unpacklo_pd(r0, r1), s1 = _mm256_unpackhi_pd(r0, r1);
    const __m256d s2 = _mm256_unpacklo_pd(r2, r3), s3 = _mm256_unpackhi_pd(r2, r3);
    _mm256_storeu_pd(out, _mm256_permute2f128_pd(s0, s2, 0x20));
    _mm256_storeu_pd(out + nr, _mm256_permute2f128_pd(s1, s3, 0x20));
    _mm256_storeu_pd(out + 2 * nr, _mm256_permute2f128_pd(s0, s2, 0x31));
    _mm256_storeu_pd(out + 3 * nr, _mm256_permute2f128_pd(s1, s3, 0x31));
}

}  // namespace

template <class Word, int nr>
TARGET_AVX2 void transpose_avx2(const void* rows, std::int64_t row_bytes, std::int64_t words,
                                void* panel) {
    constexpr int kSide = 32 / sizeof(Word);
    const auto* in = static_cast<const char*>(rows);
    auto* out = static_cast<Word*>(panel);
    const std::int64_t whole = words / kSide * kSide;
    for (std::int64_t w = 0; w < whole; w += kSide)
        for (int j = 0; j < nr; j += kSide)
            transpose_block(in + j * row_bytes + w * sizeof(Word), row_bytes, out + w * nr + j, nr);
    transpose_each<Word, nr>(in + whole * sizeof(Word), row_bytes, words - whole, out + whole * nr);
}

TARGET_AVX2 void fp16_to_float_avx2(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const std::uint16_t*>(from);
    auto* out = static_cast<float*>(to);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                      reinterpret_cast<const __m128i*>(in + i))));
    for (; i < count; ++i) out[i] = fp16_to_float(in[i]);
}

TARGET_AVX2 void float_to_fp16_avx2(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const float*>(from);
    auto* out = static_cast<std::uint16_t*>(to);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; ++i) out[i] = float_to_fp16(in[i]);
}

// The compiler vectorises these two; only the instruction set has to be named.
TARGET_AVX2 void bf16_to_float_avx2(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const std::uint16_t*>(from);
    auto* out = static_cast<std::uint32_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::uint32_t>(in[i]) << 16;
}

TARGET_AVX2 void int8_to_int16_avx2(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const std::int8_t*>(from);
    auto* out = static_cast<std::int16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = in[i];
}

namespace {

bool has_avx2(const CpuFeatures& cpu) { return cpu.avx2 && cpu.fma && cpu.f16c; }

constexpr Kernel kFp32 = {.path = "avx2",
                          .dtype = DType::fp32,
                          .runs_on = has_avx2,
                          .mr = kMr,
                          .nr = 16,
                          .k_unit = 1,
                          .word_bytes = 4,
                          .input_bytes = 4,
                          .output_bytes = 4,
                          .k_step_words = 1,
                          .convert_a = nullptr,
                          .convert_b = nullptr,
                          .transpose = transpose_avx2<float, 16>,
                          .sum_panel = nullptr,
                          .multiply = multiply<Fp32>,
                          .narrow = nullptr};

constexpr Kernel fp64() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp64;
    kernel.nr = 8;
    kernel.word_bytes = kernel.input_bytes = kernel.output_bytes = 8;
    kernel.transpose = transpose_avx2<double, 8>;
    kernel.multiply = multiply<Fp64>;
    return kernel;
}

constexpr Kernel fp16() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp16;
    kernel.input_bytes = kernel.output_bytes = 2;
    kernel.convert_a = kernel.convert_b = fp16_to_float_avx2;
    kernel.narrow = float_to_fp16_avx2;
    return kernel;
}

constexpr Kernel bf16() {
    Kernel kernel = fp16();
    kernel.dtype = DType::bf16;
    kernel.convert_a = kernel.convert_b = bf16_to_float_avx2;
    kernel.narrow = convert_each<float, std::uint16_t, float_to_bf16>;
    return kernel;
}

constexpr Kernel int8() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::int8;
    kernel.k_unit = 2;
    kernel.input_bytes = 1;
    kernel.convert_a = kernel.convert_b = int8_to_int16_avx2;
    kernel.multiply = multiply<Int16Pairs>;
    return kernel;
}

constexpr Kernel kKernels[] = {fp64(), kFp32, fp16(), bf16(), int8()};

}  // namespace

std::span<const Kernel> avx2_kernels() { return kKernels; }

}  // namespace pymicro

#else

namespace pymicro {
std::span<const Kernel> avx2_kernels() { return {}; }
}  // namespace pymicro

#endif
