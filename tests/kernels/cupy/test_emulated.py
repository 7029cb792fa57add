"""The CUDA C++ of CuPy's `raw` kernels run on the CPU: one thread for each of a block's 256.

The compiler sees the sources unchanged but for two things: dynamic shared memory becomes a buffer,
and every inline instruction a call of its model below, written after the PTX manual. So this holds
the index arithmetic and the synchronisation of whole kernels, at sizes that no tile divides;
it says nothing about what the real compiler and chip make of them.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from pymicro.kernels.cupy import bandwidth, bandwidth_cuda, gemm_cuda
from pymicro.kernels.stream import ROLES, SCALAR, SUMS, operands

COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")

MODEL = r"""
#include <algorithm>
#include <barrier>
#include <bit>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __CUDA_ARCH__ 800
using std::min;
struct int2 { int x, y; };
struct uint4 { unsigned x, y, z, w; };
struct Index { unsigned x = 0; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
thread_local Index threadIdx, blockIdx, gridDim;
alignas(1024) char shared[1 << 18];
std::barrier<> block(256);
std::unique_ptr<std::barrier<>> warps[8];
inline void __syncthreads() { block.arrive_and_wait(); }
inline unsigned long __cvta_generic_to_shared(const void* p) { return (const char*)p - shared; }

// What each lane of a warp lays open to the others, between two meetings of the warp.
struct Lane { unsigned long long word[6]; };
Lane open_to_warp[256];
template <class Use> auto with_warp(const Lane& mine, Use use) {
    const unsigned first = threadIdx.x / 32 * 32;
    auto& meeting = *warps[threadIdx.x / 32];
    open_to_warp[threadIdx.x] = mine;
    meeting.arrive_and_wait();
    const auto result = use(open_to_warp + first, (int)threadIdx.x % 32);
    meeting.arrive_and_wait();
    return result;
}
template <class T> T __shfl_down_sync(unsigned, T x, int offset) {
    Lane mine = {};
    memcpy(mine.word, &x, sizeof x);
    return with_warp(mine, [&](Lane* lanes, int lane) {
        T got;
        memcpy(&got, lanes[lane + offset < 32 ? lane + offset : lane].word, sizeof got);
        return got;
    });
}
inline float number(unsigned bits, bool bf16) {
    return bf16 ? std::bit_cast<float>(bits << 16) : (float)std::bit_cast<_Float16>((short)bits);
}
inline unsigned bits_of(float x, bool bf16) {
    if (!bf16) return std::bit_cast<unsigned short>((_Float16)x);
    const unsigned bits = std::bit_cast<unsigned>(x);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline void cp_async_cg(unsigned to, const void* from, int bytes) {
    memset(shared + to, 0, 16);
    memcpy(shared + to, from, bytes);
}
inline void cp_async_commit_group() {}
inline void cp_async_wait_group(int) {}
inline void ld_global(unsigned& x, unsigned& y, unsigned& z, unsigned& w, const void* from) {
    const uint4 got = *(const uint4*)from;
    x = got.x, y = got.y, z = got.z, w = got.w;
}
inline void st_global(void* to, unsigned x, unsigned y, unsigned z, unsigned w) {
    *(uint4*)to = {x, y, z, w};
}
inline void cvt_f32(float& y, unsigned short x) { y = number(x, false); }
inline void cvt_rn(unsigned short& y, float x) { y = bits_of(x, false); }
inline void cvt_rn(unsigned& both, float high, float low) {
    both = bits_of(high, BF16) << 16 | bits_of(low, BF16);
}
template <bool TURN> void matrices(unsigned* r, unsigned at) {
    with_warp({{at}}, [&](Lane* lanes, int lane) {
        for (int i = 0; i < 4; ++i) {  // Lanes 8i to 8i+7 point at the rows of matrix i.
            const auto item = [&](int row, int column) {
                return ((unsigned short*)(shared + lanes[8 * i + row].word[0]))[column];
            };
            const int line = lane / 4, pair = lane % 4 * 2;
            r[i] = TURN ? item(pair, line) | item(pair + 1, line) << 16
                        : item(line, pair) | item(line, pair + 1) << 16;
        }
        return 0;
    });
}
inline void ldmatrix(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned at) {
    unsigned r[4];
    matrices<false>(r, at);
    a = r[0], b = r[1], c = r[2], d = r[3];
}
inline void ldmatrix_trans(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned at) {
    unsigned r[4];
    matrices<true>(r, at);
    a = r[0], b = r[1], c = r[2], d = r[3];
}
inline void mma_sync(float& d0, float& d1, float& d2, float& d3, unsigned a0, unsigned a1,
                     unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    with_warp({{a0, a1, a2, a3, b0, b1}}, [&](Lane* lanes, int lane) {
        const auto half = [](unsigned long long word, int which) {
            return number((unsigned)word >> 16 * which & 0xffff, BF16);
        };
        const auto a = [&](int row, int k) {
            const Lane& from = lanes[row % 8 * 4 + k % 8 / 2];
            return half(from.word[row / 8 + k / 8 * 2], k % 2);
        };
        const auto b = [&](int k, int column) {
            return half(lanes[column * 4 + k % 8 / 2].word[4 + k / 8], k % 2);
        };
        float* d[4] = {&d0, &d1, &d2, &d3};
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 16; ++k)
                *d[i] += a(lane / 4 + i / 2 * 8, k) * b(k, lane % 4 * 2 + i % 2);
        return 0;
    });
}
"""
LAUNCH = r"""
template <class Kernel> void launch(unsigned blocks, Kernel kernel) {
    for (auto& warp : warps) warp = std::make_unique<std::barrier<>>(32);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 256; ++t)
        threads.emplace_back([=] {
            gridDim.x = blocks, threadIdx.x = t;
            for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
                kernel();
                block.arrive_and_wait();
            }
        });
    for (auto& thread : threads) thread.join();
}
"""
NAMES = {  # Start of an instruction -> its model.
    "cp.async.cg": "cp_async_cg", "cp.async.commit": "cp_async_commit_group",
    "cp.async.wait": "cp_async_wait_group", "ldmatrix.sync.aligned.m8n8.x4.trans": "ldmatrix_trans",
    "ldmatrix": "ldmatrix", "mma.sync": "mma_sync", "cvt.f32": "cvt_f32", "cvt.rn": "cvt_rn",
    "ld.global": "ld_global", "st.global": "st_global",
}  # fmt: skip


def modelled(source: str) -> str:
    """The source with each `asm` statement turned into a call with the same operands."""

    def call(match: re.Match) -> str:
        body = match[0]
        instruction = re.search(r'"([a-z][^"]*)', body)[1]
        name = next(model for start, model in NAMES.items() if instruction.startswith(start))
        found = []
        for operand in re.finditer(r'"[=+]?[rlhfn]"\s*\(', body):
            depth, end = 1, operand.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(body[end], 0)
                end += 1
            found.append(body[operand.end() : end - 1])
        return f"{name}({', '.join(found)});"

    source = re.sub(r"#if __CUDA_ARCH__ >= 800\n(.*?)#else\n.*?#endif\n", r"\1", source, flags=re.S)
    source = source.replace(
        "extern __shared__ __align__(16) Half tiles[];", "Half* tiles = (Half*)shared;"
    )
    return re.sub(r"\basm( volatile)?\(.*?\);\n", call_line(call), source, flags=re.S)


def call_line(call):
    return lambda match: call(match) + "\n"


def build(tmp_path, source: str, entry: str, **macros):
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    if "BF16" not in macros:
        defines += "#define BF16 0\n"
    text = tmp_path / "kernel.cpp"
    text.write_text(defines + MODEL + modelled(source) + LAUNCH + entry)
    library = tmp_path / "kernel.so"
    command = [COMPILER, "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-w"]
    done = subprocess.run([*command, "-o", library, text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def to_bf16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_number(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


STORAGE = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


def random(dtype: str, *shape: int) -> np.ndarray:
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    return to_bf16(x) if dtype == "bf16" else x.astype(STORAGE[dtype])


GEMM_CASES = [
    ("fp32", "nt", (131, 140, 36)), ("fp32", "nn", (130, 133, 19)), ("fp64", "nt", (129, 131, 21)),
    ("fp64", "nn", (129, 130, 18)), ("fp16", "nt", (130, 264, 104)), ("fp16", "nt", (3, 259, 37)),
    ("bf16", "nn", (130, 264, 40)), ("bf16", "nn", (129, 263, 35)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "layout", "shape"), GEMM_CASES)
def test_product_is_right(dtype, layout, shape, tmp_path):
    m, n, k = shape
    a, b = random(dtype, m, k), random(dtype, *((n, k) if layout == "nt" else (k, n)))
    c = np.full((m, n), 99, a.dtype)
    vector = 16 // a.itemsize
    macros = {
        "B_IS_NK": int(layout == "nt"),
        "ALIGNED": int(all(x.shape[1] % vector == 0 for x in (a, b))),
    }
    if dtype in ("fp16", "bf16"):
        source, kernel, item, tile_n = gemm_cuda.TENSOR_SOURCE, "gemm_tensor", "Half", 256
        macros |= {"BF16": int(dtype == "bf16"), "STAGES": 3}
    else:
        source, kernel, item, tile_n = gemm_cuda.SIMT_SOURCE, "gemm_simt", "REAL", 128
        macros |= {"REAL": "double" if dtype == "fp64" else "float", "VEC": vector}
    entry = f"""extern "C" void run(unsigned blocks, {item}* a, {item}* b, {item}* c, int m, int n,
        int k) {{ launch(blocks, [=] {{ {kernel}(a, b, c, m, n, k); }}); }}"""
    blocks = -(-m // 128) * -(-n // tile_n)
    build(tmp_path, source, entry, **macros).run(blocks, *map(address, (a, b, c)), m, n, k)
    right = to_number(b, dtype)
    exact = to_number(a, dtype) @ (right.T if layout == "nt" else right)
    error = np.linalg.norm(to_number(c, dtype) - exact) / np.linalg.norm(exact)
    assert error <= {"fp64": 1e-13, "fp32": 1e-5, "fp16": 1e-3, "bf16": 8e-3}[dtype]


# Items: a whole tile for some blocks, a part of one, and a rest shorter than 16 bytes.
STREAM_CASES = [
    (operation, dtype)
    for operation in ROLES
    for dtype in (("fp32", "fp64") if operation in SUMS else ("fp32",))
] + [("triad", "fp16"), ("triad", "bf16"), ("dot", "bf16"), ("copy", "bf16"), ("write", "fp64")]


@pytest.mark.parametrize(("operation", "dtype"), STREAM_CASES)
def test_stream_is_right(operation, dtype, tmp_path):
    unroll = bandwidth.UNROLL["sum" if operation in SUMS else "map"]
    tile = 256 * unroll * 16 // random(dtype, 1).itemsize
    n = 2 * tile + tile // 3 + 1
    arrays = {name: random(dtype, n + i)[:n].copy() for i, name in enumerate("abc")}
    arrays["out"] = np.full(5, np.nan)
    a, b, c = (to_number(arrays[name], dtype) for name in "abc")
    x, y, target = operands(operation, arrays)
    summed = operation in SUMS
    call = "sum_stream(x, y, to, n, 5)" if summed else "map_stream(x, y, to, n)"
    item = "SUM" if summed else "Item"
    entry = f"""extern "C" void run(unsigned blocks, Item* x, Item* y, {item}* to, Count n) {{
        launch(blocks, [=] {{ {call}; }}); }}"""
    macros = bandwidth.raw_macros(operation, dtype, "double")
    library = build(tmp_path, bandwidth_cuda.SOURCE, entry, **macros)
    target[:] = 99
    library.run(2 if summed else 3, *map(address, (x, y, target)), ctypes.c_uint64(n))
    exact = {
        "write": np.full(n, SCALAR), "copy": a, "scale": SCALAR * c, "add": a + b,
        "triad": b + SCALAR * c, "read": a.sum(), "dot": (a * b).sum(),
    }[operation]  # fmt: skip
    if summed:
        scale = np.abs(a if operation == "read" else a * b).sum()
        assert abs(target.sum() - exact) <= {"fp64": 1e-15}.get(dtype, 1e-7) * scale
        assert (target[2:] == 0).all()
    else:
        got = to_number(target, dtype)
        limit = {"fp64": 1e-16, "fp32": 1e-7, "fp16": 5e-4, "bf16": 4e-3}[dtype]
        assert np.linalg.norm(got - exact) <= limit * np.linalg.norm(exact)
