#include "launch.hpp"

#include <map>
#include <mutex>
#include <stdexcept>

#include "driver_library.hpp"

namespace pymicro {
namespace {

// cuLaunchKernel: function, grid, block, shared bytes, stream, arguments, extra.
using LaunchKernel = int (*)(std::uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, std::uintptr_t, std::uintptr_t, void**);

// Looked up once a library.
LaunchKernel find_launch(const std::string& library) {
    static std::mutex lock;
    static std::map<std::string, LaunchKernel> known;
    const std::lock_guard<std::mutex> held(lock);
    LaunchKernel& launch = known[library];
    if (!launch)
        launch = reinterpret_cast<LaunchKernel>(driver_function(library, "cuLaunchKernel"));
    return launch;
}

// Unsigned, since inputs use the whole range and overflow of signed numbers has no meaning.
std::uint32_t bits(std::int32_t n) { return static_cast<std::uint32_t>(n); }

}  // namespace

void launch_loop(const Launches& launches, const std::string& library) {
    const LaunchKernel launch = find_launch(library);
    for (std::int64_t i = 0; i < launches.count; ++i) {
        const int code = launch(launches.function, 1, 1, 1, 1, 1, 1, 0, launches.stream,
                                launches.arguments, nullptr);
        if (code != 0)
            throw std::runtime_error("the CUDA driver answered a launch with error " +
                                     std::to_string(code));
    }
}

}  // namespace pymicro

using pymicro::bits;

void pymicro_args0() {}

void pymicro_args3(std::int32_t* out, const std::int32_t* in, std::int32_t n) {
    *out = static_cast<std::int32_t>(bits(*in) + bits(n));
}

void pymicro_args16(std::int32_t* out, const std::int32_t* i0, const std::int32_t* i1,
                    const std::int32_t* i2, const std::int32_t* i3, const std::int32_t* i4,
                    std::int32_t n0, std::int32_t n1, std::int32_t n2, std::int32_t n3,
                    std::int32_t n4, std::int32_t n5, std::int32_t n6, std::int32_t n7,
                    std::int32_t n8, std::int32_t n9) {
    const std::uint32_t in = bits(*i0) + bits(*i1) + bits(*i2) + bits(*i3) + bits(*i4);
    const std::uint32_t n = bits(n0) + bits(n1) + bits(n2) + bits(n3) + bits(n4) + bits(n5) +
                            bits(n6) + bits(n7) + bits(n8) + bits(n9);
    *out = static_cast<std::int32_t>(in + n);
}
