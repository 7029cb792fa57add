"""Runs one probe in a process of its own, since a broken library may crash, hang or print.

Started as `python -P launch.py PROBE.py '{"argument": ...}'`; it uses the standard library only.
What it learns goes to the real stdout as lines of JSON, at once, so that a crash keeps what was
known; whatever a library prints goes to stderr. What several probes share lies in `shared`; the
probes' own folder is no place to import from, since they are named as the libraries are.
"""

import json
import os
import runpy
import sys
import warnings
from importlib.util import find_spec

_CUDA_LIBRARIES = ("libcuda.", "libcudart", "libcublas", "libnvrtc", "libcudnn", "libnccl")


class Teller:
    """Tells facts to the parent: `tell(version="1.0")`."""

    def __init__(self, out):
        self._out = out

    def __call__(self, **facts):
        self._out.write(json.dumps(facts, default=str) + "\n")
        self._out.flush()

    def step(self, name):
        """Name what is tried next, so that a crash can be placed."""
        self(step=name)

    def fact(self, name, question):
        """Tell one answer; a library that lacks it costs this fact only."""
        try:
            self(**{name: question()})
        except Exception as error:
            self(**{f"no_{name}": f"{type(error).__name__}: {error}"[:300]})

    def is_installed(self, module):
        found = find_spec(module) is not None
        self(installed=found)
        return found

    def loaded(self):
        """Tell which CUDA libraries this process has loaded, and from where."""
        try:
            with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
                paths = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
        except (OSError, IndexError):
            return
        names = {os.path.basename(p): p for p in paths}
        found = {n: p for n, p in names.items() if n.startswith(_CUDA_LIBRARIES)}
        self(loaded=found)


def main(script, argument):
    # Last, so that it shadows no library.
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "shared"))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tell = Teller(out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            runpy.run_path(script)["probe"](tell, **json.loads(argument))
            tell(ended="ok")
        except BaseException as error:
            tell(ended="error", error=type(error).__name__, said=str(error)[:2000])
    quiet = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)
    kept = [w for w in caught if not issubclass(w.category, (*quiet, ResourceWarning))]
    tell(warnings=[str(w.message)[:500] for w in kept[:5]])
    # Without the interpreter's own exit: what a broken library does there is not our question.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
