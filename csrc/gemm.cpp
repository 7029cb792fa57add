// The product itself: pack both operands on all threads, then hand out tiles of C. A tile runs
// through all of k before the next, so sums stay in cache and are rounded to the output once.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "blocking.hpp"
#include "buffer.hpp"
#include "kernel.hpp"
#include "pack.hpp"
#include "pool.hpp"

namespace pymicro {
namespace {

using Byte = unsigned char;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Packed operands never cover more than this many rows or columns at a time.
constexpr std::int64_t kPackAtOnce = 8192;
constexpr std::int64_t kRowsPerTask = 64;  // of stored operands with k along the row

// Memory kept between calls; one product at a time owns it.
struct Workspace {
    std::mutex busy;
    Buffer strips, panels, tiles;
};

Workspace& workspace() {
    static auto* kept = new Workspace;
    return *kept;
}

// One part of C whose operands are packed together: origin and size.
struct Part {
    std::int64_t i, j, m, n;
};

class Product {
public:
    Product(const Problem& problem, const Kernel& kernel, int threads, Workspace& space)
        : p_(problem), kernel_(kernel), threads_(threads), space_(space) {}

    void run() {
        for (std::int64_t i = 0; i < p_.m; i += kPackAtOnce)
            for (std::int64_t j = 0; j < p_.n; j += kPackAtOnce)
                run_part({i, j, std::min(kPackAtOnce, p_.m - i), std::min(kPackAtOnce, p_.n - j)},
                         j == 0);
    }

private:
    void run_part(const Part& part, bool pack_a) {
        block_ = choose_blocking(kernel_, part.m, part.n, p_.k, threads_, cpu_features());
        k_blocks_ = ceil_div(p_.k, block_.k_elements);
        const std::int64_t words = block_words(kernel_, block_.k_elements);
        strip_bytes_ = strip_bytes(kernel_, words);
        panel_bytes_ = panel_bytes(kernel_, words);
        strips_ = ceil_div(part.m, kernel_.mr);
        panels_ = ceil_div(part.n, kernel_.nr);
        space_.strips.ensure(k_blocks_ * strips_ * strip_bytes_);
        space_.panels.ensure(k_blocks_ * panels_ * panel_bytes_);
        down_ = ceil_div(part.m, block_.rows);
        across_ = ceil_div(part.n, block_.columns);
        const std::int64_t register_tiles =
            (block_.rows / kernel_.mr) * (block_.columns / kernel_.nr);
        tile_bytes_ = (k_blocks_ == 1 ? 1 : register_tiles) * kernel_.sums_bytes();
        space_.tiles.ensure(std::min<std::int64_t>(threads_, down_ * across_) * tile_bytes_);
        pack(part, pack_a);
        multiply(part);
    }

    std::int64_t block_length(std::int64_t k_block) const {
        return std::min(block_.k_elements, p_.k - k_block * block_.k_elements);
    }

    Byte* strip(std::int64_t k_block, std::int64_t index) const {
        return space_.strips.data() + (k_block * strips_ + index) * strip_bytes_;
    }

    Byte* panel(std::int64_t k_block, std::int64_t index) const {
        return space_.panels.data() + (k_block * panels_ + index) * panel_bytes_;
    }

    void pack(const Part& part, bool pack_a) {
        const std::int64_t strips_per_task = ceil_div(kRowsPerTask, kernel_.mr);
        const std::int64_t columns = p_.layout == Layout::nt ? kRowsPerTask : kColumnsAtOnce;
        const std::int64_t panels_per_task = columns / kernel_.nr;
        const std::int64_t a_groups = pack_a ? ceil_div(strips_, strips_per_task) : 0;
        const std::int64_t groups = a_groups + ceil_div(panels_, panels_per_task);
        parallel(threads_, static_cast<int>(groups * k_blocks_), [&](int index, int) {
            const std::int64_t k_block = index % k_blocks_, group = index / k_blocks_;
            if (group < a_groups)
                pack_rows(part, k_block, group * strips_per_task, strips_per_task);
            else
                pack_columns(part, k_block, (group - a_groups) * panels_per_task, panels_per_task);
        });
    }

