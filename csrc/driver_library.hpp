// The CUDA driver library, loaded when first asked for; nothing here needs CUDA to build or import.
#pragma once

#include <string>

namespace pymicro {

#if defined(_WIN32)
inline constexpr const char* kDriverLibrary = "nvcuda.dll";
#else
inline constexpr const char* kDriverLibrary = "libcuda.so.1";
#endif

// The address of a function of the library, which then stays loaded as long as the process. Throws
// std::runtime_error if the library cannot be loaded or has no such function.
void* driver_function(const std::string& library, const char* name);

}  // namespace pymicro
