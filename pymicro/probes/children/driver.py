"""Asks the CUDA driver library by itself, without any binding: version, start, devices."""

import ctypes
import sys

_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
# Where WSL puts the host's driver; some images leave it off the loader's path.
_WSL = "/usr/lib/wsl/lib/libcuda.so.1"
_ATTRIBUTES = {"major": 75, "minor": 76, "sm_count": 16, "integrated": 18}


def probe(tell):
    tell.step("load")
    cuda = _load(tell)
    if cuda is None:
        return
    tell.loaded()
    tell.step("ask its version")
    number = ctypes.c_int(0)
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        tell(cuda=number.value)
    tell.step("initialise")
    tell(init=cuda.cuInit(0))
    count = ctypes.c_int(0)
    code = cuda.cuDeviceGetCount(ctypes.byref(count))
    if code != 0:
        tell(devices=[])
        return
    tell.step("ask the devices")
    tell(devices=[_device(cuda, index) for index in range(count.value)])


def _load(tell):
    for name in (*_NAMES, _WSL):
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tell(no_library=str(error)[:300])
        else:
            tell(library=name)
            return library
    return None


def _device(cuda, index):
    handle, value = ctypes.c_int(0), ctypes.c_int(0)
    cuda.cuDeviceGet(ctypes.byref(handle), index)
    text = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(text, 256, handle)
    facts = {"name": text.value.decode(errors="replace")}
    for name, number in _ATTRIBUTES.items():
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, handle) == 0:
            facts[name] = value.value
    raw = (ctypes.c_ubyte * 16)()
    uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    if uuid is not None and uuid(raw, handle) == 0:
        h = bytes(raw).hex()
        facts["uuid"] = f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
    bus = getattr(cuda, "cuDeviceGetPCIBusId", None)
    if bus is not None and bus(text, 256, handle) == 0:
        facts["pci_bus_id"] = text.value.decode(errors="replace")
    return facts
