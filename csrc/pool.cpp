#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#include "target.hpp"

namespace pymicro {
namespace {

constexpr int kSpins = 4000;  // some tens of microseconds: longer than the gap between two phases

void relax() {
#if PYMICRO_X86_KERNELS
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Waits until the value differs from `old`, first spinning, then asleep.
template <class T>
T wait_change(std::atomic<T>& value, T old) {
    for (int i = 0; i < kSpins; ++i) {
        const T now = value.load(std::memory_order_acquire);
        if (now != old) return now;
        relax();
    }
    value.wait(old, std::memory_order_acquire);
    return value.load(std::memory_order_acquire);
}

struct Job {
    const std::function<void(int, int)>& task;
    int tasks;
    std::atomic<int> next{0};

    void work(int worker) {
        for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) task(i, worker);
    }
};

class Pool {
public:
    void run(int threads, Job& job) {
        while (static_cast<int>(mailboxes_.size()) < threads - 1 && start_one()) {}
        const int helpers = std::min(threads - 1, static_cast<int>(mailboxes_.size()));
        pending_.store(helpers, std::memory_order_relaxed);
        for (int i = 0; i < helpers; ++i) {
            mailboxes_[i]->store(&job, std::memory_order_release);
            mailboxes_[i]->notify_one();
        }
        job.work(0);
        for (int left = pending_.load(std::memory_order_acquire); left != 0;)
            left = wait_change(pending_, left);
    }

private:
    using Mailbox = std::atomic<Job*>;

    // False where the system grants no further thread: the work is then shared by fewer.
    bool start_one() {
        auto owner = std::make_unique<Mailbox>(nullptr);
        mailboxes_.reserve(mailboxes_.size() + 1);
        const int worker = static_cast<int>(mailboxes_.size()) + 1;
        try {
            start(owner.get(), worker);
        } catch (const std::system_error&) {
            return false;
        }
        mailboxes_.push_back(std::move(owner));
        return true;
    }

    void start(Mailbox* box, int worker) {
        std::thread([this, box, worker] {
            for (;;) {
                Job* job = wait_change(*box, static_cast<Job*>(nullptr));
                job->work(worker);
                box->store(nullptr, std::memory_order_relaxed);
                pending_.fetch_sub(1, std::memory_order_release);
                pending_.notify_one();
            }
        }).detach();
    }

    std::vector<std::unique_ptr<Mailbox>> mailboxes_;
    std::atomic<int> pending_{0};
};

long process_id() {
#if defined(__unix__) || defined(__APPLE__)
    return getpid();
#else
    return 0;
#endif
}

// Never destroyed: its threads sleep until the process ends. A forked child inherits the memory
// but not the threads, so it gets a pool of its own.
Pool& pool() {
    static Pool* current = nullptr;
    static long owner = -1;
    if (owner != process_id()) {
        current = new Pool;
        owner = process_id();
    }
    return *current;
}

}  // namespace

void parallel(int threads, int tasks, const std::function<void(int, int)>& task) {
    Job job{task, tasks};
    threads = std::min(threads, tasks);
    if (threads <= 1)
        job.work(0);
    else
        pool().run(threads, job);
}

}  // namespace pymicro
