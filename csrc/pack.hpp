// Brings operands as the caller stores them into the packed forms of kernel.hpp.
#pragma once

#include "kernel.hpp"

namespace pymicro {

// A block of k of one operand; `stored` points at the block's first element.
struct Source {
    const void* stored;
    std::int64_t row_elements;  // distance of stored rows
    std::int64_t k;             // elements of k in this block
};

// Columns of B handled together for nn, where each stored row gives every panel one word: long
// enough for the prefetchers, short enough for L1.
inline constexpr std::int64_t kColumnsAtOnce = 256;

// Bytes of a packed strip or panel of `words` words, a multiple of 64.
std::int64_t strip_bytes(const Kernel& kernel, std::int64_t words);
std::int64_t panel_bytes(const Kernel& kernel, std::int64_t words);

// Packed words of a block of k elements, zero-filled ones included.
std::int64_t block_words(const Kernel& kernel, std::int64_t k);

// Packs `rows` rows of A (at most mr; missing ones become zero) into one strip.
void pack_strip(const Kernel& kernel, const Source& a, std::int64_t rows, void* strip);

// Packs `columns` columns of B into consecutive panels, `stride_bytes` apart; the last may be
// partly filled. B's stored rows are columns of the product for nt, rows of k for nn.
void pack_panels(const Kernel& kernel, Layout layout, const Source& b, std::int64_t columns,
                 void* panels, std::int64_t stride_bytes);

}  // namespace pymicro
