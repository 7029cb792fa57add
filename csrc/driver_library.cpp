#include "driver_library.hpp"

#include <stdexcept>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace pymicro {
namespace {

// Loading what is loaded already returns the same handle and costs a look-up.
void* symbol(const std::string& library, const char* name) {
#if defined(_WIN32)
    HMODULE handle = LoadLibraryA(library.c_str());
    return handle ? reinterpret_cast<void*>(GetProcAddress(handle, name)) : nullptr;
#else
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    return handle ? dlsym(handle, name) : nullptr;
#endif
}

}  // namespace

void* driver_function(const std::string& library, const char* name) {
    void* found = symbol(library, name);
    if (!found)
        throw std::runtime_error("the driver library " + library + " cannot be loaded or has no " +
                                 name);
    return found;
}

}  // namespace pymicro
