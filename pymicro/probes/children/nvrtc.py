"""Compiles an empty kernel with NVRTC through cuda-bindings: the compiler of our own kernels."""

import re

SOURCE = b'extern "C" __global__ void empty() {}'


def probe(tell, capability=None):
    if not tell.is_installed("cuda"):
        return
    tell.step("import")
    from cuda.bindings import nvrtc

    tell.step("ask its version")
    major, minor = _checked(nvrtc.nvrtcVersion())
    tell(version=f"{major}.{minor}", cuda=1000 * major + 10 * minor)
    archs = [f"sm_{a}" for a in _checked(nvrtc.nvrtcGetSupportedArchs())]
    tell(archs=archs)
    tell.step("compile an empty kernel")
    wanted = f"sm_{capability[0]}{capability[1]}" if capability else archs[-1]
    if wanted not in archs:
        tell(cannot_target=wanted)
        wanted = archs[-1]
    tell(ptx=_ptx_version(nvrtc, wanted.replace("sm_", "compute_")))
    cubin = _compiled(nvrtc, wanted, "CUBIN")
    tell(cubin_bytes=len(cubin))
    tell.step("import cuda-core")
    import cuda.core

    tell(core=str(cuda.core.__version__))
    tell.loaded()


def _checked(returned):
    code, *values = returned
    if int(code) != 0:
        raise RuntimeError(f"NVRTC answers {code}")
    return values[0] if len(values) == 1 else values


def _compiled(nvrtc, arch, what):
    program = _checked(nvrtc.nvrtcCreateProgram(SOURCE, b"empty.cu", 0, [], []))
    _checked((*nvrtc.nvrtcCompileProgram(program, 1, [f"-arch={arch}".encode()]), None))
    size = _checked(getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    code = b" " * size
    _checked((*getattr(nvrtc, f"nvrtcGet{what}")(program, code), None))
    return code


def _ptx_version(nvrtc, arch):
    found = re.search(rb"^\.version (\d+\.\d+)", _compiled(nvrtc, arch, "PTX"), re.MULTILINE)
    return found[1].decode() if found else None
