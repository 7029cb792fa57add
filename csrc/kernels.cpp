// Which kernel computes a format on this CPU.
#include <stdexcept>

#include "kernel.hpp"

namespace pymicro {
namespace {

std::vector<const Kernel*> runnable(DType dtype) {
    std::vector<const Kernel*> found;
    for (const auto& table : {amx_kernels(), avx512_kernels(), avx2_kernels(), portable_kernels()})
        for (const Kernel& kernel : table)
            if (kernel.dtype == dtype && kernel.runs_on(cpu_features())) found.push_back(&kernel);
    return found;
}

}  // namespace

std::vector<std::string> gemm_paths(DType dtype) {
    std::vector<std::string> paths;
    for (const Kernel* kernel : runnable(dtype)) paths.emplace_back(kernel->path);
    return paths;
}

const Kernel& find_kernel(DType dtype, const std::string& path) {
    const auto kernels = runnable(dtype);
    std::string known;
    for (const Kernel* kernel : kernels) {
        if (path.empty() || path == kernel->path) return *kernel;
        known += (known.empty() ? "" : ", ") + std::string(kernel->path);
    }
    throw std::invalid_argument("path '" + path + "' cannot run this format here; can: " + known);
}

}  // namespace pymicro
