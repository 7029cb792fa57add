// Register-only loops: what the execution units do when nothing has to be fetched.
#pragma once

#include <cstdint>
#include <span>

#include "native.hpp"

namespace pymicro {

struct Probe {
    const char* name;  // "path/format"
    bool (*runs_on)(const CpuFeatures&);
    double flop_per_turn;  // a multiplication and an addition are two, integer ones as well
    void (*run)(std::int64_t turns);
};

std::span<const Probe> x86_probes();

}  // namespace pymicro
