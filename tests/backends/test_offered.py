"""What backends are asked: their libraries are not imported for what they take no part in."""

import pytest

from pymicro import backends
from pymicro.backends import base, cupy, numba, torch, triton
from pymicro.backends.base import Place, offered

HOPPER = Place("cuda", 0, (9, 0), 132)


@pytest.mark.parametrize("name", ["torch", "triton", "cupy", "numba"])
@pytest.mark.parametrize("benchmark", ["transfer", "latency", "peak"])
def test_no_library_is_imported_to_say_that_it_has_nothing(monkeypatch, name, benchmark):
    def fails(library):
        raise AssertionError(f"imported {library}")

    for module in (base, torch, triton, cupy, numba):
        if hasattr(module, "import_library"):
            monkeypatch.setattr(module, "import_library", fails)
    variants, reason = offered(backends.backend(name), benchmark, "int32", HOPPER)
    assert (variants, reason) == ((), f"no {benchmark} on a GPU.")


def test_somebody_elses_backend_need_not_say_what_it_takes_part_in():
    class Other:
        name, is_vendor, vendor_variants = "other", False, ()

        def why_not(self, place):
            return None

        def variants(self, benchmark, dtype, place):
            return ("own",) if benchmark == "gemm" else ()

    assert offered(Other(), "gemm", "fp32", HOPPER) == (("own",), None)
    assert offered(Other(), "latency", "fp32", HOPPER) == ((), "no latency on a GPU.")
