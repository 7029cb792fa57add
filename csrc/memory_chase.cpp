// A pointer chase: each load needs the last one's result, so its time is the latency of wherever
// the ring lies. A random order is one that no prefetcher can guess.
#include <cstdio>
#include <new>
#include <stdexcept>

#include "memory.hpp"
#include "memory_team.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace pymicro {
namespace {

constexpr std::int64_t kHugePageBytes = 2 << 20;
constexpr std::int64_t kPointerBytes = sizeof(void*);

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

#if defined(__linux__)
// Anonymous memory that starts at a huge page's boundary.
char* map_memory(std::int64_t bytes, bool huge_pages) {
    void* whole = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) throw std::bad_alloc();
    const auto start = reinterpret_cast<std::uintptr_t>(whole);
    const std::uintptr_t base = rounded_up(start, kHugePageBytes);
    if (base > start) munmap(whole, base - start);
    munmap(reinterpret_cast<void*>(base + bytes), start + kHugePageBytes - base);
    char* memory = reinterpret_cast<char*>(base);
    madvise(memory, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

void unmap_memory(char* memory, std::int64_t bytes) { munmap(memory, bytes); }
#else
char* map_memory(std::int64_t bytes, bool) {
    return static_cast<char*>(::operator new(bytes, std::align_val_t{kHugePageBytes}));
}

void unmap_memory(char* memory, std::int64_t) {
    ::operator delete(memory, std::align_val_t{kHugePageBytes});
}
#endif

}  // namespace

Chain::Chain(const std::int32_t* order, std::int64_t places, std::int64_t stride_bytes,
             bool huge_pages)
    : places_(places) {
    if (stride_bytes < kPointerBytes || stride_bytes % kPointerBytes)
        throw std::invalid_argument("the stride must be a multiple of a pointer");
    if (places < 2) throw std::invalid_argument("a chain needs two places or more");
    for (std::int64_t i = 0; i < places; ++i)
        if (order[i] < 0 || order[i] >= places) throw std::invalid_argument("no such place");
    mapped_bytes_ = rounded_up(places * stride_bytes, kHugePageBytes);
    base_ = map_memory(mapped_bytes_, huge_pages);
    on_cores(1, [&](int) {
        for (std::int64_t i = 0; i < places; ++i)
            *reinterpret_cast<void**>(base_ + order[i] * stride_bytes) =
                base_ + order[i + 1 < places ? i + 1 : 0] * stride_bytes;
    });
    at_ = reinterpret_cast<void**>(base_ + order[0] * stride_bytes);
}

Chain::~Chain() { unmap_memory(base_, mapped_bytes_); }

std::int64_t Chain::walk(std::int64_t steps) {
    on_cores(1, [&](int) {
        void** at = at_;
        std::int64_t left = steps;
        for (; left >= 16; left -= 16) {
#pragma GCC unroll 16
            for (int step = 0; step < 16; ++step) at = static_cast<void**>(*at);
        }
        for (; left > 0; --left) at = static_cast<void**>(*at);
        at_ = at;
    });
    return reinterpret_cast<char*>(at_) - base_;
}

std::int64_t Chain::huge_bytes() const {
#if defined(__linux__)
    std::FILE* file = std::fopen("/proc/self/smaps", "r");
    if (!file) return -1;
    char line[512];
    bool inside = false;
    long long kib, bytes = 0;
    unsigned long long from, to;
    const auto base = reinterpret_cast<std::uintptr_t>(base_);
    while (std::fgets(line, sizeof line, file)) {
        if (std::sscanf(line, "%llx-%llx ", &from, &to) == 2)
            inside = from < base + mapped_bytes_ && to > base;
        else if (inside && std::sscanf(line, "AnonHugePages: %lld kB", &kib) == 1)
            bytes += kib * 1024;
    }
    std::fclose(file);
    return bytes;
#else
    return -1;
#endif
}

}  // namespace pymicro
