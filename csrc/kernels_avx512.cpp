// AVX-512: 14 x 32 tiles (14 x 16 in fp64), 28 of the 32 registers hold sums.
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
    using Vector = __m512;
    static constexpr int kLanes = 16;
    TARGET_AVX512 static INLINE Vector start(const Word*) { return _mm512_setzero_ps(); }
    TARGET_AVX512 static INLINE Vector load(const Word* p) { return _mm512_loadu_ps(p); }
    TARGET_AVX512 static INLINE void store(Word* p, Vector v) { _mm512_storeu_ps(p, v); }
    TARGET_AVX512 static INLINE Vector broadcast(const Word* p) { return _mm512_set1_ps(*p); }
    TARGET_AVX512 static INLINE Vector add(Vector x, Vector y) { return _mm512_add_ps(x, y); }
    TARGET_AVX512 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm512_fmadd_ps(a, b, sum);
    }
};

struct Fp64 {
    using Word = double;
    using Vector = __m512d;
    static constexpr int kLanes = 8;
    TARGET_AVX512 static INLINE Vector start(const Word*) { return _mm512_setzero_pd(); }
    TARGET_AVX512 static INLINE Vector load(const Word* p) { return _mm512_loadu_pd(p); }
    TARGET_AVX512 static INLINE void store(Word* p, Vector v) { _mm512_storeu_pd(p, v); }
    TARGET_AVX512 static INLINE Vector broadcast(const Word* p) { return _mm512_set1_pd(*p); }
    TARGET_AVX512 static INLINE Vector add(Vector x, Vector y) { return _mm512_add_pd(x, y); }
    TARGET_AVX512 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm512_fmadd_pd(a, b, sum);
    }
};

// Pairs of bf16, summed in fp32; subnormal numbers count as zero in this instruction.
struct Bf16Pairs : Fp32 {
    TARGET_AVX512_BF16 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
    }
};

struct Int {
    using Word = std::int32_t;
    using Vector = __m512i;
    static constexpr int kLanes = 16;
    TARGET_AVX512 static INLINE Vector start(const Word*) { return _mm512_setzero_si512(); }
    TARGET_AVX512 static INLINE Vector load(const Word* p) { return _mm512_loadu_si512(p); }
    TARGET_AVX512 static INLINE void store(Word* p, Vector v) { _mm512_storeu_si512(p, v); }
    TARGET_AVX512 static INLINE Vector broadcast(const Word* p) { return _mm512_set1_epi32(*p); }
    TARGET_AVX512 static INLINE Vector add(Vector x, Vector y) { return _mm512_add_epi32(x, y); }
};

// As in the AVX2 file: int8 widened to pairs of int16 is exact.
struct Int16Pairs : Int {
    TARGET_AVX512 static INLINE Vector step(Vector a, Vector b, Vector sum) {
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
        __asm__ volatile("" : "+v"(sum));  // or gcc overlaps the steps and spills the sums
        return sum;
    }
};

// uint8 x int8 in one instruction: A is stored with 128 added, the panel's sums take it off again.
struct Bytes : Int {
    TARGET_AVX512 static INLINE Vector start(const Word* sums) { return load(sums); }
    TARGET_AVX512_VNNI static INLINE Vector step(Vector a, Vector b, Vector sum) {
        return _mm512_dpbusd_epi32(sum, a, b);
    }
};

TARGET_AVX512_VNNI void sum_panel(void* panel, std::int64_t words) {
    auto* b = static_cast<std::int32_t*>(panel);
    __m512i sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (std::int64_t w = 0; w < words; ++w, b += 32)
        for (int v = 0; v < 2; ++v)
            sum[v] = Bytes::step(_mm512_set1_epi8(-128), Int::load(b + 16 * v), sum[v]);
    for (int v = 0; v < 2; ++v)
        Int::store(b + 16 * v, _mm512_sub_epi32(_mm512_setzero_si512(), sum[v]));
}

namespace base {
#define TILE_TARGET TARGET_AVX512
#include "register_tile.inc"
}  // namespace base

