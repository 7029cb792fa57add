"""What torch's switches of precision bring: the same product under each setting, taking turns."""

from kernel_records import NoRecordsError, recorded

CALLS, ROUNDS = 20, 15
# Significant bits of the output, and of a running sum where a setting shortens it.
_OUTPUT_BITS = {"fp32": 24, "fp16": 11, "bf16": 8, "fp8_e4m3": 8}


def probe(tell, shapes):
    """shapes: [m, n, k] each."""
    if not tell.is_installed("torch"):
        return
    tell.step("import")
    import torch

    tell(version=str(torch.__version__))
    number = 0
    for flag, dtype, settings, default in _flags(torch):
        for shape in shapes:
            tell.step(f"{flag} at {shape}")
            for value, told in _measured(torch, dtype, settings, shape).items():
                details = told.pop("details", {}) | {"is_default": value == default}
                params = dict(zip("mnk", shape, strict=True)) | {"flag": flag}
                record = {"variant": value, "dtype": dtype, "params": params, **told}
                tell(**{f"record_{number}": record | {"details": details}})
                number += 1


def _flags(torch):
    """Name, format, setting -> how to set it, and the setting that torch starts with."""
    precision = torch.get_float32_matmul_precision()
    yield (
        "float32_matmul_precision",
        "fp32",
        {v: _setter(torch.set_float32_matmul_precision, v) for v in ("highest", "high", "medium")},
        precision,
    )
    flags = torch.backends.cuda.matmul
    for name, dtype in (
        ("allow_fp16_accumulation", "fp16"),
        ("allow_fp16_reduced_precision_reduction", "fp16"),
        ("allow_bf16_reduced_precision_reduction", "bf16"),
    ):
        try:
            default = str(bool(getattr(flags, name)))
        except (AttributeError, AssertionError):
            continue  # Older than this switch.
        settings = {str(v): _attribute(flags, name, v) for v in (False, True)}
        yield name, dtype, settings, default
    if torch.cuda.get_device_capability() >= (8, 9):
        yield "use_fast_accum", "fp8_e4m3", {"False": None, "True": None}, "False"


def _setter(function, value):
    return lambda: function(value)


def _attribute(flags, name, value):
    return lambda: setattr(flags, name, value)


def _measured(torch, dtype, settings, shape):
    """Seconds a call under each setting, rounds interleaved; graphs keep the host out of it."""
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(x, k, device="cuda", generator=generator) for x in (m, n))
    calls, told, graphs = _calls(torch, dtype, settings, a, b), {}, {}
    for value, call in calls.items():
        if settings[value] is not None:
            settings[value]()
        try:
            check = _check(dtype, value, call(), _expected(dtype, torch, a, b), k)
            graphs[value] = _graph(torch, call)
            kernels = _kernels(torch, call)
            told[value] = {"verified": check, "times_s": [], "details": {"kernels": kernels}}
            if not check["error"] <= check["tolerance"]:
                told[value] = {"verified": check, "outcome": "failed", "reason": "wrong result"}
                del graphs[value]
        except Exception as error:
            told[value] = {"reason": f"{type(error).__name__}: {error}"[:300]}
    for round_ in range(ROUNDS):
        for value in graphs if round_ % 2 == 0 else reversed(graphs):
            told[value]["times_s"].append(_replayed(torch, graphs[value]))
    if len(settings) > 1 and next(iter(settings.values())) is not None:
        next(iter(settings.values()))()
    return told


def _calls(torch, dtype, settings, a, b):
    if dtype == "fp8_e4m3":
        eight = torch.float8_e4m3fn
        one = torch.ones((), device="cuda")
        left, right = a.to(eight), b.to(eight).t()

        def product(fast):
            return lambda: torch._scaled_mm(
                left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
            )

        return {value: product(value == "True") for value in settings}
    true = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    left, right = a.to(true), b.to(true).t()
    return dict.fromkeys(settings, lambda: left @ right)


def _expected(dtype, torch, a, b):
    """In float64, of the operands as the format stores them; 64 rows."""
    names = {"fp16": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn"}
    true = getattr(torch, names.get(dtype, "float32"))
    return a[:64].to(true).double() @ b.to(true).double().t()


def _check(dtype, value, got, expected, k):
    error = float(((got[:64].double() - expected).norm() / expected.norm()).cpu())
    bits = {"high": 11, "medium": 8}.get(value, 0) if dtype == "fp32" else 0
    # Inputs cut to fewer bits err by up to two units each; a sum in FP16, or fp8's of 14 bits,
    # by a unit times the root of its length.
    tolerance = 4 * 2.0 ** -_OUTPUT_BITS[dtype] + (4 * 2.0**-bits if bits else 0)
    tolerance += {"fp32": 2.0**-22, "bf16": 2.0**-8, "fp16": 2.0**-11, "fp8_e4m3": 2.0**-13}[
        dtype
    ] * k**0.5
    return {"reference": "float64, 64 rows", "error": error, "tolerance": tolerance}


def _graph(torch, call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    graph.replay()
    torch.cuda.synchronize()
    return graph


def _kernels(torch, call):
    """Names of the kernels of a call; none if no profiler sees them, for here events time them."""
    try:
        return [name for name, _ in recorded(torch, call)]
    except NoRecordsError:
        return []


def _replayed(torch, graph):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3 / CALLS
