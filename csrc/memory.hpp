// The speed of the host's memory as plain C++: long arrays through every core, and a pointer chase
// through one. No Python in here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pymicro {

// c = a (copy), s (write), s a (scale), a + b (add), a + s b (triad); read and dot leave partial
// sums of a and of a b in c. Integers wrap.
enum class StreamOp { read, write, copy, scale, add, triad, dot };
enum class StreamType { fp64, fp32, int32 };

// Arrays of `count` elements; c of a reduction has `partials` entries, of which all are written:
// double for fp64, float for fp32, 32-bit integers for int32. Operands that an operation does not
// take are not touched.
struct StreamProblem {
    StreamOp op;
    StreamType type;
    std::int64_t count;
    const void* a;
    const void* b;
    void* c;
    double s;
    std::int64_t partials;
};

// Instruction sets that can run here, best first; "portable" is always last.
std::vector<std::string> stream_paths();

// Does the operation `passes` times. Each of `threads` pinned threads has a fixed share of the
// arrays, the same in every call. Non-temporal stores bypass the caches, so that no line is read
// before it is written; the portable path has none. An empty path is the best one.
void stream(const StreamProblem& problem, int threads, int passes, bool nontemporal,
            const std::string& path);

// Copies `bytes` (or writes zeros, if from is null) with the threads and shares of stream(), so
// that fresh pages of `to` come to lie beside the core that will use them.
void stream_place(void* to, const void* from, std::int64_t count, int item_bytes, int threads);

// A ring of pointers in a given order, one every `stride_bytes`, in memory of its own.
class Chain {
public:
    // `order` is one cycle through all places: order[0] -> order[1] -> ... -> order[0]. Throws
    // std::invalid_argument for a place out of range, std::bad_alloc without memory.
    Chain(const std::int32_t* order, std::int64_t places, std::int64_t stride_bytes,
          bool huge_pages);
    ~Chain();
    Chain(const Chain&) = delete;
    Chain& operator=(const Chain&) = delete;

    std::int64_t places() const { return places_; }
    // Follows `steps` pointers from where the last walk ended, on a pinned core; returns the byte
    // offset of the place where it ended.
    std::int64_t walk(std::int64_t steps);
    // Bytes of it that the system backs with huge pages; -1 where it does not tell.
    std::int64_t huge_bytes() const;

private:
    char* base_ = nullptr;
    std::int64_t mapped_bytes_ = 0, places_;
    void** at_ = nullptr;
};

}  // namespace pymicro
