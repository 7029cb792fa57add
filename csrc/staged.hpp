// Copies between ordinary memory of the host and a GPU through small pinned buffers: host threads
// move the data between the two kinds of memory while the copy engine moves it over the link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pymicro {

// One pinned buffer with the event that tells when the copy engine is done with it.
struct Slot {
    std::uintptr_t address, event;
};

// What a host thread works with: two buffers that take turns, and a stream of its own.
struct Stage {
    Slot slots[2];
    std::uintptr_t stream;
};

// Handles are the driver's, as integers. Each stage is one thread's; `chunk_bytes` is the size of
// a buffer.
struct StagedCopy {
    std::uintptr_t to, from;
    std::int64_t bytes, chunk_bytes;
    bool to_device;
    std::uintptr_t context;
    std::vector<Stage> stages;
};

// Returns when everything has arrived. Throws std::runtime_error if the library cannot be loaded or
// the driver refuses a call.
void staged_copy(const StagedCopy& copy, const std::string& library);

}  // namespace pymicro
