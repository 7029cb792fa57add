// Transposing and converting with AVX2 and F16C, for packing and for rounding results.
#include "avx2.hpp"
#include "portable.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

namespace pymicro {
namespace {

// 8 x 8 words of 4 bytes.
TARGET_AVX2 INLINE void transpose_block(const char* rows, std::int64_t row_bytes, float* out,
                                        int nr) {
    __m256 r[8], s[8];
UNROLL
    for (int i = 0; i < 8; ++i)
        r[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(rows + i * row_bytes));
UNROLL
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
UNROLL
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

template <class Word>
TARGET_AVX2 INLINE void transpose_all(const void* rows, std::int64_t row_bytes, std::int64_t words,
                                      int nr, void* panel) {
    constexpr int kSide = 32 / sizeof(Word);
    const auto* in = static_cast<const char*>(rows);
    auto* out = static_cast<Word*>(panel);
    const std::int64_t whole = words / kSide * kSide;
    for (std::int64_t w = 0; w < whole; w += kSide)
        for (int j = 0; j < nr; j += kSide)
            transpose_block(in + j * row_bytes + w * sizeof(Word), row_bytes, out + w * nr + j, nr);
    transpose_each<Word>(in + whole * sizeof(Word), row_bytes, words - whole, nr, out + whole * nr);
}

}  // namespace

TARGET_AVX2 void transpose4_avx2(const void* rows, std::int64_t row_bytes, std::int64_t words,
                                 int nr, void* panel) {
    transpose_all<float>(rows, row_bytes, words, nr, panel);
}

TARGET_AVX2 void transpose8_avx2(const void* rows, std::int64_t row_bytes, std::int64_t words,
                                 int nr, void* panel) {
    transpose_all<double>(rows, row_bytes, words, nr, panel);
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

// The compiler vectorises these; only the instruction set has to be named.
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

TARGET_AVX2 void float_to_bf16_avx2(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const float*>(from);
    auto* out = static_cast<std::uint16_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = float_to_bf16(in[i]);
}

}  // namespace pymicro

#endif
