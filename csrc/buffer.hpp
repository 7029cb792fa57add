// Page-aligned memory that grows and is never copied or cleared.
#pragma once

#include <cstdint>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace pymicro {

class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { release(); }

    // At least `bytes`; what was in it may be lost.
    void ensure(std::int64_t bytes) {
        if (bytes <= size_bytes_) return;
        release();
        bytes = (bytes + kAlign - 1) / kAlign * kAlign;
        data_ = static_cast<unsigned char*>(::operator new(bytes, std::align_val_t{kAlign}));
        size_bytes_ = bytes;
#if defined(__linux__)
        madvise(data_, bytes, MADV_HUGEPAGE);  // fewer TLB misses; a refusal changes nothing else
#endif
    }

    unsigned char* data() const { return data_; }

private:
    static constexpr std::int64_t kAlign = 2 << 20;

    void release() {
        ::operator delete(data_, std::align_val_t{kAlign});
        data_ = nullptr;
        size_bytes_ = 0;
    }

    unsigned char* data_ = nullptr;
    std::int64_t size_bytes_ = 0;
};

}  // namespace pymicro
