// The streams and the chase in pymicro._native: checks what Python hands over, lets go of the
// interpreter, calls memory.hpp.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "memory.hpp"

namespace py = pybind11;

namespace pymicro {
namespace {

struct OpName {
    const char* name;
    StreamOp op;
    bool takes_a, takes_b, reduces;
};

constexpr OpName kOps[] = {
    {"read", StreamOp::read, true, false, true},    {"write", StreamOp::write, false, false, false},
    {"copy", StreamOp::copy, true, false, false},   {"scale", StreamOp::scale, true, false, false},
    {"add", StreamOp::add, true, true, false},      {"triad", StreamOp::triad, true, true, false},
    {"dot", StreamOp::dot, true, true, true},
};

struct TypeName {
    const char* stored;
    StreamType type;
};

constexpr TypeName kTypes[] = {{"float64", StreamType::fp64}, {"float32", StreamType::fp32},
                               {"int32", StreamType::int32}};

const OpName& find_op(const std::string& name) {
    for (const OpName& row : kOps)
        if (name == row.name) return row;
    throw py::value_error("operation '" + name +
                          "' is none of read, write, copy, scale, add, triad, dot");
}

StreamType find_type(const py::array& array) {
    for (const TypeName& row : kTypes)
        if (array.dtype().equal(py::dtype(row.stored))) return row.type;
    throw py::value_error("arrays must be float64, float32 or int32, not " +
                          std::string(py::str(array.dtype())));
}

void check_vector(const char* name, const py::array& array, const py::array& like, bool same_size) {
    const std::string who = std::string(name) + " must be ";
    if (array.ndim() != 1) throw py::value_error(who + "1-D");
    if (!array.dtype().equal(like.dtype())) throw py::value_error(who + "of c's dtype");
    if (!(array.flags() & py::array::c_style)) throw py::value_error(who + "contiguous");
    if (same_size && array.size() != like.size()) throw py::value_error(who + "as long as c");
}

void check_threads(int threads) {
    if (threads < 1 || threads > 4096) throw py::value_error("threads must be from 1 to 4096");
}

void stream_arrays(const std::string& operation, const py::array& a, const py::array& b,
                   py::array& c, double s, int threads, int passes, bool nontemporal,
                   const std::optional<std::string>& path) {
    const OpName& op = find_op(operation);
    check_threads(threads);
    if (passes < 1) throw py::value_error("passes must be at least 1");
    if (!c.writeable()) throw py::value_error("c must be writeable");
    check_vector("c", c, c, false);
    const py::array& like = op.reduces ? a : c;
    if (op.takes_a) check_vector("a", a, c, !op.reduces);
    if (op.takes_b) check_vector("b", b, like, true);
    const StreamProblem problem{op.op, find_type(c), like.size(),
                                op.takes_a ? a.data() : nullptr, op.takes_b ? b.data() : nullptr,
                                c.mutable_data(), s, c.size()};
    const py::gil_scoped_release unlocked;
    stream(problem, threads, passes, nontemporal, path.value_or(""));
}

py::array placed(const py::array& from, int threads) {
    check_threads(threads);
    check_vector("the array", from, from, false);
    py::array to(from.dtype(), std::vector<py::ssize_t>{from.size()});
    void* there = to.mutable_data();
    const void* here = from.data();
    const std::int64_t count = from.size();
    const int item_bytes = static_cast<int>(from.itemsize());
    {
        const py::gil_scoped_release unlocked;
        stream_place(there, here, count, item_bytes, threads);
    }
    return to;
}

std::unique_ptr<Chain> make_chain(const py::array& order, std::int64_t stride, bool huge_pages) {
    check_vector("order", order, order, false);
    if (!order.dtype().equal(py::dtype("int32"))) throw py::value_error("order must be int32");
    const auto* places = static_cast<const std::int32_t*>(order.data());
    const std::int64_t count = order.size();
    const py::gil_scoped_release unlocked;
    return std::make_unique<Chain>(places, count, stride, huge_pages);
}

}  // namespace

void register_memory(py::module_& module) {
    using namespace py::literals;
    module.def("stream_paths", stream_paths,
               "Instruction sets that can stream here, best first.");
    module.def("stream", stream_arrays, "operation"_a, py::arg("a").noconvert(),
               py::arg("b").noconvert(), py::arg("c").noconvert(), "s"_a, "threads"_a = 1,
               "passes"_a = 1, "nontemporal"_a = false, "path"_a = py::none(),
               "c = a, s, s a, a + b or a + s b by operation, `passes` times, on pinned threads; read "
               "and dot leave partial sums in c, one a thread and zeros after. 1-D contiguous "
               "float64, float32 or int32. Raises ValueError for anything else.");
    module.def("stream_placed", placed, py::arg("array").noconvert(), "threads"_a,
               "A copy whose pages were first touched by the threads that `stream` will use.");
    py::class_<Chain>(module, "Chain",
                      "A ring of pointers, one every `stride` bytes, in the order given.")
        .def(py::init(&make_chain), py::arg("order").noconvert(), "stride"_a = 64,
             "huge_pages"_a = true)
        .def_property_readonly("places", &Chain::places)
        .def("walk", &Chain::walk, "steps"_a, py::call_guard<py::gil_scoped_release>(),
             "Follow so many pointers on a pinned core; the byte offset where the walk ended.")
        .def("huge_bytes", &Chain::huge_bytes,
             "Bytes that the system backs with huge pages; -1 where it does not tell.");
}

}  // namespace pymicro
