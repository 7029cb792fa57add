// pymicro._native: checks what Python hands over, lets go of the interpreter, calls native.hpp.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "native.hpp"

namespace py = pybind11;

namespace pymicro {
namespace {

struct Format {
    const char* name;
    DType dtype;
    const char* input;  // numpy names of the stored bits
    const char* output;
};

constexpr Format kFormats[] = {
    {"fp64", DType::fp64, "float64", "float64"}, {"fp32", DType::fp32, "float32", "float32"},
    {"fp16", DType::fp16, "float16", "float16"}, {"bf16", DType::bf16, "uint16", "uint16"},
    {"int8", DType::int8, "int8", "int32"},
};

const Format& find_format(const std::string& name) {
    for (const Format& format : kFormats)
        if (name == format.name) return format;
    throw py::value_error("dtype '" + name + "' is none of fp64, fp32, fp16, bf16, int8");
}

Layout find_layout(const std::string& name) {
    if (name == "nt") return Layout::nt;
    if (name == "nn") return Layout::nn;
    throw py::value_error("layout '" + name + "' is neither nt nor nn");
}

std::string shape_text(py::ssize_t rows, py::ssize_t columns) {
    return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

void check_matrix(const char* name, const py::array& array, const char* stored) {
    const std::string who = std::string(name) + " must be ";
    if (array.ndim() != 2) throw py::value_error(who + "2-D");
    if (array.shape(0) < 1 || array.shape(1) < 1) throw py::value_error(who + "non-empty");
    if (!array.dtype().equal(py::dtype(stored)))
        throw py::value_error(who + stored + ", not " + std::string(py::str(array.dtype())));
    if (!(array.flags() & py::array::c_style)) throw py::value_error(who + "C-contiguous");
    if (reinterpret_cast<std::uintptr_t>(array.data()) % array.itemsize())
        throw py::value_error(who + "aligned to its elements");
}

void check_shape(const char* name, const py::array& array, py::ssize_t rows, py::ssize_t columns) {
    if (array.shape(0) != rows || array.shape(1) != columns)
        throw py::value_error(std::string(name) + " must have shape " + shape_text(rows, columns) +
                              ", not " + shape_text(array.shape(0), array.shape(1)));
}

bool overlap(const py::array& x, const py::array& y) {
    const auto* x0 = static_cast<const char*>(x.data());
    const auto* y0 = static_cast<const char*>(y.data());
    return x0 < y0 + y.nbytes() && y0 < x0 + x.nbytes();
}

void check_threads(int threads) {
    if (threads < 1 || threads > 4096) throw py::value_error("threads must be from 1 to 4096");
}

void gemm_arrays(const py::array& a, const py::array& b, py::array& c, const std::string& dtype,
                 const std::string& layout, int threads, const std::optional<std::string>& path) {
    const Format& format = find_format(dtype);
    const Layout order = find_layout(layout);
    check_matrix("a", a, format.input);
    check_matrix("b", b, format.input);
    check_matrix("c", c, format.output);
    const py::ssize_t m = a.shape(0), k = a.shape(1), n = c.shape(1);
    check_shape("b", b, order == Layout::nt ? n : k, order == Layout::nt ? k : n);
    check_shape("c", c, m, n);
    if (overlap(c, a) || overlap(c, b)) throw py::value_error("c must not overlap a or b");
    if (!c.writeable()) throw py::value_error("c must be writeable");
    check_threads(threads);
    if (path && path->empty()) throw py::value_error("path must be a name or None");
    const Problem problem{format.dtype, order, m, n, k, a.data(), b.data(), c.mutable_data()};
    const py::gil_scoped_release unlocked;
    gemm(problem, threads, path.value_or(""));
}

py::dict probes_dict() {
    py::dict probes;
    for (const ProbeName& probe : peak_probes()) probes[py::str(probe.name)] = probe.flop_per_turn;
    return probes;
}

void issue_arrays(const std::string& probe, const py::array& a, const py::array& b, py::array& out,
                  int threads, std::int64_t blocks) {
    check_threads(threads);
    if (blocks < 1 || blocks > 1 << 30) throw py::value_error("blocks must be from 1 to 2**30");
    for (const py::array* array : {&a, &b, static_cast<const py::array*>(&out)})
        if (!(array->flags() & py::array::c_style))
            throw py::value_error("arrays must be C-contiguous");
    if (!out.writeable()) throw py::value_error("out must be writeable");
    const Bytes from_a{a.data(), a.nbytes()}, from_b{b.data(), b.nbytes()};
    const MutableBytes to{out.mutable_data(), out.nbytes()};
    const py::gil_scoped_release unlocked;
    issue(probe, threads, blocks, from_a, from_b, to);
}

py::dict features_dict() {
    const CpuFeatures& f = cpu_features();
    auto known = [](std::int64_t value) -> py::object {
        return value ? py::object(py::int_(value)) : py::object(py::none());
    };
    using namespace py::literals;
    return py::dict("vendor"_a = f.vendor, "brand"_a = f.brand, "avx2"_a = f.avx2, "fma"_a = f.fma,
                    "f16c"_a = f.f16c, "avx512f"_a = f.avx512f, "avx512bw"_a = f.avx512bw,
                    "avx512vl"_a = f.avx512vl, "avx512_vnni"_a = f.avx512_vnni,
                    "avx_vnni"_a = f.avx_vnni, "avx512_bf16"_a = f.avx512_bf16,
                    "avx512_fp16"_a = f.avx512_fp16, "amx_tile"_a = f.amx_tile,
                    "amx_bf16"_a = f.amx_bf16, "amx_int8"_a = f.amx_int8,
                    "logical_cpus"_a = known(f.logical_cpus),
                    "threads_per_core"_a = known(f.threads_per_core),
                    "l1d_bytes"_a = known(f.l1d_bytes), "l2_bytes"_a = known(f.l2_bytes),
                    "l3_bytes"_a = known(f.l3_bytes));
}

}  // namespace

void register_memory(py::module_& module);  // memory_bindings.cpp
void register_launch(py::module_& module);  // launch_bindings.cpp
void register_staged(py::module_& module);  // staged_bindings.cpp

PYBIND11_MODULE(_native, module) {
    using namespace py::literals;
    module.doc() = "CPU kernels of pymicro: products, register-only peaks, what the CPU can do.";
    module.def("cpu_features", features_dict,
               "What cpuid and the operating system grant; sizes in bytes, None where unknown.");
    module.def("gemm_paths", [](const std::string& dtype) {
        return gemm_paths(find_format(dtype).dtype);
    }, "dtype"_a, "Instruction sets that compute this format here, fastest first.");
    module.def("gemm", gemm_arrays, py::arg("a").noconvert(), py::arg("b").noconvert(),
               py::arg("c").noconvert(), "dtype"_a, "layout"_a = "nt", "threads"_a = 1,
               "path"_a = py::none(),
               "c[m,n] = a[m,k] b, b being n x k for layout nt and k x n for nn. Arrays hold raw "
               "storage (bf16 as uint16), C-contiguous. Raises ValueError for anything else, and "
               "for a path that cannot run here.");
    module.def("peak_probes", probes_dict,
               "Register-only loops this CPU can run, 'path/dtype', and the operations of a turn.");
    module.def("issue", issue_arrays, "probe"_a, py::arg("a").noconvert(),
               py::arg("b").noconvert(), py::arg("out").noconvert(), "threads"_a = 1,
               "blocks"_a = 1,
               "Makes blocks of 4096 turns of one of peak_probes() on all threads, sums restarting "
               "each block; out gets, thread by thread, the blocks made, an unused word and the raw "
               "sums. Raises ValueError if it cannot run here or sizes do not fit.");
    register_memory(module);
    register_launch(module);
    register_staged(module);
}

}  // namespace pymicro
