// The fallback: plain loops that any compiler turns into what the baseline offers.
#include "kernel.hpp"
#include "portable.hpp"

namespace pymicro {
namespace {

constexpr int kMr = 4, kNr = 8;

template <class Word>
void multiply(std::int64_t words, const void* strip, const void* panel, void* sums, bool add) {
    constexpr std::int64_t kChunkWords = kChunkBytes / static_cast<std::int64_t>(sizeof(Word));
    const auto* a = static_cast<const Word*>(strip);
    const auto* b = static_cast<const Word*>(panel);
    auto* out = static_cast<Word*>(sums);
    Word sum[kMr][kNr] = {};
    for (std::int64_t w = 0; w < words; ++w, b += kNr) {
        const Word* column = a + w / kChunkWords * kChunkWords * kMr + w % kChunkWords;
        for (int i = 0; i < kMr; ++i)
            for (int j = 0; j < kNr; ++j) sum[i][j] += column[i * kChunkWords] * b[j];
    }
    for (int i = 0; i < kMr; ++i)
        for (int j = 0; j < kNr; ++j)
            out[i * kNr + j] = add ? out[i * kNr + j] + sum[i][j] : sum[i][j];
}

std::int32_t widen(std::int8_t value) { return value; }

bool always(const CpuFeatures&) { return true; }

constexpr auto kFromFp16 = convert_each<std::uint16_t, float, fp16_to_float>;
constexpr auto kFromBf16 = convert_each<std::uint16_t, float, bf16_to_float>;
constexpr auto kToFp16 =
    store_rows<float, std::uint16_t, kNr, convert_each<float, std::uint16_t, float_to_fp16>>;
constexpr auto kToBf16 =
    store_rows<float, std::uint16_t, kNr, convert_each<float, std::uint16_t, float_to_bf16>>;
constexpr auto kFromInt8 = convert_each<std::int8_t, std::int32_t, widen>;

template <class Word>
constexpr Kernel row(DType dtype, int input_bytes, int output_bytes,
                     void (*convert)(const void*, void*, std::int64_t),
                     decltype(Kernel::store) store = store_words<Word, kNr>) {
    return {.path = "portable",
            .dtype = dtype,
            .runs_on = always,
            .mr = kMr,
            .nr = kNr,
            .k_unit = 1,
            .word_bytes = sizeof(Word),
            .input_bytes = input_bytes,
            .output_bytes = output_bytes,
            .k_step_words = 1,
            .convert_a = convert,
            .convert_b = convert,
            .transpose = transpose_each<Word>,
            .sum_panel = nullptr,
            .multiply = multiply<Word>,
            .store = store};
}

constexpr Kernel kKernels[] = {
    row<double>(DType::fp64, 8, 8, nullptr),
    row<float>(DType::fp32, 4, 4, nullptr),
    row<float>(DType::fp16, 2, 2, kFromFp16, kToFp16),
    row<float>(DType::bf16, 2, 2, kFromBf16, kToBf16),
    row<std::int32_t>(DType::int8, 1, 4, kFromInt8),
};

}  // namespace

std::span<const Kernel> portable_kernels() { return kKernels; }

}  // namespace pymicro
