// Runs a probe on several threads at once and adds up what they did.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "probe.hpp"

namespace pymicro {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTurnsAtOnce = 4096;  // tens of microseconds between looks at the clock

struct Share {
    Clock::time_point start, end;
    std::int64_t turns = 0;
};

void work(const Probe& probe, double seconds, Share& share) {
    share.start = Clock::now();
    const auto stop = share.start + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
    do {
        probe.run(kTurnsAtOnce);
        share.turns += kTurnsAtOnce;
        share.end = Clock::now();
    } while (share.end < stop);
}

const Probe& find_probe(const std::string& name) {
    for (const Probe& probe : x86_probes())
        if (name == probe.name && probe.runs_on(cpu_features())) return probe;
    throw std::invalid_argument("no probe '" + name + "' on this CPU");
}

}  // namespace

std::vector<std::string> peak_probes() {
    std::vector<std::string> names;
    for (const Probe& probe : x86_probes())
        if (probe.runs_on(cpu_features())) names.emplace_back(probe.name);
    return names;
}

Issued peak(const std::string& name, int threads, double seconds) {
    const Probe& probe = find_probe(name);
    std::vector<Share> shares(threads);
    std::barrier ready(threads);
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i)
        helpers.emplace_back([&, i] {
            ready.arrive_and_wait();
            work(probe, seconds, shares[i]);
        });
    ready.arrive_and_wait();
    work(probe, seconds, shares[0]);
    for (auto& helper : helpers) helper.join();

    Issued all{};
    auto first = shares[0].start, last = shares[0].end;
    for (const Share& share : shares) {
        all.flop += static_cast<double>(share.turns) * probe.flop_per_turn;
        first = std::min(first, share.start);
        last = std::max(last, share.end);
    }
    all.seconds = std::chrono::duration<double>(last - first).count();
    return all;
}

}  // namespace pymicro
