#include "pack.hpp"

#include <algorithm>
#include <cstring>

#include "blocking.hpp"
#include "target.hpp"

namespace pymicro {
namespace {

using Byte = unsigned char;

constexpr std::int64_t kMaxColumns = 32;  // of a panel

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

// target[i] = {first[i], second[i]}: neighbours in k become neighbours in a word.
template <class Element>
void interleave(const Byte* first, const Byte* second, std::int64_t count, Byte* target) {
    const auto* x = reinterpret_cast<const Element*>(first);
    const auto* y = reinterpret_cast<const Element*>(second);
    auto* RESTRICT out = reinterpret_cast<Element*>(target);
    for (std::int64_t i = 0; i < count; ++i) {
        out[2 * i] = x[i];
        out[2 * i + 1] = y[i];
    }
}

void pack_panel_nt(const Kernel& kernel, const Source& b, std::int64_t columns, Byte* panel) {
    alignas(64) Byte rows[kMaxColumns * (kMaxBlockBytes + 64)];
    const std::int64_t words = block_words(kernel, b.k), bytes = words * kernel.word_bytes;
    const auto* stored = static_cast<const Byte*>(b.stored);
    const std::int64_t stored_bytes = b.row_elements * kernel.input_bytes;
    if (!kernel.convert_b && columns == kernel.nr && b.k * kernel.packed_bytes() == bytes)
        return kernel.transpose(stored, stored_bytes, words, kernel.nr, panel);
    const std::int64_t row_bytes = round_up(bytes, 64) + 64;  // off the power of two
    for (std::int64_t j = 0; j < kernel.nr; ++j)
        convert_row(kernel, kernel.convert_b, stored + (j < columns ? j * stored_bytes : 0),
                    j < columns ? b.k : 0, rows + j * row_bytes, bytes);
    kernel.transpose(rows, row_bytes, words, kernel.nr, panel);
}

// One word of k for up to kColumnsAtOnce columns, spread over their panels.
void pack_word_nn(const Kernel& kernel, const Source& b, std::int64_t word, std::int64_t columns,
                  Byte* panels, std::int64_t stride_bytes) {
    alignas(64) Byte rows[kColumnsAtOnce * 8], mixed[kColumnsAtOnce * 4];
    const std::int64_t padded = round_up(columns, kernel.nr);
    const std::int64_t row_bytes = padded * kernel.packed_bytes();
    const auto* stored = static_cast<const Byte*>(b.stored);
    for (int u = 0; u < kernel.k_unit; ++u) {
        const std::int64_t k = word * kernel.k_unit + u;
        convert_row(kernel, kernel.convert_b, stored + k * b.row_elements * kernel.input_bytes,
                    k < b.k ? columns : 0, rows + u * row_bytes, row_bytes);
    }
    if (kernel.k_unit == 2) interleave<std::uint16_t>(rows, rows + row_bytes, padded, mixed);
    if (kernel.k_unit == 4) {  // pairs of pairs
        Byte* upper = mixed + 2 * padded;
        interleave<std::uint8_t>(rows, rows + row_bytes, padded, mixed);
        interleave<std::uint8_t>(rows + 2 * row_bytes, rows + 3 * row_bytes, padded, upper);
        interleave<std::uint16_t>(mixed, upper, padded, rows);
    }
    const Byte* words = kernel.k_unit == 2 ? mixed : rows;
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
    // The room for sums is always there: it also keeps neighbouring panels off a power of two,
    // where writing one word to each would fight for one set of the L1 cache.
    return round_up(words * kernel.nr * kernel.word_bytes + kernel.nr * 4, 64);
}

void pack_strip(const Kernel& kernel, const Source& a, std::int64_t rows, void* strip) {
    alignas(64) Byte row[kMaxBlockBytes];
    const std::int64_t chunks =
        strip_bytes(kernel, block_words(kernel, a.k)) / kernel.mr / kChunkBytes;
    const bool as_stored =
        !kernel.convert_a && a.k * kernel.packed_bytes() == chunks * kChunkBytes;
    for (std::int64_t i = 0; i < kernel.mr; ++i) {
        const Byte* stored = static_cast<const Byte*>(a.stored) +
                             (i < rows ? i * a.row_elements * kernel.input_bytes : 0);
        const Byte* from = as_stored && i < rows ? stored : row;
        if (from == row)
            convert_row(kernel, kernel.convert_a, stored, i < rows ? a.k : 0, row,
                        chunks * kChunkBytes);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
            std::memcpy(static_cast<Byte*>(strip) + (chunk * kernel.mr + i) * kChunkBytes,
                        from + chunk * kChunkBytes, kChunkBytes);
    }
}

void pack_panels(const Kernel& kernel, Layout layout, const Source& b, std::int64_t columns,
                 void* panels, std::int64_t stride_bytes) {
    auto* target = static_cast<Byte*>(panels);
    const std::int64_t words = block_words(kernel, b.k);
    const std::int64_t widest = kColumnsAtOnce / kernel.nr * kernel.nr;
    const std::int64_t step = layout == Layout::nt ? kernel.nr : widest;
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
