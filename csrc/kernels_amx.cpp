// AMX: 32 x 32 sums in four of the eight tile registers, two tiles of A and two of B a step. The
// packed forms of kernel.hpp are already what a tile load wants: a chunk of a strip is 16 + 16
// rows of 64 bytes, 16 words of a panel are the pairs (bf16) or quads (int8) of two tiles of B.
#include <cstring>

#include "avx2.hpp"
#include "kernel.hpp"
#include "portable.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

#include "tiles.hpp"

namespace pymicro {
namespace {

constexpr int kTile = 16, kSide = 2 * kTile, kTileBytes = kTile * 64;

// Layout of the operand of ldtilecfg: Intel SDM vol. 1, "Intel AMX", tile configuration.
struct alignas(64) TileConfig {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

}  // namespace

TARGET_AMX void configure_tiles() {
    static const TileConfig config;
    _tile_loadconfig(&config);
}

namespace {

TARGET_AMX void end() { _tile_release(); }

// Compilers do not see that tile loads and stores touch memory; nothing may move across.
INLINE void keep_order() { __asm__ volatile("" ::: "memory"); }

// The strip of A streams from L2 past the panel in L1; a tile load alone keeps too few misses in
// flight, so each step asks for the lines of a later one.
constexpr int kAheadBytes = 4 * kTileBytes;

INLINE void prefetch_quarter(const char* a, int quarter) {
    UNROLL
    for (int line = 0; line < 8; ++line)
        _mm_prefetch(a + kAheadBytes + (quarter * 8 + line) * 64, _MM_HINT_T0);
}

// Tiles 0-3: sums (row half, column half); 4, 5: A; 6, 7: B.
#define PYMICRO_AMX_MULTIPLY(name, product)                                                        \
    TARGET_AMX void name(std::int64_t words, const void* strip, const void* panel, void* sums,     \
                         bool add) {                                                               \
        const auto* a = static_cast<const char*>(strip);                                           \
        const auto* b = static_cast<const char*>(panel);                                           \
        auto* c = static_cast<char*>(sums);                                                        \
        constexpr int kRowBytes = kSide * 4, kLower = kTile * kRowBytes;                           \
        keep_order();                                                                              \
        if (add) {                                                                                 \
            _tile_loadd(0, c, kRowBytes);                                                          \
            _tile_loadd(1, c + 64, kRowBytes);                                                     \
            _tile_loadd(2, c + kLower, kRowBytes);                                                 \
            _tile_loadd(3, c + kLower + 64, kRowBytes);                                            \
        } else {                                                                                   \
            _tile_zero(0);                                                                         \
            _tile_zero(1);                                                                         \
            _tile_zero(2);                                                                         \
            _tile_zero(3);                                                                         \
        }                                                                                          \
        for (; words > 0; words -= kTile, a += 2 * kTileBytes, b += 2 * kTileBytes) {              \
            _tile_loadd(4, a, 64);                                                                 \
            _tile_loadd(6, b, 128);                                                                \
            product(0, 4, 6);                                                                      \
            prefetch_quarter(a, 0);                                                                \
            _tile_loadd(7, b + 64, 128);                                                           \
            product(1, 4, 7);                                                                      \
            prefetch_quarter(a, 1);                                                                \
            _tile_loadd(5, a + kTileBytes, 64);                                                    \
            product(2, 5, 6);                                                                      \
            prefetch_quarter(a, 2);                                                                \
            product(3, 5, 7);                                                                      \
            prefetch_quarter(a, 3);                                                                \
        }                                                                                          \
        _tile_stored(0, c, kRowBytes);                                                             \
        _tile_stored(1, c + 64, kRowBytes);                                                        \
        _tile_stored(2, c + kLower, kRowBytes);                                                    \
        _tile_stored(3, c + kLower + 64, kRowBytes);                                               \
        keep_order();                                                                              \
    }

PYMICRO_AMX_MULTIPLY(multiply_bf16, _tile_dpbf16ps)
PYMICRO_AMX_MULTIPLY(multiply_int8, _tile_dpbssd)

// Packing uses AVX2; no CPU with AMX lacks it, but a hypervisor may hide it.
bool has_helpers(const CpuFeatures& cpu) {
    return cpu.amx_tile && cpu.avx2 && cpu.fma && cpu.f16c;
}
bool has_bf16(const CpuFeatures& cpu) { return has_helpers(cpu) && cpu.amx_bf16; }
bool has_int8(const CpuFeatures& cpu) { return has_helpers(cpu) && cpu.amx_int8; }

constexpr Kernel kBf16 = {.path = "amx",
                          .dtype = DType::bf16,
                          .runs_on = has_bf16,
                          .mr = kSide,
                          .nr = kSide,
                          .k_unit = 2,
                          .word_bytes = 4,
                          .input_bytes = 2,
                          .output_bytes = 2,
                          .k_step_words = kTile,
                          .convert_a = nullptr,
                          .convert_b = nullptr,
                          .transpose = transpose4_avx2,
                          .sum_panel = nullptr,
                          .multiply = multiply_bf16,
                          .store = store_rows<float, std::uint16_t, kSide, float_to_bf16_avx2>,
                          .k_block_bytes = 2048,
                          .begin = configure_tiles,
                          .end = end};

constexpr Kernel int8() {
    Kernel kernel = kBf16;
    kernel.dtype = DType::int8;
    kernel.runs_on = has_int8;
    kernel.k_unit = 4;
    kernel.input_bytes = 1;
    kernel.output_bytes = 4;
    kernel.multiply = multiply_int8;
    kernel.store = store_words<float, kSide>;
    return kernel;
}

constexpr Kernel kKernels[] = {kBf16, int8()};

}  // namespace

std::span<const Kernel> amx_kernels() { return kKernels; }

}  // namespace pymicro

#else

namespace pymicro {
std::span<const Kernel> amx_kernels() { return {}; }
}  // namespace pymicro

#endif
