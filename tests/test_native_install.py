"""A wheel built where no compiler works: everything that is not compiled must be in it."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SHIPPED = ("pymicro/csrc/cuda", "pymicro/kernels", "pymicro/data")


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory) -> set[str]:
    pytest.importorskip("setuptools")
    pytest.importorskip("pybind11")
    if not (ROOT / "setup.py").exists():
        pytest.skip("not in a checkout")
    tree = tmp_path_factory.mktemp("checkout")
    for name in ("pymicro", "csrc", "kernels"):
        if (ROOT / name).exists():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree / name)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", "wheels"],
        cwd=tree,
        env=os.environ | {"CC": "false", "CXX": "false"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    (wheel,) = (tree / "wheels").glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_a_failed_compilation_leaves_no_module(wheel_names):
    assert not [
        name for name in wheel_names if "_native" in name and name.endswith((".so", ".pyd"))
    ]
    assert "pymicro/__main__.py" in wheel_names


def test_device_code_kernels_and_data_travel(wheel_names):
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in SHIPPED
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "pymicro/csrc/cuda/gate.cu" in files
    assert files - wheel_names == set()
