// The whole of pymicro._native as plain C++: what the Python bindings may call. No Python in here
// and none below, so that every part can be used from a C++ program as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pymicro {

// What this CPU *and* its operating system let a program use: a bit is set only when the
// registers behind it are saved on a context switch, and, for AMX, when the kernel granted them.
struct CpuFeatures {
    std::string vendor, brand;
    bool avx2 = false, fma = false, f16c = false;
    bool avx512f = false, avx512bw = false, avx512vl = false;
    bool avx512_vnni = false, avx_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
    bool amx_tile = false, amx_bf16 = false, amx_int8 = false;
    // As cpuid tells; 0 where it does not. Caches are those seen by one core.
    int logical_cpus = 0, threads_per_core = 0;
    std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;
};

const CpuFeatures& cpu_features();

enum class DType { fp64, fp32, fp16, bf16, int8 };
enum class Layout { nt, nn };

// C[m,n] = A[m,k] B, all row-major without padding; B is n x k for nt and k x n for nn.
struct Problem {
    DType dtype;
    Layout layout;
    std::int64_t m, n, k;
    const void* a;
    const void* b;
    void* c;
};

// Instruction sets that can compute this format here, fastest first; "portable" is always last.
std::vector<std::string> gemm_paths(DType dtype);

// Computes the product on `threads` threads. An empty path takes the first of gemm_paths();
// one that cannot run here throws std::invalid_argument. Calls from several threads queue up.
void gemm(const Problem& problem, int threads, const std::string& path);

// Register-only loops: "path/format" and the operations of one turn on one thread, a
// multiplication and an addition counting as two.
struct ProbeName {
    std::string name;
    double flop_per_turn;
};

// The probes this CPU can run.
std::vector<ProbeName> peak_probes();

struct Bytes {
    const void* data;
    std::int64_t size;
};
struct MutableBytes {
    void* data;
    std::int64_t size;
};

// On each of `threads` threads makes `blocks` blocks of 4096 turns of a probe on the registers (or
// tiles) a and b, every block from sums of zero. A thread leaves two 32-bit words, the first of them
// the blocks it made, and its raw sums. Throws as gemm does, also for sizes that do not fit.
void issue(const std::string& probe, int threads, std::int64_t blocks, const Bytes& a,
           const Bytes& b, const MutableBytes& out);

}  // namespace pymicro
