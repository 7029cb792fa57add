"""Python runs this file at start-up in every process below `pymicro profile`.

It waits for the program to import torch, and first runs the `sitecustomize` that it stands before.
"""

import importlib.abc
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_the_hidden_one():
    others = [p for p in sys.path if os.path.abspath(p or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Lets torch be found as ever, and hooks in when it has been executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def and_hook(module):
            execute(module)
            import pymicro_recorder

            pymicro_recorder.watch(module)

        spec.loader.exec_module = and_hook
        return spec


if os.environ.get("PYMICRO_PROFILE"):
    sys.meta_path.insert(0, _AfterTorch())
_run_the_hidden_one()
