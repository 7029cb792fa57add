#include "memory_team.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif

namespace pymicro {
namespace {

#if defined(__linux__)
std::vector<int> usable_cores() {
    cpu_set_t set;
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(core, &set)) cores.push_back(core);
    return cores;
}

void bind_this_thread(int worker) {
    static const std::vector<int> cores = usable_cores();
    if (cores.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[worker % cores.size()], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

long process_id() { return getpid(); }
#else
void bind_this_thread(int) {}
long process_id() { return 0; }
#endif

using Task = std::function<void(int)>;

class Team {
public:
    void run(int threads, const Task& task) {
        const std::lock_guard lock(busy_);
        while (static_cast<int>(boxes_.size()) < threads) start_one();
        pending_.store(threads, std::memory_order_relaxed);
        for (int i = 0; i < threads; ++i) {
            boxes_[i]->store(&task, std::memory_order_release);
            boxes_[i]->notify_one();
        }
        for (int left; (left = pending_.load(std::memory_order_acquire)) != 0;)
            pending_.wait(left, std::memory_order_acquire);
    }

private:
    using Box = std::atomic<const Task*>;

    void start_one() {
        boxes_.push_back(std::make_unique<Box>(nullptr));
        std::thread([this, box = boxes_.back().get(), worker = static_cast<int>(boxes_.size()) - 1] {
            bind_this_thread(worker);
            for (;;) {
                box->wait(nullptr, std::memory_order_acquire);
                const Task* task = box->load(std::memory_order_acquire);
                (*task)(worker);
                box->store(nullptr, std::memory_order_relaxed);
                if (pending_.fetch_sub(1, std::memory_order_release) == 1) pending_.notify_one();
            }
        }).detach();
    }

    std::mutex busy_;
    std::vector<std::unique_ptr<Box>> boxes_;
    std::atomic<int> pending_{0};
};

// Its threads sleep until the process ends; a forked child has none of them and gets a new team.
Team& team() {
    static Team* current = nullptr;
    static long owner = -1;
    if (owner != process_id()) {
        current = new Team;
        owner = process_id();
    }
    return *current;
}

}  // namespace

void on_cores(int threads, const std::function<void(int)>& task) { team().run(threads, task); }

}  // namespace pymicro
