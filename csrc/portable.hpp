// Pieces in plain C++ that every table may use; compiled for the baseline of the architecture.
#pragma once

#include <cstdint>
#include <cstring>

#include "convert.hpp"

namespace pymicro {

// An element-wise conversion over contiguous memory.
template <class From, class To, To (*convert)(From)>
void convert_each(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const From*>(from);
    auto* out = static_cast<To*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert(in[i]);
}

// Kernel::store, by a function for `count` elements of one row.
template <class Sum, class Output, int nr, void (*convert)(const void*, void*, std::int64_t)>
void store_rows(const void* sums, void* output, std::int64_t row_elements, int rows, int columns) {
    const auto* in = static_cast<const Sum*>(sums);
    auto* out = static_cast<Output*>(output);
    for (int i = 0; i < rows; ++i) convert(in + i * nr, out + i * row_elements, columns);
}

// Kernel::store where the output is the sums themselves.
template <class Word, int nr>
void store_words(const void* sums, void* output, std::int64_t row_elements, int rows,
                 int columns) {
    const auto* in = static_cast<const Word*>(sums);
    auto* out = static_cast<Word*>(output);
    for (int i = 0; i < rows; ++i)
        if (columns == nr)
            std::memcpy(out + i * row_elements, in + i * nr, nr * sizeof(Word));
        else
            std::memcpy(out + i * row_elements, in + i * nr, columns * sizeof(Word));
}

// As Kernel::transpose.
template <class Word>
void transpose_each(const void* rows, std::int64_t row_bytes, std::int64_t words, int nr,
                    void* panel) {
    auto* out = static_cast<Word*>(panel);
    for (std::int64_t w = 0; w < words; ++w)
        for (int j = 0; j < nr; ++j)
            out[w * nr + j] = reinterpret_cast<const Word*>(static_cast<const char*>(rows) +
                                                            j * row_bytes)[w];
}

// int8 -> the same plus 128 as uint8.
inline void int8_to_uint8(const void* from, void* to, std::int64_t count) {
    const auto* in = static_cast<const std::uint8_t*>(from);
    auto* out = static_cast<std::uint8_t*>(to);
    for (std::int64_t i = 0; i < count; ++i) out[i] = in[i] ^ 0x80u;
}

}  // namespace pymicro
