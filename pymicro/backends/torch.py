"""PyTorch and the vendor library under it: cuBLAS and cuBLASLt on a GPU, oneDNN or MKL on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pymicro import calls
from pymicro.backends.base import Call, Place, Prepared, import_library, missing, require
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES


class TorchBackend:
    name = "torch"
    is_vendor = True
    vendor_variants = ()
    benchmarks = ("gemm", "bandwidth", "launch")

    def why_not(self, place: Place) -> str | None:
        reason = missing("torch", "torch")
        if reason is not None or place.kind == "cpu":
            return reason
        torch = import_library("torch")
        if torch.version.cuda is None:
            return f"this build of torch ({torch.__version__}) has no CUDA; install a CUDA build."
        if not torch.cuda.is_available():
            return f"torch {torch.__version__} sees no GPU here although CUDA does."
        return None

    def variants(self, benchmark: str, dtype: str, place: Place) -> tuple[str, ...]:
        launches = calls.variants_of(self.name, place.kind)
        own = {"gemm": ("matmul",), "bandwidth": ("stream",), "launch": launches}
        return own.get(benchmark, ())

    def prepare(self, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
        torch = import_library("torch")
        if case.benchmark == "bandwidth":
            return _prepare_stream(torch, case, place, arrays)
        if case.benchmark == "launch":
            return _prepare_launch(torch, case, place, arrays)
        require(_why_not_gemm(case, place))
        if place.kind == "cpu":
            torch.set_num_threads(case.params["threads"])
        a, b = (as_tensor(torch, arrays[x], case.dtype, place) for x in "ab")
        c = as_tensor(torch, arrays["c"], DTYPES[case.dtype].output, place)
        a = a.transpose(-2, -1) if case.params["layout"] == "tn" else a
        b = b.transpose(-2, -1) if case.params["layout"] == "nt" else b
        product = _PRODUCTS.get(case.dtype, _matmul)(torch, a, b, c)
        previous = torch.get_float32_matmul_precision()
        precision = "high" if case.dtype == "tf32" else "highest"

        def call() -> None:
            # Set at each call, since cases of both precisions may take turns.
            torch.set_float32_matmul_precision(precision)
            product()

        notes = {"torch": torch.__version__, "float32_matmul_precision": precision}
        if place.kind == "cuda":
            flags = torch.backends.cuda.matmul
            for name in ("fp16", "bf16"):
                flag = f"allow_{name}_reduced_precision_reduction"
                notes[flag] = getattr(flags, flag, None)
        return Prepared(call, notes, lambda: torch.set_float32_matmul_precision(previous))


def _prepare_stream(torch: Any, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    from pymicro.backends import torch_memory
    from pymicro.streams import SUMS, is_reduction

    require(torch_memory.why_not(case))
    if place.kind == "cpu":
        torch.set_num_threads(case.params["threads"])
    sums = SUMS[case.dtype] if is_reduction(case.params["op"]) else case.dtype
    formats = {name: sums if name == "c" else case.dtype for name in arrays}
    tensors = {n: as_tensor(torch, array, formats[n], place) for n, array in arrays.items()}
    return Prepared(torch_memory.bind(torch, case, tensors), {"torch": torch.__version__})


def _prepare_launch(torch: Any, case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    from pymicro.backends import torch_launch

    a, c = (as_tensor(torch, arrays[name], "int32", place) for name in "ac")
    call = torch_launch.bind(torch, case, a, c)
    notes = calls.notes("torch", case.variant, place.kind)
    return Prepared(call, {"torch": torch.__version__} | notes)


def as_tensor(torch: Any, array: Any, dtype: str, place: Place) -> Any:
    """A tensor over the same memory, of the true torch dtype."""
    wanted = getattr(torch, DTYPES[dtype].torch_name)
    if place.kind == "cpu":
        raw = torch.from_numpy(array.view("int16") if array.dtype == "uint16" else array)
    else:
        raw = torch.as_tensor(_Signed(array), device=f"cuda:{place.index}")
    return raw if raw.dtype == wanted else raw.view(wanted)


class _Signed:
    """Offers 16-bit formats as int16: torch reads no unsigned 16-bit arrays on older versions."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        interface = dict(buffer.__cuda_array_interface__)
        if interface["typestr"] == "<u2":
            interface["typestr"] = "<i2"
        self.__cuda_array_interface__ = interface


def _matmul(torch: Any, a: Any, b: Any, c: Any) -> Call:
    return lambda: torch.matmul(a, b, out=c)


def _int8(torch: Any, a: Any, b: Any, c: Any) -> Call:
    return lambda: torch._int_mm(a, b, out=c)


def _fp8(torch: Any, a: Any, b: Any, c: Any) -> Call:
    one = torch.ones((), device=a.device, dtype=torch.float32)
    return lambda: torch._scaled_mm(
        a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True, out=c
    )


_PRODUCTS: dict[str, Callable[..., Call]] = {"int8": _int8, "fp8_e4m3": _fp8}


def _why_not_gemm(case: Case, place: Place) -> str | None:
    m, n, k, layout = (case.params[x] for x in ("m", "n", "k", "layout"))
    if "batch" in case.params and case.dtype in _PRODUCTS:
        return f"torch multiplies one {case.dtype} matrix at a time."
    if place.kind == "cpu":
        return None
    if case.dtype == "fp8_e4m3":
        if place.capability is not None and place.capability < (8, 9):
            return "torch multiplies fp8 from compute capability 8.9 on."
        if layout != "nt" or k % 16 or n % 16:
            return "cuBLASLt multiplies fp8 only with B as n×k and n and k multiples of 16."
    if case.dtype == "int8" and (m <= 16 or k % 8 or n % 8):
        return "torch._int_mm needs m above 16 and n and k that are multiples of 8."
    return None


BACKEND = TorchBackend()
