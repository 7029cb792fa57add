// What the instruction sets offer to memory_stream.cpp.
#pragma once

#include <cstdint>

#include "memory.hpp"

namespace pymicro {

// One worker's part of the arrays; `sum` is where a reduction adds to.
struct StreamShare {
    const void* a;
    const void* b;
    void* c;
    std::int64_t count;
    double s;
    double sum;
    std::uint32_t wrapped_sum;
};

using StreamKernel = void (*)(StreamShare&);

struct StreamPath {
    const char* name;
    bool (*runs)();
    // The kernel for an operation and a format; non-temporal stores where there are any.
    StreamKernel (*find)(StreamOp, StreamType, bool nontemporal);
};

// From the most capable on; a null name ends the list.
extern const StreamPath kStreamPathsX86[];
extern const StreamPath kStreamPathPortable;

// Partial sums in the array's own format are added to `sum` this often: fp32 keeps its digits.
constexpr std::int64_t kBlockElements = 16384;

}  // namespace pymicro
