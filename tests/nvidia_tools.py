"""NVIDIA's tools for machine code, from their wheels or from a toolkit."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest


def find(name: str) -> str | None:
    """The path of `nvdisasm` or `cuobjdump`; None if it is nowhere."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(folder).glob(f"*/bin/{name}"):
            return str(path)
    return shutil.which(name)


def tool(name: str) -> str:
    """The same; the test is skipped where it is nowhere."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path
