// The launch loop and the little functions in pymicro._native: checks what Python hands over.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "driver_library.hpp"
#include "launch.hpp"

namespace py = pybind11;

namespace pymicro {
namespace {

void launch_handles(std::uintptr_t function, std::uintptr_t stream, std::int64_t count,
                    std::uintptr_t arguments, const std::string& library) {
    if (count < 0) throw py::value_error("count must not be negative");
    const py::gil_scoped_release unlocked;
    launch_loop({function, stream, arguments, count}, library);
}

using Numbers = py::array_t<std::int32_t, py::array::c_style>;

void call3(Numbers& out, const Numbers& in, std::int32_t n) {
    pymicro_args3(out.mutable_data(0), in.data(0), n);
}

void call16(Numbers& out, const Numbers& i0, const Numbers& i1, const Numbers& i2,
            const Numbers& i3, const Numbers& i4, std::int32_t n0, std::int32_t n1,
            std::int32_t n2, std::int32_t n3, std::int32_t n4, std::int32_t n5, std::int32_t n6,
            std::int32_t n7, std::int32_t n8, std::int32_t n9) {
    pymicro_args16(out.mutable_data(0), i0.data(0), i1.data(0), i2.data(0), i3.data(0),
                   i4.data(0), n0, n1, n2, n3, n4, n5, n6, n7, n8, n9);
}

}  // namespace

void register_launch(py::module_& module) {
    using namespace py::literals;
    module.def("launch_loop", launch_handles, "function"_a, "stream"_a, "count"_a, "arguments"_a,
               "library"_a = kDriverLibrary,
               "Launch one thread of a loaded kernel `count` times. `function` and `stream` are the "
               "driver's handles as integers, `arguments` the address of the array of pointers "
               "that cuLaunchKernel takes (0 for none). Raises RuntimeError without a driver or "
               "if a launch is refused.");
    // Overloads are tried in turn, so each function has a name of its own.
    module.def("call0", pymicro_args0, "Does nothing.");
    module.def("call3", call3, py::arg().noconvert(), py::arg().noconvert(), py::arg(),
               "out[0] = in[0] + n, int32 arrays.");
    py::arg array;
    array.noconvert();
    const py::arg number;
    module.def("call16", call16, array, array, array, array, array, array, number, number, number,
               number, number, number, number, number, number, number,
               "out[0] = the first items of five int32 arrays + ten numbers.");
}

}  // namespace pymicro
