"""The compiled part and what travels beside the Python files; the rest is in pyproject.toml.

`optional` lets a machine without a C++20 compiler install the pure-Python part; whoever wants to
be told asks for `import pymicro._native`.
"""

from __future__ import annotations

import sys
from glob import glob

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension, build_ext
from setuptools import find_namespace_packages, setup

# Instruction sets are chosen per function at run time, so no -march here. Symbols stay hidden and
# nothing is assumed about floating point beyond the language.
FLAGS = [] if sys.platform == "win32" else ["-O3", "-pthread"]

native = Pybind11Extension(
    "pymicro._native",
    sorted(glob("csrc/*.cpp")),
    depends=sorted(glob("csrc/*.hpp") + glob("csrc/*.inc")),
    cxx_std=20,
    extra_compile_args=FLAGS,
    # -ldl: where the C library is older than 2.34, dlopen is a library of its own.
    extra_link_args=[] if sys.platform == "win32" else ["-pthread", "-ldl"],
    optional=True,
)

ParallelCompile("PYMICRO_BUILD_JOBS", default=0).install()

setup(
    packages=find_namespace_packages(include=["pymicro*"]),
    package_data={"": ["*.cu", "*.cuh", "*.toml", "*.csv", "*.json", "*.jsonl", "*.md", "*.gz"]},
    ext_modules=[native],
    cmdclass={"build_ext": build_ext},
)
