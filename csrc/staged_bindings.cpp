// The staged copy in pymicro._native: checks what Python hands over.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "driver_library.hpp"
#include "staged.hpp"

namespace py = pybind11;

namespace pymicro {
namespace {

// Two buffers, their events, and the stream.
using Handles = std::array<std::uintptr_t, 5>;

void staged_handles(std::uintptr_t to, std::uintptr_t from, std::int64_t bytes, bool to_device,
                    std::uintptr_t context, const std::vector<Handles>& stages,
                    std::int64_t chunk_bytes, const std::string& library) {
    if (bytes < 0) throw py::value_error("bytes must not be negative");
    if (chunk_bytes < 1) throw py::value_error("chunk_bytes must be positive");
    if (stages.empty()) throw py::value_error("a staged copy needs a stage");
    StagedCopy copy{to, from, bytes, chunk_bytes, to_device, context, {}};
    for (const Handles& h : stages) copy.stages.push_back({{{h[0], h[1]}, {h[2], h[3]}}, h[4]});
    const py::gil_scoped_release unlocked;
    staged_copy(copy, library);
}

}  // namespace

void register_staged(py::module_& module) {
    using namespace py::literals;
    module.def("staged_copy", staged_handles, "to"_a, "from_"_a, "bytes"_a, "to_device"_a,
               "context"_a, "stages"_a, "chunk_bytes"_a, "library"_a = kDriverLibrary,
               "Copy between ordinary memory and a device through pinned buffers, and wait. A stage "
               "is (buffer, event, buffer, event, stream), all as integers, and one host thread's; "
               "buffers have chunk_bytes. Raises RuntimeError without a driver or if it refuses.");
}

}  // namespace pymicro