namespace vnni {
#define TILE_TARGET TARGET_AVX512_VNNI
#include "register_tile.inc"
}  // namespace vnni

namespace bf16 {
#define TILE_TARGET TARGET_AVX512_BF16
#include "register_tile.inc"
}  // namespace bf16

// The AVX2 helpers are used too, so all of that family has to be there.
bool has_avx512(const CpuFeatures& cpu) {
    return cpu.avx512f && cpu.avx512bw && cpu.avx512vl && cpu.avx2 && cpu.fma && cpu.f16c;
}
bool has_vnni(const CpuFeatures& cpu) { return has_avx512(cpu) && cpu.avx512_vnni; }
bool has_bf16(const CpuFeatures& cpu) { return has_avx512(cpu) && cpu.avx512_bf16; }

constexpr Kernel kFp32 = {.path = "avx512",
                          .dtype = DType::fp32,
                          .runs_on = has_avx512,
                          .mr = 14,
                          .nr = 32,
                          .k_unit = 1,
                          .word_bytes = 4,
                          .input_bytes = 4,
                          .output_bytes = 4,
                          .k_step_words = 1,
                          .convert_a = nullptr,
                          .convert_b = nullptr,
                          .transpose = transpose4_avx2,
                          .sum_panel = nullptr,
                          .multiply = base::multiply<Fp32, 14>,
                          .store = store_words<float, 32>};

constexpr Kernel fp64() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp64;
    kernel.nr = 16;
    kernel.word_bytes = kernel.input_bytes = kernel.output_bytes = 8;
    kernel.transpose = transpose8_avx2;
    kernel.store = store_words<double, 16>;
    kernel.multiply = base::multiply<Fp64, 14>;
    return kernel;
}

constexpr Kernel fp16() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::fp16;
    kernel.input_bytes = kernel.output_bytes = 2;
    kernel.convert_a = kernel.convert_b = fp16_to_float_avx2;
    kernel.store = store_rows<float, std::uint16_t, 32, float_to_fp16_avx2>;
    return kernel;
}

constexpr Kernel bf16_widened() {
    Kernel kernel = fp16();
    kernel.dtype = DType::bf16;
    kernel.convert_a = kernel.convert_b = bf16_to_float_avx2;
    kernel.store = store_rows<float, std::uint16_t, 32, float_to_bf16_avx2>;
    return kernel;
}

constexpr Kernel bf16_pairs() {
    Kernel kernel = bf16_widened();
    kernel.path = "avx512_bf16";
    kernel.runs_on = has_bf16;
    kernel.k_unit = 2;
    kernel.convert_a = kernel.convert_b = nullptr;
    kernel.multiply = bf16::multiply<Bf16Pairs, 14>;
    return kernel;
}

constexpr Kernel int8() {
    Kernel kernel = kFp32;
    kernel.dtype = DType::int8;
    kernel.k_unit = 2;
    kernel.input_bytes = 1;
    kernel.convert_a = kernel.convert_b = int8_to_int16_avx2;
    kernel.multiply = base::multiply<Int16Pairs, 14>;
    return kernel;
}

constexpr Kernel int8_vnni() {
    Kernel kernel = int8();
    kernel.path = "avx512_vnni";
    kernel.runs_on = has_vnni;
    kernel.k_unit = 4;
    kernel.convert_a = int8_to_uint8;
    kernel.convert_b = nullptr;
    kernel.sum_panel = sum_panel;
    kernel.multiply = vnni::multiply<Bytes, 14>;
    return kernel;
}

constexpr Kernel kKernels[] = {fp64(),       kFp32,       fp16(), bf16_pairs(), bf16_widened(),
                               int8_vnni(), int8()};

}  // namespace

std::span<const Kernel> avx512_kernels() { return kKernels; }

}  // namespace pymicro

#else

namespace pymicro {
std::span<const Kernel> avx512_kernels() { return {}; }
}  // namespace pymicro

#endif
