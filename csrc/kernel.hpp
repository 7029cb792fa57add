// What one instruction set brings to a product. Everything above these functions (packing order,
// blocking, threads) is the same for all, so a new instruction set is one more table of rows.
//
// Packed forms. A word is 4 bytes (8 for fp64) and holds `k_unit` operand elements next to each
// other in k. A strip of A (mr rows) is a sequence of chunks; a chunk is 64 bytes of k from each
// of the mr rows, so a kernel walks it forwards and reaches every row at a fixed distance.
// A panel of B (nr columns) is [word][nr], followed by nr 32-bit sums where `sum_panel` is set.
#pragma once

#include <cstdint>
#include <span>

#include "native.hpp"

namespace pymicro {

inline constexpr std::int64_t kChunkBytes = 64;

struct Kernel {
    const char* path;
    DType dtype;
    bool (*runs_on)(const CpuFeatures&);

    int mr, nr;            // register tile
    int k_unit;            // operand elements in one word
    int word_bytes;
    int input_bytes;       // one element of A or B as the caller stores it
    int output_bytes;      // one element of C
    int k_step_words;      // packed k is zero-filled to a multiple of this

    // Contiguous elements as stored -> as packed; null: the same bits.
    void (*convert_a)(const void* stored, void* packed, std::int64_t count);
    void (*convert_b)(const void* stored, void* packed, std::int64_t count);
    // nr rows of `words` words, `row_bytes` apart -> [word][nr].
    void (*transpose)(const void* rows, std::int64_t row_bytes, std::int64_t words, int nr,
                      void* panel);
    // Fills in the sums behind a panel; null: none needed.
    void (*sum_panel)(void* panel, std::int64_t words);

    // sums[mr][nr] (+)= strip x panel.
    void (*multiply)(std::int64_t words, const void* strip, const void* panel, void* sums,
                     bool add);
    // The first rows and columns of sums[mr][nr], rounded to the output, into a part of C whose
    // rows are `row_elements` apart.
    void (*store)(const void* sums, void* output, std::int64_t row_elements, int rows,
                  int columns);

    // Packed bytes of one row in a block of k; 0: as long as a panel fits half of L1.
    int k_block_bytes = 0;

    // Around a run of multiply() on one thread; null: nothing to set up.
    void (*begin)() = nullptr;
    void (*end)() = nullptr;

    int packed_bytes() const { return word_bytes / k_unit; }
    std::int64_t sums_bytes() const { return std::int64_t{mr} * nr * word_bytes; }
};

// Each in its own file; empty where the compiler or the machine's architecture has none.
std::span<const Kernel> amx_kernels();
std::span<const Kernel> avx512_kernels();
std::span<const Kernel> avx2_kernels();
std::span<const Kernel> portable_kernels();

// The kernel for a path, or the fastest for an empty one; throws std::invalid_argument.
const Kernel& find_kernel(DType dtype, const std::string& path);

}  // namespace pymicro
