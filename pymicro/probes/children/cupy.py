"""Imports CuPy, and compiles an empty kernel with its NVRTC; on a GPU it launches it."""

SOURCE = 'extern "C" __global__ void empty() {}'


def probe(tell, capability=None):
    if not tell.is_installed("cupy"):
        return
    tell.step("import")
    import cupy

    tell(version=str(cupy.__version__))
    tell.fact("cuda", lambda: cupy.cuda.runtime.runtimeGetVersion())
    tell.fact("nvrtc", lambda: list(cupy.cuda.nvrtc.getVersion()))
    tell.step("compile an empty kernel")
    if capability is None:
        _compile_only(cupy)
    else:
        kernel = cupy.RawKernel(SOURCE, "empty")
        kernel.compile()
        tell.step("run an empty kernel")
        kernel((1,), (1,), ())
        cupy.cuda.runtime.deviceSynchronize()
        tell(ran_on="gpu")
    tell.loaded()


def _compile_only(cupy):
    """CuPy's own way needs a driver, NVRTC under it does not."""
    program = cupy.cuda.nvrtc.createProgram(SOURCE, "empty.cu", (), ())
    cupy.cuda.nvrtc.compileProgram(program, ["-arch=compute_80"])
