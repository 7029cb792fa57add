"""What a device kernel does, by its name: its class, whether it uses matrix units, and for which
generation it was written. An unknown name is `other`, and nothing is claimed of it.

The names are those that cuBLAS, cuDNN, CUTLASS, ATen, Triton, NCCL and the flash-attention
kernels carry in traces; libraries change them, and the table is where to add.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pymicro.software.kernel_names import written_for

CLASSES = (
    "gemm", "convolution", "attention", "recurrent", "elementwise", "reduction", "optimiser",
    "copy", "collective", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a kernel's name tells.

    Attributes:
        group: one of CLASSES.
        on_tensor_cores: None where the name does not tell or the question makes no sense.
        generation: `sm_80` if the name says so; a later chip may run it all the same.
        is_fp32: the product's operands are FP32 and stay FP32, by name.
    """

    group: str
    on_tensor_cores: bool | None = None
    generation: str = ""
    is_fp32: bool = False


# First match wins. Order matters: attention kernels contain the word gemm, and so on. Of the last
# two the words in template arguments say little, so the name before them is looked at first.
_GROUPS = tuple(
    (re.compile(pattern, re.IGNORECASE), group)
    for pattern, group in (
        (r"nccl|rccl|nvshmem|oneshot_all_?reduce|all_?reduce_kernel", "collective"),
        (r"^mem(?:cpy|set)\b", "copy"),
        (r"flash|fmha|attention_kernel|sdpa|mem_eff|paged_attention|decode_attn", "attention"),
        (
            r"multi_tensor_apply|fused_?adam|fused_?sgd|adamw?_kernel|(?<![a-z])lamb(?![a-z])",
            "optimiser",
        ),
        (r"(?<![a-z])rnn|rnn_?cell|lstm|elementwise_bp\d|gru_?cell|_gru|persist_?rnn", "recurrent"),
        (
            r"fprop|dgrad|wgrad|winograd|convolve|conv\dd|conv2d|conv_depthwise|scudnn|"
            r"implicit_gemm|cudnn.*conv|im2col|col2im|implicit_precomp|fft2d|cask_cudnn",
            "convolution",
        ),
        (
            r"(?<!fb)gemm|gemv|nvjet|epilogue::impl|cublas.*(?:kernel|split)|splitkreduce|triton_tem_.*mm|"
            r"_mm_kernel|matmul|gett|xmma",
            "gemm",
        ),
        (r"direct_copy|catarray|copy_device_to_device|nchwtonhwc|nhwctonchw|"
         r"transpose|permute|copy_kernel", "copy"),
        (
            r"reduce|softmax|norm|moments|cunn_|argmax|cub::|sort|scan|topk|nll_loss|triton_(?:red|"
            r"per)_|bn_(?:fw|bw)|gammabeta|pool|fusedparams|"
            r"internalgradients",
            "reduction",
        ),
        (
            r"elementwise|triton_poi_|triton_|dropout|pointwise|index|gather|scatter|embedding|"
            r"fill|upsample|distribution|philox|tensor_?op|add_bias|activation|"
            r"scalepacked",
            "elementwise",
        ),
    )
)  # fmt: skip

# Matrix units, by the way the instruction or path is spelled; then those that say the opposite.
_TENSOR = re.compile(
    r"nvjet|tensorop|wmma|wgmma|warpgroup|s\d*16816|[sh]1688|[shi]884|_i?16832|hmma|imma|"
    r"tf32|f16f16_f16|bf16bf16|f16_s|bf16_s|e4m3|e5m2|cudnn_?generated|flash_(?:fwd|bwd)|"
    r"xmma_\w+_(?:f16f16|bf16bf16|tf32f32|i8i8)",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"simt|[a-z]+_sgemm|^sgemm|_dgemm_|f32f32_f32f32|scudnn|ffma|gemv|gemmsn|gemmk1|"
    r"convolve_sgemm|winograd",
    re.IGNORECASE,
)
_FP32 = re.compile(r"simt_s|sgemm|f32f32_f32f32|scudnn|ffma|gemmsn", re.IGNORECASE)
_SPLIT_K = re.compile(r"split_?k_?reduce", re.IGNORECASE)  # adds up what a product left in pieces
_PRODUCTS = ("gemm", "convolution", "attention")


@cache
def kind(name: str) -> Kind:
    """What the name of a kernel tells."""
    group = _group(name)
    if group not in _PRODUCTS or _SPLIT_K.search(name):
        return Kind(group)
    if _PLAIN.search(name) and not _TENSOR.search(_PLAIN.sub("", name)):
        return Kind(group, False, _generation(name), bool(_FP32.search(name)))
    return Kind(group, True if _TENSOR.search(name) else None, _generation(name))


def _group(name: str) -> str:
    found = next((group for pattern, group in _GROUPS if pattern.search(name)), "other")
    if found not in ("reduction", "elementwise"):
        return found
    outer = name.split("<", 1)[0]
    return next((group for pattern, group in _GROUPS if pattern.search(outer)), found)


def _generation(name: str) -> str:
    written = written_for(name)
    if written is None or written.or_newer:  # A family of several chips is no claim on one.
        return ""
    return f"sm_{written.chip[0]}{written.chip[1]}"


_SPACES = re.compile(r"\s+")


def short(name: str, most: int = 72) -> str:
    """A kernel's name without return type, arguments and the deeper template arguments."""
    name = _SPACES.sub(" ", name.removeprefix("void ").replace("(anonymous namespace)::", ""))
    if name.startswith(("Memcpy", "Memset")):
        return name
    name = name.split("(", 1)[0] if "<" not in name.split("(", 1)[0] else _plain_template(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _plain_template(name: str) -> str:
    """`ns::kernel<…, ns::Functor<float>…>(…)` is `ns::kernel<Functor>`: it tells kernels apart."""
    outer, inside = name.split("<", 1)
    words = [w.rsplit("::", 1)[-1] for w in re.findall(r"[A-Za-z_][\w:]*", inside)]
    told = [
        w for w in words
        if re.search(r"functor|_op|ops|lambda|kernel|_cuda|gemm|prop|grad", w, re.IGNORECASE)
        and w not in ("kernel", "lambda")
    ]  # fmt: skip
    told = list(dict.fromkeys(told))[:2]
    outer = outer.removeprefix("at::native::")
    return f"{outer}<{', '.join(told)}>" if told else outer
