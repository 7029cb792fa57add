"""Matrix products from CuPy: C[m,n] = A[m,k] · B, with B stored n×k (`nt`) or k×n (`nn`).

Three ways that a CuPy user has: `raw`, kernels of our own compiled by CuPy (plain arithmetic for
fp32 and fp64, tensor cores for fp16 and bf16); `matmul`, the array function; `cublas`, the library
called with the number formats spelled out. bf16 arrives as uint16, fp8 has no route here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .gemm_cuda import SIMT_SOURCE, TENSOR_SOURCE

_CAPABILITY_OF = {"fp16": (8, 0), "bf16": (8, 0), "tf32": (8, 0)}
_DTYPES = {
    "raw": ("fp32", "fp64", "fp16", "bf16"),
    "matmul": ("fp32", "fp64", "tf32", "fp16"),
    "cublas": ("fp32", "fp64", "tf32", "fp16", "bf16", "int8"),
}
_MISSING = {
    "raw": "This file has no kernel of its own for {}.",
    "matmul": "cupy.matmul has no {} product with the result this benchmark asks for.",
    "cublas": "CuPy reaches cuBLAS, which has no {} product; that is in cuBLASLt.",
}


def why_not(
    variant: str, dtype: str, layout: str, capability: tuple[int, int] | None
) -> str | None:
    """Why the case cannot run, None if it can."""
    if capability is None:
        return "CuPy runs on a GPU only."
    if dtype not in _DTYPES[variant]:
        return _MISSING[variant].format(dtype)
    needed = _CAPABILITY_OF.get(dtype, (0, 0)) if variant == "raw" or dtype != "fp16" else (0, 0)
    if capability < needed:
        return f"{dtype} needs compute capability {needed[0]}.{needed[1]} for tensor cores."
    return None


def _prepare_raw(a, b, c, *, dtype: str, layout: str) -> Callable[[], None]:
    import cupy

    (m, k), n = a.shape, c.shape[1]
    tensor = dtype in ("fp16", "bf16")
    stages, shared_bytes = tensor_stages(layout) if tensor else (0, 0)
    vector = 16 // a.itemsize
    macros = {
        "B_IS_NK": int(layout == "nt"),
        "ALIGNED": int(all(x.shape[1] % vector == 0 and x.data.ptr % 16 == 0 for x in (a, b))),
        **(
            {"BF16": int(dtype == "bf16"), "STAGES": stages}
            if tensor
            else {"REAL": "double" if dtype == "fp64" else "float", "VEC": vector}
        ),
    }
    module = cupy.RawModule(
        code=TENSOR_SOURCE if tensor else SIMT_SOURCE,
        options=("-std=c++17", *(f"-D{name}={value}" for name, value in macros.items())),
    )
    kernel = module.get_function("gemm_tensor" if tensor else "gemm_simt")
    if tensor:
        kernel.max_dynamic_shared_size_bytes = shared_bytes
    grid = (-(-m // 128) * -(-n // (256 if tensor else 128)),)
    arguments = (a, b, c, np.int32(m), np.int32(n), np.int32(k))
    return partial(kernel, grid, (256,), arguments, shared_mem=shared_bytes)


def tensor_stages(layout: str, available_bytes: int | None = None) -> tuple[int, int]:
    """How many stages of `gemm_tensor` fit in a block's shared memory, at most 5, and their bytes.

    A stage is a tile of A and one of B, rows padded by 8 elements.
    """
    if available_bytes is None:
        import cupy

        available_bytes = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
    b_items = 256 * (32 + 8) if layout == "nt" else 32 * (256 + 8)
    stage_bytes = 2 * (128 * (32 + 8) + b_items)
    stages = min(5, available_bytes // stage_bytes)
    return stages, stages * stage_bytes


def _prepare_matmul(a, b, c, *, dtype: str, layout: str) -> Callable[[], None]:
    """cupy.matmul with the compute type pinned around the call, whatever the environment says."""
    import cupy
    from cupy._core import _routines_linalg as types

    # CuPy documents only the variable CUPY_TF32, read once; the switch under it is private.
    from cupy._core import get_compute_type, set_compute_type

    storage = a.dtype
    wanted = {
        "tf32": types.COMPUTE_TYPE_TF32, "fp64": types.COMPUTE_TYPE_FP64
    }.get(dtype, types.COMPUTE_TYPE_FP32)  # fmt: skip
    right = b.swapaxes(-1, -2) if layout == "nt" else b

    def call() -> None:
        before = get_compute_type(storage)
        set_compute_type(storage, wanted)
        try:
            cupy.matmul(a, right, out=c)
        finally:
            set_compute_type(storage, before)

    call()  # Loads cuBLAS and makes its handle and workspace.
    return call


# cudaDataType and cublasComputeType_t, by their documented values: storage, result, compute.
_CUBLAS_TYPES = {
    "fp16": (2, 2, 68), "bf16": (14, 14, 68), "fp32": (0, 0, 68), "tf32": (0, 0, 77),
    "fp64": (1, 1, 70), "int8": (3, 10, 72),
}  # fmt: skip


def _prepare_cublas(a, b, c, *, dtype: str, layout: str) -> Callable[[], None]:
    """cublasGemmEx. Column-major there, so it computes Cᵀ = Bᵀ · Aᵀ on the same memory."""
    import cupy
    from cupy.cuda import cublas

    (m, k), n = a.shape, c.shape[1]
    a_type, c_type, compute = _CUBLAS_TYPES[dtype]
    scale = np.array([1, 0], {"int8": np.int32, "fp64": np.float64}.get(dtype, np.float32))
    one, zero = scale.ctypes.data, scale.ctypes.data + scale.itemsize
    handle = cupy.cuda.device.get_cublas_handle()
    turn, ldb = (cublas.CUBLAS_OP_T, k) if layout == "nt" else (cublas.CUBLAS_OP_N, n)

    def call(scale=scale) -> None:  # Holds `scale`, of which cuBLAS gets the address.
        cublas.gemmEx(
            handle, turn, cublas.CUBLAS_OP_N, n, m, k,
            one, b.data.ptr, a_type, ldb, a.data.ptr, a_type, k,
            zero, c.data.ptr, c_type, n, compute, cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip

    try:
        call()
    except cublas.CUBLASError as error:
        raise ValueError(f"cuBLAS does not serve this shape: {error}.") from error
    return call


VARIANTS = {"raw": _prepare_raw, "matmul": _prepare_matmul, "cublas": _prepare_cublas}
BATCHED = ("matmul",)
