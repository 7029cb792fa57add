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
    std::int64_t operand_bytes;  // of a and of b: one register, or one tile
    std::int64_t sums_bytes;     // of all chains
    // Starts all chains from zero, makes the turns, stores the sums. No alignment is asked for.
    void (*run)(std::int64_t turns, const void* a, const void* b, void* sums);
};

std::span<const Probe> x86_probes();

}  // namespace pymicro
