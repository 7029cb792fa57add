// Runs a probe on several threads at once and keeps what they leave.
#include <cstring>
#include <stdexcept>
#include <thread>

#include "probe.hpp"

namespace pymicro {
namespace {

constexpr std::int64_t kTurnsAtOnce = 4096;  // from sums of zero
constexpr std::int64_t kHeaderBytes = 8;     // what a thread leaves begins with its blocks

void work(const Probe& probe, std::int64_t blocks, const void* a, const void* b, char* out) {
    std::int32_t done = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
        probe.run(kTurnsAtOnce, a, b, out + kHeaderBytes);
        ++done;
    }
    const std::int32_t header[2] = {done, 0};
    std::memcpy(out, header, sizeof header);
}

const Probe& find_probe(const std::string& name) {
    for (const Probe& probe : x86_probes())
        if (name == probe.name && probe.runs_on(cpu_features())) return probe;
    throw std::invalid_argument("no probe '" + name + "' on this CPU");
}

}  // namespace

std::vector<ProbeName> peak_probes() {
    std::vector<ProbeName> names;
    for (const Probe& probe : x86_probes())
        if (probe.runs_on(cpu_features())) names.push_back({probe.name, probe.flop_per_turn});
    return names;
}

void issue(const std::string& name, int threads, std::int64_t blocks, const Bytes& a,
           const Bytes& b, const MutableBytes& out) {
    const Probe& probe = find_probe(name);
    const std::int64_t share = kHeaderBytes + probe.sums_bytes;
    if (a.size != probe.operand_bytes || b.size != probe.operand_bytes)
        throw std::invalid_argument("an operand of " + name + " has " +
                                    std::to_string(probe.operand_bytes) + " bytes");
    if (out.size != threads * share)
        throw std::invalid_argument("each thread of " + name + " leaves " +
                                    std::to_string(share) + " bytes");
    auto* const to = static_cast<char*>(out.data);
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i)
        helpers.emplace_back([&, i] { work(probe, blocks, a.data, b.data, to + i * share); });
    work(probe, blocks, a.data, b.data, to);
    for (auto& helper : helpers) helper.join();
}

}  // namespace pymicro
