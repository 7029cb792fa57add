"""Tries each of torch's ways to attention: is it right or refused, how fast, by which kernel."""

import warnings

from kernel_records import timed

CALLS = 20
# Significant bits of a format, the hidden one included.
_BITS = {"fp16": 11, "bf16": 8, "fp32": 24}
_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}


def probe(tell, attentions, dtypes):
    """attentions: {batch, heads, queries, keys, width, has_bias} each."""
    if not tell.is_installed("torch"):
        return
    tell.step("import")
    import torch

    tell(version=str(torch.__version__))
    torch.set_warn_always(True)  # Refusals are told in warnings, by default only once.
    number = 0
    for dtype in dtypes:
        for shape in attentions:
            inputs = _inputs(torch, dtype, shape)
            expected = _expected(torch, *inputs)
            for way, backend in _ways(torch).items():
                tell.step(f"{way} attention in {dtype} of {shape}")
                told = _tried(torch, backend, inputs, expected, _BITS[dtype])
                record = {"variant": way, "dtype": dtype, "params": shape, **told}
                tell(**{f"record_{number}": record})
                number += 1


def _ways(torch):
    from torch.nn.attention import SDPBackend

    names = {
        "flash": "FLASH_ATTENTION",
        "efficient": "EFFICIENT_ATTENTION",
        "cudnn": "CUDNN_ATTENTION",
        "math": "MATH",
    }
    found = {way: getattr(SDPBackend, name, None) for way, name in names.items()}
    return {"default": None} | {way: b for way, b in found.items() if b is not None}


def _inputs(torch, dtype, p):
    true = getattr(torch, _NAMES[dtype])
    generator = torch.Generator("cuda").manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, device="cuda", generator=generator).to(true)

    b, h, d = p["batch"], p["heads"], p["width"]
    q, k, v = draw(b, h, p["queries"], d), draw(b, h, p["keys"], d), draw(b, h, p["keys"], d)
    bias = draw(1, h, p["queries"], p["keys"]).expand(b, -1, -1, -1) if p["has_bias"] else None
    return q, k, v, bias


def _expected(torch, q, k, v, bias):
    q, k, v = (x.double() for x in (q, k, v))
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores if bias is None else scores + bias.double()
    return torch.softmax(scores, -1) @ v


def _tried(torch, backend, inputs, expected, bits):
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attend

    q, k, v, bias = inputs

    def call():
        if backend is None:
            return attend(q, k, v, attn_mask=bias)
        with sdpa_kernel(backend):
            return attend(q, k, v, attn_mask=bias)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            got = call()
            torch.cuda.synchronize()
        except RuntimeError as refusal:
            return {"reason": _why(refusal, said)}
    error = float(((got.double() - expected).norm() / expected.norm()).cpu())
    # Weights, products and the output are each rounded to the format; a wrong answer is far off.
    check = {"reference": "float64", "error": error, "tolerance": 16 * 2.0**-bits}
    if not error <= check["tolerance"]:
        return {"verified": check, "outcome": "failed", "reason": f"wrong: error {error:.3g}"}
    times, names, timer = timed(torch, call, CALLS)
    details = {"kernels": list(dict.fromkeys(names))}
    return {"verified": check, "times_s": times, "timer": timer, "details": details}


def _why(refusal, said):
    """What torch says of the refusal, without its file names."""
    lines = [str(w.message).split(" (Triggered")[0].strip() for w in said]
    # That the other ways are switched off is our own doing.
    noise = ("not used because", "runtime disabled")
    told = [line for line in lines if line and not any(words in line for words in noise)]
    return "; ".join(dict.fromkeys(told))[:300] or str(refusal).splitlines()[0][:300]
