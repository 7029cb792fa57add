"""Starts NVML once, so that a library that crashes or hangs does so here."""


def probe(tell):
    if not tell.is_installed("pynvml"):
        return
    tell.step("import")
    import pynvml

    tell.step("initialise")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        tell(nvml_error=error.value, said=str(error))
        return
    tell.step("ask")
    tell.fact("driver_version", lambda: _text(pynvml.nvmlSystemGetDriverVersion()))
    tell.fact("cuda", pynvml.nvmlSystemGetCudaDriverVersion)
    tell.fact("count", pynvml.nvmlDeviceGetCount)
    pynvml.nvmlShutdown()


def _text(value):
    return value.decode(errors="replace") if isinstance(value, bytes) else value
