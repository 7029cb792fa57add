"""Environment variables that change what is measured: by name, never by prefix.

A prefix like CUDA_ or NVIDIA_ also matches tokens and keys that people export beside it.
"""

from __future__ import annotations

import contextlib
import getpass
import re
import socket
from collections.abc import Mapping
from pathlib import Path

ALLOWED = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_AUTO_BOOST",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUPY_ACCELERATORS",
    "CUPY_TF32",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_IB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "NUMBA_CUDA_ENABLE_PYNVJITLINK",
    "NUMBA_ENABLE_CUDASIM",
    "NUMBA_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_COMPILE_DISABLE",
    "TORCH_CUDA_ARCH_LIST",
    "TRITON_INTERPRET",
    "TRITON_PTXAS_PATH",
    "WORLD_SIZE",
)
_SECRET = re.compile(r"token|key|secret|passw|credential|bearer", re.IGNORECASE)
_UUID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_URL = re.compile(r"\w+://\S*")
_LONGEST = 200


def allowed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The listed variables that are set. Paths are cut to their last part, UUIDs to eight digits.

    A value that holds this host's or user's name, or that looks like a secret, becomes `(set)`.
    """
    private = private_words()
    return {n: _shown(variables[n], private) for n in ALLOWED if n in variables}


def private_words() -> set[str]:
    """Names that must not appear in a record: of the host, the user and the home folder.

    One or two letters name nobody, but would take numbers and units out of values.
    """
    words = {socket.gethostname(), socket.gethostname().split(".")[0], platform_user()}
    with contextlib.suppress(RuntimeError):  # No home folder can be told.
        words.add(Path.home().name)
    return {word.lower() for word in words if len(word) > 2}


def platform_user() -> str:
    """The user's name, empty where there is none (a container run under a bare number)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


def holds_private(text: str, private: set[str]) -> bool:
    """Whether one of the private words stands in the text as a whole word."""
    words = "|".join(map(re.escape, private))
    return bool(words and re.search(rf"(?<![a-z0-9])({words})(?![a-z0-9])", text.lower()))


def _shown(value: str, private: set[str]) -> str:
    text = "".join(map(_shortened, re.split(r"([;, =]|:(?![/\\]))", _URL.sub("(address)", value))))
    text = _UUID.sub(r"\1", text)
    if _SECRET.search(text) or holds_private(text, private) or not text.isprintable():
        return "(set)"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _shortened(part: str) -> str:
    """The last part of a path, `~` for a home folder; a device like `MIG-GPU-…/1/0` as it is."""
    if re.match(r"(MIG|GPU)-", part):
        return part
    path = re.sub(r"^.*[/\\](home|users)[/\\]+[^/\\]+", "~", part, flags=re.IGNORECASE)
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
