#include "staged.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "driver_library.hpp"
#include "pool.hpp"

namespace pymicro {
namespace {

using Handle = std::uintptr_t;

// The driver's functions that a stage needs.
struct Driver {
    int (*set_current)(Handle context);
    int (*to_device)(Handle to, const void* from, std::size_t bytes, Handle stream);
    int (*to_host)(void* to, Handle from, std::size_t bytes, Handle stream);
    int (*record)(Handle event, Handle stream);
    int (*wait)(Handle event);

    explicit Driver(const std::string& library) {
        load(set_current, library, "cuCtxSetCurrent");
        load(to_device, library, "cuMemcpyHtoDAsync_v2");
        load(to_host, library, "cuMemcpyDtoHAsync_v2");
        load(record, library, "cuEventRecord");
        load(wait, library, "cuEventSynchronize");
    }

    template <class Function>
    static void load(Function& function, const std::string& library, const char* name) {
        function = reinterpret_cast<Function>(driver_function(library, name));
    }
};

// What all threads share: the next chunk that nobody has taken, and the first error.
struct Progress {
    std::atomic<std::int64_t> next{0};
    std::atomic<int> error{0};

    bool fine(int code) {
        int none = 0;
        if (code != 0) error.compare_exchange_strong(none, code);
        return error.load() == 0;
    }
};

struct Chunk {
    std::int64_t begin, bytes;
};

// One thread's part of a copy.
class Worker {
public:
    Worker(const StagedCopy& copy, const Stage& stage, const Driver& driver, Progress& progress)
        : copy_(copy), stage_(stage), driver_(driver), progress_(progress) {}

    void run() {
        if (!progress_.fine(driver_.set_current(copy_.context))) return;
        copy_.to_device ? down() : up();
    }

private:
    bool take(Chunk& chunk) {
        chunk.begin = progress_.next.fetch_add(1) * copy_.chunk_bytes;
        chunk.bytes = std::min(copy_.chunk_bytes, copy_.bytes - chunk.begin);
        return chunk.bytes > 0;
    }

    // Fill a buffer as soon as the link has emptied it.
    void down() {
        Chunk chunk;
        for (int turn = 0; take(chunk); turn ^= 1) {
            const Slot& slot = stage_.slots[turn];
            if (!progress_.fine(driver_.wait(slot.event))) return;
            void* buffer = reinterpret_cast<void*>(slot.address);
            std::memcpy(buffer, reinterpret_cast<const char*>(copy_.from) + chunk.begin,
                        static_cast<std::size_t>(chunk.bytes));
            if (!queue(slot, driver_.to_device(copy_.to + chunk.begin, buffer,
                                               static_cast<std::size_t>(chunk.bytes),
                                               stage_.stream)))
                return;
        }
        for (const Slot& slot : stage_.slots) progress_.fine(driver_.wait(slot.event));
    }

    // Two copies are on their way before the first is waited for.
    void up() {
        Chunk chunks[2];
        bool busy[2] = {fetch(chunks[0], 0), fetch(chunks[1], 1)};
        for (int turn = 0; busy[turn]; turn ^= 1) {
            const Slot& slot = stage_.slots[turn];
            if (!progress_.fine(driver_.wait(slot.event))) return;
            std::memcpy(reinterpret_cast<char*>(copy_.to) + chunks[turn].begin,
                        reinterpret_cast<const void*>(slot.address),
                        static_cast<std::size_t>(chunks[turn].bytes));
            busy[turn] = fetch(chunks[turn], turn);
        }
    }

    bool fetch(Chunk& chunk, int turn) {
        if (!take(chunk)) return false;
        const Slot& slot = stage_.slots[turn];
        return queue(slot, driver_.to_host(reinterpret_cast<void*>(slot.address),
                                           copy_.from + chunk.begin,
                                           static_cast<std::size_t>(chunk.bytes), stage_.stream));
    }

    bool queue(const Slot& slot, int code) {
        return progress_.fine(code) && progress_.fine(driver_.record(slot.event, stage_.stream));
    }

    const StagedCopy& copy_;
    const Stage& stage_;
    const Driver& driver_;
    Progress& progress_;
};

}  // namespace

void staged_copy(const StagedCopy& copy, const std::string& library) {
    const Driver driver(library);
    Progress progress;
    const int threads = static_cast<int>(copy.stages.size());
    parallel(threads, threads, [&](int index, int) {
        Worker(copy, copy.stages[index], driver, progress).run();
    });
    if (const int code = progress.error.load())
        throw std::runtime_error("the CUDA driver answered a staged copy with error " +
                                 std::to_string(code));
}

}  // namespace pymicro
