"""CUDA C++ sources to machine code: NVRTC for the exact chip, and a disk cache of cubins.

It needs NVRTC but neither a GPU, a driver nor a toolkit, so every kernel is compiled for every
architecture in tests. Sources include each other with `#include "..."` relative to `csrc/cuda`
and use no header of the toolkit; they are joined here, so the cache key sees every byte.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymicro.errors import PymicroError, Unavailable

SOURCES = Path(__file__).parent / "csrc" / "cuda"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[ \t]*$', re.MULTILINE)
Defines = tuple[tuple[str, str | int], ...]


class CompileError(PymicroError):
    """NVRTC refused a source; the message holds its log."""


@dataclass(frozen=True)
class Compiled:
    """Machine code for one chip, and what the assembler said about it."""

    cubin: bytes
    log: str


def joined_source(name: str, root: Path = SOURCES) -> str:
    """The text of `csrc/cuda/<name>` with its includes put in place, each file once."""
    seen: set[str] = set()

    def join(part: str) -> str:
        if part in seen:
            return ""
        seen.add(part)
        text = (root / part).read_text(encoding="utf-8")
        return _INCLUDE.sub(lambda match: join(match[1]), text)

    return join(name)


def compile_cubin(source: str, arch: str, defines: Defines = ()) -> bytes:
    """Machine code of `csrc/cuda/<source>` for `arch` (`sm_90a`), from the disk cache if there.

    Raises:
        Unavailable: no NVRTC, or one that does not know the architecture.
        CompileError: the source does not compile.
    """
    program, options = _program(joined_source(source), arch, defines)
    from cuda.core.utils import make_program_cache_key

    cache = _open_cache()
    key = make_program_cache_key(
        code=program, code_type="c++", options=options, target_type="cubin"
    )
    cubin = cache.get(key) if cache is not None else None
    if cubin is None or not cubin.startswith(b"\x7fELF"):  # A torn file is compiled anew.
        cubin = _compile(program, options).cubin
        if cache is not None:
            with contextlib.suppress(OSError):  # A full disk costs the cache, not the run.
                cache[key] = cubin
    return cubin


def compile_logged(source: str, arch: str, defines: Defines = ()) -> Compiled:
    """The same without the cache, with the assembler's report of registers, spills and warnings."""
    program, options = _program(joined_source(source), arch, defines, verbose=True)
    return _compile(program, options)


def compile_ptx(source: str, arch: str, defines: Defines = ()) -> bytes:
    """PTX of `csrc/cuda/<source>` for `arch` (`compute_80`), ended by a zero; never cached.

    Raises:
        Unavailable: no NVRTC, or one that does not know the architecture.
        CompileError: the source does not compile.
    """
    # Straight to NVRTC: cuda-core asks the driver which PTX it reads, and so needs one.
    nvrtc = _nvrtc()
    options = [f"-arch={arch}", "-std=c++17", "--device-as-default-execution-space"]
    options += [f"-D{name}={value}" for name, value in defines]
    text = joined_source(source).encode()
    program = _told(nvrtc.nvrtcCreateProgram(text, source.encode(), 0, [], []))
    code = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
    if int(code) != 0:
        log = b" " * _told(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CompileError(f"NVRTC refused the source for {arch}:\n{log.decode(errors='replace')}")
    ptx = b" " * _told(nvrtc.nvrtcGetPTXSize(program))
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.rstrip(b"\0") + b"\0"


def _told(returned: tuple) -> Any:
    """The value that NVRTC returned beside its code."""
    code, value = returned
    if int(code) != 0:
        raise CompileError(f"NVRTC answers {code}.")
    return value


def compile_text(text: str, arch: str) -> bytes:
    """Machine code of a source given as text, past the cache: for probes and tests."""
    return _compile(*_program(text, arch, ())).cubin


def supported_archs() -> tuple[str, ...]:
    """The architectures that the installed NVRTC compiles for, as `sm_75`.

    Raises:
        Unavailable: no NVRTC.
    """
    nvrtc = _nvrtc()
    error, archs = nvrtc.nvrtcGetSupportedArchs()
    if int(error) != 0:
        raise Unavailable("NVRTC is installed but cannot be loaded.")
    return tuple(f"sm_{arch}" for arch in archs)


def cache_folder() -> Path:
    """Where cubins are kept: `PYMICRO_CACHE_DIR`, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get("PYMICRO_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("pymicro")) / "cubin"


def _open_cache():
    from cuda.core.utils import FileStreamProgramCache

    try:
        return FileStreamProgramCache(cache_folder(), max_size_bytes=512 * 2**20)
    except (OSError, RuntimeError):
        return None  # No home or a read-only one costs the compile time at each start, no more.


def _program(text: str, arch: str, defines: Iterable, verbose: bool = False):
    _nvrtc()
    from cuda.core import ProgramOptions

    options = ProgramOptions(
        arch=arch,
        std="c++17",
        define_macro=[(name, str(value)) for name, value in defines] or None,
        device_as_default_execution_space=True,
        ptxas_options="-v" if verbose else None,
    )
    return text, options


def _compile(text: str, options) -> Compiled:
    from cuda.core import Program

    log = io.StringIO()
    try:
        code = Program(text, "c++", options=options).compile("cubin", logs=log)
    except Exception as error:
        message = str(error)
        if "gpu-architecture" in message or ("arch" in message and "invalid" in message):
            known = ", ".join(supported_archs())
            raise Unavailable(
                f"the installed NVRTC cannot compile for {options.arch}; it knows {known}."
            ) from error
        raise CompileError(f"NVRTC refused the source for {options.arch}:\n{message}") from error
    return Compiled(bytes(code.code), log.getvalue())


def _nvrtc():
    try:
        import cuda.core  # noqa: F401  # torch may bring cuda-bindings along without it.
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise Unavailable(
            "CUDA C++ kernels need NVRTC and cuda-core; "
            'install them with: pip install "pymicro-gpu[cuda13]" (or [cuda12]).'
        ) from error
    return nvrtc
