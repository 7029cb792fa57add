// The price of asking a GPU for something, seen from C++: launches in a loop over the driver
// library, which is loaded when first asked for. Nothing here needs CUDA to build or to import.
#pragma once

#include <cstdint>
#include <string>

namespace pymicro {

// `count` launches of one block of one thread. `function`, `stream` and `arguments` (the array of
// pointers to argument values) are what cuLaunchKernel takes, the first two as its handles' values.
struct Launches {
    std::uintptr_t function, stream, arguments;
    std::int64_t count;
};

// Throws std::runtime_error if the library cannot be loaded or refuses a launch.
void launch_loop(const Launches& launches, const std::string& library);

}  // namespace pymicro

// Functions that do next to nothing, for the price of a call from Python: with any arguments,
// *out = *in + n over all of them. C linkage and visible, so that ctypes finds them.
#if defined(_WIN32)
#define PYMICRO_VISIBLE extern "C" __declspec(dllexport)
#else
#define PYMICRO_VISIBLE extern "C" __attribute__((visibility("default")))
#endif

PYMICRO_VISIBLE void pymicro_args0();
PYMICRO_VISIBLE void pymicro_args3(std::int32_t* out, const std::int32_t* in, std::int32_t n);
PYMICRO_VISIBLE void pymicro_args16(std::int32_t* out, const std::int32_t* i0,
                                    const std::int32_t* i1, const std::int32_t* i2,
                                    const std::int32_t* i3, const std::int32_t* i4,
                                    std::int32_t n0, std::int32_t n1, std::int32_t n2,
                                    std::int32_t n3, std::int32_t n4, std::int32_t n5,
                                    std::int32_t n6, std::int32_t n7, std::int32_t n8,
                                    std::int32_t n9);
