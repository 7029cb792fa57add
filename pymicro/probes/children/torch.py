"""Imports torch, asks how it was built, and runs a sum where it can."""


def probe(tell, capability=None):
    if not tell.is_installed("torch"):
        return
    tell.step("import")
    import torch

    tell(version=str(torch.__version__))
    tell.step("ask how it was built")
    tell.fact("cuda", lambda: torch.version.cuda)
    tell.fact("hip", lambda: torch.version.hip)
    # Empty without a device, hence the flags that it was compiled with.
    tell.fact("archs", lambda: torch.cuda.get_arch_list() or torch._C._cuda_getArchFlags().split())
    tell.fact("is_available", torch.cuda.is_available)
    tell.fact("cudnn", lambda: torch.backends.cudnn.version())
    tell.fact("matmul_precision", torch.get_float32_matmul_precision)
    tell.fact("cudnn_tf32", lambda: torch.backends.cudnn.allow_tf32)
    on_gpu = capability is not None and torch.cuda.is_available()
    tell.step("run a sum")
    result = (torch.ones(4, device="cuda" if on_gpu else "cpu") + 1).cpu().tolist()
    tell(ran_on="gpu" if on_gpu else "cpu", is_right=result == [2.0] * 4)
    if on_gpu:
        tell.fact("nccl", lambda: ".".join(map(str, torch.cuda.nccl.version())))
    tell.fact("cublas", _cublas_version)
    tell.loaded()


def _cublas_version():
    """The version of the cuBLASLt that torch has loaded, as 13.0.2."""
    import ctypes

    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        path = next(line.split(maxsplit=5)[5].strip() for line in maps if "libcublasLt" in line)
    ask = ctypes.CDLL(path).cublasLtGetVersion
    ask.restype = ctypes.c_size_t
    number = ask()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
