#include "blocking.hpp"

#include <algorithm>

namespace pymicro {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

// Unless the kernel knows better, a panel of B takes half of L1; the other half is for the strip
// of A that streams past it.
std::int64_t block_of_k(const Kernel& kernel, std::int64_t k, std::int64_t l1_bytes) {
    std::int64_t row_bytes = kernel.k_block_bytes;
    if (row_bytes == 0)
        row_bytes = std::clamp<std::int64_t>(l1_bytes / 2 / kernel.nr / kChunkBytes * kChunkBytes,
                                             512, kMaxBlockBytes);
    const std::int64_t longest = row_bytes / kernel.packed_bytes();
    const std::int64_t chunk = kChunkBytes / kernel.packed_bytes();
    return std::min(longest, round_up(ceil_div(k, ceil_div(k, longest)), chunk));
}

// Share of the threads' time that is work when `tiles` equal tiles are dealt out.
double balance(std::int64_t tiles, int threads) {
    return static_cast<double>(tiles) / static_cast<double>(ceil_div(tiles, threads) * threads);
}

}  // namespace

Blocking choose_blocking(const Kernel& kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                         int threads, const CpuFeatures& cpu) {
    const std::int64_t l1_bytes = cpu.l1d_bytes ? cpu.l1d_bytes : 32 * 1024;
    const std::int64_t l2_bytes = cpu.l2_bytes ? cpu.l2_bytes : 256 * 1024;
    Blocking block{};
    block.k_elements = block_of_k(kernel, k, l1_bytes);
    const std::int64_t row_bytes = block.k_elements * kernel.packed_bytes();
    const std::int64_t rows = std::clamp<std::int64_t>(l2_bytes / 2 / row_bytes, 64, 512);
    block.rows = round_up(std::min(rows, m), kernel.mr);
    block.columns = round_up(std::min<std::int64_t>(512, n), kernel.nr);

    auto tiles = [&] { return ceil_div(m, block.rows) * ceil_div(n, block.columns); };
    while (threads > 1 && (tiles() < 3 * threads || balance(tiles(), threads) < 0.9)) {
        const bool tall = block.rows / kernel.mr >= block.columns / kernel.nr;
        std::int64_t& side = tall ? block.rows : block.columns;
        const int unit = tall ? kernel.mr : kernel.nr;
        if (side <= 4 * unit) break;
        side = round_up(side / 2, unit);
    }
    return block;
}

}  // namespace pymicro
