"""What is asked of the driver when a kernel is loaded."""

from types import SimpleNamespace

import pytest

from pymicro import driver


@pytest.mark.parametrize(("shared", "asked"), [(0, []), (48 * 1024, [48 * 1024]), (2**17, [2**17])])
def test_dynamic_shared_memory_is_asked_for_whatever_its_size(monkeypatch, shared, asked):
    """48 KiB of it and a few bytes that the kernel declares itself are beyond the default."""
    seen = []
    fake = SimpleNamespace(
        cuModuleLoadData=lambda cubin: (0, "module"),
        cuModuleGetFunction=lambda module, entry: (0, "function"),
        cuFuncSetAttribute=lambda function, what, value: seen.append(value) or (0,),
        CUfunction_attribute=SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
    )
    monkeypatch.setattr(driver, "cuda", lambda: fake)
    driver.Kernel.load(b"", "entry", shared)
    assert seen == asked
