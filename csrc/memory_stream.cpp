// Shares the arrays of a stream among pinned threads and runs the chosen loop on each.
#include "memory_stream.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "memory_team.hpp"

namespace pymicro {
namespace {

constexpr std::int64_t kPageBytes = 4096;

struct Range {
    std::int64_t first, count;
};

// Worker `worker`'s elements: whole pages, so that a page has one owner.
Range share_of(std::int64_t count, int item_bytes, int threads, int worker) {
    const std::int64_t per_page = kPageBytes / item_bytes;
    const std::int64_t pages = (count + per_page - 1) / per_page;
    const std::int64_t first = std::min(pages * worker / threads * per_page, count);
    const std::int64_t last = std::min(pages * (worker + 1) / threads * per_page, count);
    return {first, last - first};
}

int item_bytes(StreamType type) { return type == StreamType::fp64 ? 8 : 4; }

template <class T>
T* offset(T* base, std::int64_t bytes) {
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return base ? static_cast<Byte*>(base) + bytes : nullptr;
}

const StreamPath& find_path(const std::string& name) {
    for (const StreamPath* path = kStreamPathsX86; path->name; ++path)
        if (path->runs() && (name.empty() || name == path->name)) return *path;
    if (name.empty() || name == kStreamPathPortable.name) return kStreamPathPortable;
    throw std::invalid_argument("no stream path '" + name + "' on this CPU");
}

bool is_reduction(StreamOp op) { return op == StreamOp::read || op == StreamOp::dot; }

void store_sum(const StreamProblem& p, int worker, const StreamShare& share) {
    if (p.type == StreamType::fp64) static_cast<double*>(p.c)[worker] = share.sum;
    if (p.type == StreamType::fp32) static_cast<float*>(p.c)[worker] = static_cast<float>(share.sum);
    if (p.type == StreamType::int32) static_cast<std::uint32_t*>(p.c)[worker] = share.wrapped_sum;
}

}  // namespace

std::vector<std::string> stream_paths() {
    std::vector<std::string> names;
    for (const StreamPath* path = kStreamPathsX86; path->name; ++path)
        if (path->runs()) names.emplace_back(path->name);
    names.emplace_back(kStreamPathPortable.name);
    return names;
}

void stream(const StreamProblem& p, int threads, int passes, bool nontemporal,
            const std::string& path) {
    const bool reduces = is_reduction(p.op);
    if (reduces && p.partials < threads)
        throw std::invalid_argument("fewer partial sums than threads");
    const StreamKernel kernel = find_path(path).find(p.op, p.type, nontemporal);
    const int item = item_bytes(p.type);
    if (reduces) std::memset(p.c, 0, p.partials * item);  // 4-byte sums for 4-byte elements
    on_cores(threads, [&](int worker) {
        const Range range = share_of(p.count, item, threads, worker);
        const std::int64_t at = range.first * item;
        StreamShare share{offset(p.a, at), offset(p.b, at), reduces ? nullptr : offset(p.c, at),
                          range.count, p.s, 0.0, 0};
        for (int pass = 0; pass < passes; ++pass) {
            share.sum = 0.0;
            share.wrapped_sum = 0;
            kernel(share);
        }
        if (reduces) store_sum(p, worker, share);
    });
}

void stream_place(void* to, const void* from, std::int64_t count, int item, int threads) {
    on_cores(threads, [&](int worker) {
        const Range range = share_of(count, item, threads, worker);
        void* there = offset(to, range.first * item);
        if (from) std::memcpy(there, offset(from, range.first * item), range.count * item);
        else std::memset(there, 0, range.count * item);
    });
}

}  // namespace pymicro
