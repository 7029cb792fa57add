"""Compiles an empty Triton kernel, and launches it on a GPU."""

import os
import re
import tempfile


def probe(tell, capability=None):
    if not tell.is_installed("triton"):
        return
    # A kernel from the user's cache would hide an assembler that no longer works.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        _probe(tell, capability)


def _probe(tell, capability):
    tell.step("import")
    import triton

    tell(version=str(triton.__version__))
    tell.fact("assemblers", lambda: _assemblers(triton))
    tell.step("compile an empty kernel")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    @triton.jit
    def empty():
        pass

    major, minor = capability or (8, 0)
    source = ASTSource(fn=empty, signature={})
    compiled = triton.compile(source, target=GPUTarget("cuda", 10 * major + minor, 32))
    version = re.search(r"^\.version (\d+\.\d+)", compiled.asm["ptx"], re.MULTILINE)
    tell(ptx=version[1] if version else None, cubin_bytes=len(compiled.asm["cubin"]))
    if capability is not None:
        tell.step("run an empty kernel")
        import torch

        empty[(1,)]()
        torch.cuda.synchronize()
        tell(ran_on="gpu")


def _assemblers(triton):
    nvidia = triton.knobs.nvidia
    names = ("ptxas", "ptxas_blackwell", "ptxas_thor")
    tools = {n: getattr(nvidia, n, None) for n in names}
    return {n: {"path": t.path, "version": t.version} for n, t in tools.items() if t}
