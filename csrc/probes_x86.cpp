// The loops are written instruction by instruction, since a compiler may hoist, merge or spill
// what looks like idle arithmetic. Twelve independent chains cover the latency of two units for
// every instruction used here (at most 6 cycles); six tiles cover that of the matrix unit.
#include "probe.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

#include <cstring>

#include "tiles.hpp"

namespace pymicro {
namespace {

#define TWELVE(each) each(0) each(1) each(2) each(3) each(4) each(5) \
    each(6) each(7) each(8) each(9) each(10) each(11)

#define START(i) auto x##i = t;
#define STORE(i) std::memcpy(static_cast<char*>(sums) + i * sizeof x##i, &x##i, sizeof x##i);

// `step(i)` adds to chain x<i> the product of a and b; t is free to use.
#define PROBE(name, TARGET, Vector, step)                                                      \
    TARGET void name(std::int64_t turns, const void* from_a, const void* from_b, void* sums) { \
        Vector a, b, t{};                                                                      \
        std::memcpy(&a, from_a, sizeof a);                                                     \
        std::memcpy(&b, from_b, sizeof b);                                                     \
        __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(t));                                      \
        TWELVE(START)                                                                          \
        for (std::int64_t i = 0; i < turns; ++i) {                                             \
            TWELVE(step)                                                                       \
        }                                                                                      \
        TWELVE(STORE)                                                                          \
    }

#define FMA32(i) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(x##i) : "v"(a), "v"(b));
#define FMA64(i) __asm__ volatile("vfmadd231pd %2, %1, %0" : "+v"(x##i) : "v"(a), "v"(b));
#define PAIRS(i)                                                    \
    __asm__ volatile("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0"     \
                     : "+v"(x##i), "=&v"(t)                         \
                     : "v"(a), "v"(b));
#define VNNI_YMM(i) __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(x##i) : "x"(a), "x"(b));
#define VNNI_ZMM(i) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(x##i) : "v"(a), "v"(b));
#define BF16_ZMM(i) __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(x##i) : "v"(a), "v"(b));

PROBE(avx2_fp32, TARGET_AVX2, __m256, FMA32)
PROBE(avx2_fp64, TARGET_AVX2, __m256d, FMA64)
PROBE(avx2_int8, TARGET_AVX2, __m256i, PAIRS)
PROBE(avx_vnni_int8, TARGET_AVX_VNNI, __m256i, VNNI_YMM)
PROBE(avx512_fp32, TARGET_AVX512, __m512, FMA32)
PROBE(avx512_fp64, TARGET_AVX512, __m512d, FMA64)
PROBE(avx512_int8, TARGET_AVX512, __m512i, PAIRS)
PROBE(avx512_vnni_int8, TARGET_AVX512_VNNI, __m512i, VNNI_ZMM)
PROBE(avx512_bf16_bf16, TARGET_AVX512_BF16, __m512, BF16_ZMM)

#define SIX(each) each(0) each(1) each(2) each(3) each(4) each(5)
#define TILE_START(i) _tile_zero(i);
#define TILE_STORE(i) _tile_stored(i, static_cast<char*>(sums) + i * 1024, 64);

#define AMX_PROBE(name, product)                                                               \
    TARGET_AMX void name(std::int64_t turns, const void* from_a, const void* from_b,           \
                         void* sums) {                                                         \
        configure_tiles();                                                                     \
        SIX(TILE_START)                                                                        \
        _tile_loadd(6, from_a, 64);                                                            \
        _tile_loadd(7, from_b, 64);                                                            \
        for (std::int64_t i = 0; i < turns; ++i) {                                             \
            product(0, 6, 7);                                                                  \
            product(1, 6, 7);                                                                  \
            product(2, 6, 7);                                                                  \
            product(3, 6, 7);                                                                  \
            product(4, 6, 7);                                                                  \
            product(5, 6, 7);                                                                  \
        }                                                                                      \
        SIX(TILE_STORE)                                                                        \
        _tile_release();                                                                       \
    }

AMX_PROBE(amx_bf16, _tile_dpbf16ps)
AMX_PROBE(amx_int8, _tile_dpbssd)

bool has_avx2(const CpuFeatures& cpu) { return cpu.avx2 && cpu.fma; }
bool has_avx_vnni(const CpuFeatures& cpu) { return cpu.avx_vnni && cpu.avx2; }
bool has_avx512(const CpuFeatures& cpu) { return cpu.avx512f && cpu.avx512bw && cpu.avx512vl; }
bool has_vnni(const CpuFeatures& cpu) { return has_avx512(cpu) && cpu.avx512_vnni; }
bool has_bf16(const CpuFeatures& cpu) { return has_avx512(cpu) && cpu.avx512_bf16; }
bool has_amx_bf16(const CpuFeatures& cpu) { return cpu.amx_bf16; }
bool has_amx_int8(const CpuFeatures& cpu) { return cpu.amx_int8; }

constexpr double vector_flop(int lanes, int per_lane = 1) { return 12.0 * lanes * per_lane * 2; }
constexpr double tile_flop(int depth) { return 6.0 * 16 * 16 * depth * 2; }

constexpr Probe kProbes[] = {
    {"amx/bf16", has_amx_bf16, tile_flop(32), 1024, 6 * 1024, amx_bf16},
    {"amx/int8", has_amx_int8, tile_flop(64), 1024, 6 * 1024, amx_int8},
    {"avx512/fp32", has_avx512, vector_flop(16), 64, 12 * 64, avx512_fp32},
    {"avx512/fp64", has_avx512, vector_flop(8), 64, 12 * 64, avx512_fp64},
    {"avx512_bf16/bf16", has_bf16, vector_flop(16, 2), 64, 12 * 64, avx512_bf16_bf16},
    {"avx512_vnni/int8", has_vnni, vector_flop(16, 4), 64, 12 * 64, avx512_vnni_int8},
    {"avx512/int8", has_avx512, vector_flop(16, 2), 64, 12 * 64, avx512_int8},
    {"avx_vnni/int8", has_avx_vnni, vector_flop(8, 4), 32, 12 * 32, avx_vnni_int8},
    {"avx2/fp32", has_avx2, vector_flop(8), 32, 12 * 32, avx2_fp32},
    {"avx2/fp64", has_avx2, vector_flop(4), 32, 12 * 32, avx2_fp64},
    {"avx2/int8", has_avx2, vector_flop(8, 2), 32, 12 * 32, avx2_int8},
};

}  // namespace

std::span<const Probe> x86_probes() { return kProbes; }

}  // namespace pymicro

#else

namespace pymicro {
std::span<const Probe> x86_probes() { return {}; }
}  // namespace pymicro

#endif
