#include "pack.hpp"

#include <algorithm>
#include <cstring>

#include "blocking.hpp"

namespace pymicro {
namespace {

using Byte = unsigned char;

constexpr std::int64_t kMaxColumns = 32;  // of a panel
// Columns of B handled together for nn: long enough for the prefetchers, short enough for L1.
constexpr std::int64_t kColumnsAtOnce = 256;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
    return (value + step - 1) / step * step;
}

using Convert = void (*)(const void*, void*, std::int64_t);

// `count` elements to `target`, then zeros up to `total_bytes`.
void convert_row(const Kernel& kernel, Convert convert, const Byte* stored, std::int64_t count,
                 Byte* target, std::int64_t total_bytes) {
    const std::int64_t used_bytes = count * kernel.packed_bytes();
    if (convert)
        convert(stored, target, count);
    else
        std::memcpy(target, stored, used_bytes);
    std::memset(target + used_bytes, 0, total_bytes - used_bytes);
}

// dst[i][u] = rows[u][i]: neighbours in k become neighbours in a word.
template <class Element, int kUnit>
void interleave(const Byte* rows, std::int64_t row_bytes, std::int64_t count, Byte* target) {
    auto* out = reinterpret_cast<Element*>(target);
    const Element* in[kUnit];
    for (int u = 0; u < kUnit; ++u) in[u] = reinterpret_cast<const Element*>(rows + u * row_bytes);
    for (std::int64_t i = 0; i < count; ++i)
        for (int u = 0; u < kUnit; ++u) out[i * kUnit + u] = in[u][i];
}

void pack_panel_nt(const Kernel& kernel, const Source& b, std::int64_t columns, Byte* panel) {
    alignas(64) Byte rows[kMaxColumns * (kMaxBlockBytes + 64)];
    const std::int64_t words = block_words(kernel, b.k), bytes = words * kernel.word_bytes;
    const std::int64_t row_bytes = round_up(bytes, 64) + 64;  // off the power of two
    const auto* stored = static_cast<const Byte*>(b.stored);
    for (std::int64_t j = 0; j < kernel.nr; ++j)
        if (j < columns)
            convert_row(kernel, kernel.convert_b, stored + j * b.row_elements * kernel.input_bytes,
                        b.k, rows + j * row_bytes, bytes);
        else
            std::memset(rows + j * row_bytes, 0, bytes);
    kernel.transpose(rows, row_bytes, words, kernel.nr, panel);
}

// One word of k for up to kColumnsAtOnce columns, spread over their panels.
void pack_word_nn(const Kernel& kernel, const Source& b, std::int64_t word, std::int64_t columns,
                  Byte* panels, std::int64_t stride_bytes) {
    alignas(64) Byte rows[kColumnsAtOnce * 8], mixed[kColumnsAtOnce * 8];
    const std::int64_t padded = round_up(columns, kernel.nr);
    const std::int64_t row_bytes = padded * kernel.packed_bytes();
    const auto* stored = static_cast<const Byte*>(b.stored);
    for (int u = 0; u < kernel.k_unit; ++u) {
        const std::int64_t k = word * kernel.k_unit + u;
        convert_row(kernel, kernel.convert_b, stored + k * b.row_elements * kernel.input_bytes,
                    k < b.k ? columns : 0, rows + u * row_bytes, row_bytes);
    }
    const Byte* words = rows;
    if (kernel.k_unit == 2) interleave<std::uint16_t, 2>(rows, row_bytes, padded, mixed);
    if (kernel.k_unit == 4) interleave<std::uint8_t, 4>(rows, row_bytes, padded, mixed);
    if (kernel.k_unit > 1) words = mixed;
    const std::int64_t piece = kernel.nr * kernel.word_bytes;
    for (std::int64_t p = 0; p * kernel.nr < columns; ++p)
        std::memcpy(panels + p * stride_bytes + word * piece, words + p * piece, piece);
}

}  // namespace

std::int64_t block_words(const Kernel& kernel, std::int64_t k) {
    return round_up((k + kernel.k_unit - 1) / kernel.k_unit, kernel.k_step_words);
}

std::int64_t strip_bytes(const Kernel& kernel, std::int64_t words) {
    return round_up(words * kernel.word_bytes, kChunkBytes) * kernel.mr;
}

std::int64_t panel_bytes(const Kernel& kernel, std::int64_t words) {
    const std::int64_t sums = kernel.sum_panel ? kernel.nr * 4 : 0;
    return round_up(words * kernel.nr * kernel.word_bytes + sums, 64);
}

void pack_strip(const Kernel& kernel, const Source& a, std::int64_t rows, void* strip) {
    alignas(64) Byte row[kMaxBlockBytes];
    const std::int64_t chunks =
        strip_bytes(kernel, block_words(kernel, a.k)) / kernel.mr / kChunkBytes;
    const auto* stored = static_cast<const Byte*>(a.stored);
    for (std::int64_t i = 0; i < kernel.mr; ++i) {
        if (i < rows)
            convert_row(kernel, kernel.convert_a, stored + i * a.row_elements * kernel.input_bytes,
                        a.k, row, chunks * kChunkBytes);
        else if (i == rows)
            std::memset(row, 0, chunks * kChunkBytes);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
            std::memcpy(static_cast<Byte*>(strip) + (chunk * kernel.mr + i) * kChunkBytes,
                        row + chunk * kChunkBytes, kChunkBytes);
    }
}

void pack_panels(const Kernel& kernel, Layout layout, const Source& b, std::int64_t columns,
                 void* panels, std::int64_t stride_bytes) {
    auto* target = static_cast<Byte*>(panels);
    const std::int64_t words = block_words(kernel, b.k);
    const std::int64_t step = layout == Layout::nt ? kernel.nr : kColumnsAtOnce / kernel.nr * kernel.nr;
    for (std::int64_t j = 0; j < columns; j += step) {
        const std::int64_t width = std::min(step, columns - j);
        const std::int64_t skip = layout == Layout::nt ? j * b.row_elements : j;
        const Source part{static_cast<const Byte*>(b.stored) + skip * kernel.input_bytes,
                          b.row_elements, b.k};
        Byte* first = target + j / kernel.nr * stride_bytes;
        if (layout == Layout::nt)
            pack_panel_nt(kernel, part, width, first);
        else
            for (std::int64_t word = 0; word < words; ++word)
                pack_word_nn(kernel, part, word, width, first, stride_bytes);
    }
    if (kernel.sum_panel)
        for (std::int64_t p = 0; p * kernel.nr < columns; ++p)
            kernel.sum_panel(target + p * stride_bytes, words);
}

}  // namespace pymicro
