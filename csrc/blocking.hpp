// How a product is cut up, from cache sizes, register tile and thread count.
#pragma once

#include "kernel.hpp"

namespace pymicro {

// No block of k is longer than this in packed bytes of one row.
inline constexpr std::int64_t kMaxBlockBytes = 2048;

struct Blocking {
    std::int64_t k_elements;  // one block of k
    std::int64_t rows;        // one tile of C, multiples of mr and nr
    std::int64_t columns;
};

Blocking choose_blocking(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                         int threads, const CpuFeatures& cpu);

}  // namespace pymicro