    void pack_rows(const Part& part, std::int64_t k_block, std::int64_t first, std::int64_t count) {
        for (std::int64_t s = first; s < std::min(first + count, strips_); ++s) {
            const std::int64_t row = s * kernel_.mr;
            const std::int64_t skip = (part.i + row) * p_.k + k_block * block_.k_elements;
            const Source source{element(p_.a, skip), p_.k, block_length(k_block)};
            pack_strip(kernel_, source, std::min<std::int64_t>(kernel_.mr, part.m - row),
                       strip(k_block, s));
        }
    }

    void pack_columns(const Part& part, std::int64_t k_block, std::int64_t first,
                      std::int64_t count) {
        const std::int64_t column = first * kernel_.nr, k = k_block * block_.k_elements;
        const bool nt = p_.layout == Layout::nt;
        const std::int64_t skip = nt ? (part.j + column) * p_.k + k : k * p_.n + part.j + column;
        const Source source{element(p_.b, skip), nt ? p_.k : p_.n, block_length(k_block)};
        pack_panels(kernel_, p_.layout, source,
                    std::min(count * kernel_.nr, part.n - column), panel(k_block, first),
                    panel_bytes_);
    }

    const void* element(const void* base, std::int64_t index) const {
        return static_cast<const Byte*>(base) + index * kernel_.input_bytes;
    }

    void multiply(const Part& part) {
        parallel(threads_, static_cast<int>(down_ * across_), [&](int index, int worker) {
            Byte* sums = space_.tiles.data() + worker * tile_bytes_;
            const std::int64_t i = index / across_ * block_.rows;
            const std::int64_t j = index % across_ * block_.columns;
            const Part tile{i, j, std::min(block_.rows, part.m - i),
                            std::min(block_.columns, part.n - j)};
            if (kernel_.begin) kernel_.begin();
            for (std::int64_t k_block = 0; k_block < k_blocks_; ++k_block)
                multiply_tile(part, tile, k_block, sums);
            if (kernel_.end) kernel_.end();
        });
    }

    // A panel stays in L1 while all strips of the tile pass by. Sums of one register tile lie
    // together, and those of the last block of k go straight on to C.
    void multiply_tile(const Part& part, const Part& tile, std::int64_t k_block, Byte* sums) {
        const std::int64_t words = block_words(kernel_, block_length(k_block));
        const std::int64_t strips = ceil_div(tile.m, kernel_.mr);
        const std::int64_t panels = ceil_div(tile.n, kernel_.nr);
        const std::int64_t sums_step = k_blocks_ == 1 ? 0 : kernel_.sums_bytes();
        for (std::int64_t q = 0; q < panels; ++q)
            for (std::int64_t s = 0; s < strips; ++s, sums += sums_step) {
                kernel_.multiply(words, strip(k_block, tile.i / kernel_.mr + s),
                                 panel(k_block, tile.j / kernel_.nr + q), sums, k_block > 0);
                if (k_block == k_blocks_ - 1)
                    store(part, tile, s * kernel_.mr, q * kernel_.nr, sums);
            }
    }

    void store(const Part& part, const Part& tile, std::int64_t i, std::int64_t j,
               const Byte* sums) {
        const std::int64_t at = (part.i + tile.i + i) * p_.n + part.j + tile.j + j;
        kernel_.store(sums, static_cast<Byte*>(p_.c) + at * kernel_.output_bytes, p_.n,
                      static_cast<int>(std::min<std::int64_t>(kernel_.mr, tile.m - i)),
                      static_cast<int>(std::min<std::int64_t>(kernel_.nr, tile.n - j)));
    }

    const Problem& p_;
    const Kernel& kernel_;
    const int threads_;
    Workspace& space_;
    Blocking block_{};
    std::int64_t k_blocks_ = 0, strips_ = 0, panels_ = 0, down_ = 0, across_ = 0;
    std::int64_t strip_bytes_ = 0, panel_bytes_ = 0, tile_bytes_ = 0;
};

}  // namespace

void gemm(const Problem& problem, int threads, const std::string& path) {
    const Kernel& kernel = find_kernel(problem.dtype, path);
    Workspace& space = workspace();
    const std::lock_guard lock(space.busy);
    // Waking a thread costs some ten microseconds, about what a core needs for this much.
    constexpr double kWorthSharing = 5e5;
    const double flop = 2.0 * problem.m * problem.n * problem.k;
    Product(problem, kernel, flop < kWorthSharing ? 1 : threads, space).run();
}

}  // namespace pymicro
