"""The architecture as a test: which room stands on which floor, and imports only go down."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pymicro.cli import cli
from pymicro.devices.catalogue import catalogue
from pymicro.workloads.models import ALIASES, MODELS

ROOT = Path(__file__).parents[1] / "pymicro"
FLOORS = (
    {"errors"},
    {
        "units",
        "calls",
        "chains",
        "dtypes",
        "driver",
        "compiler",
        "issue",
        "nvml",
        "paths",
        "streams",
    },
    {
        "benchmark",
        "devices",
        "operands",
        "outputs",
        "pinned",
        "software",
        "stats",
        "telemetry",
        "timers",
        "workloads",
    },
    {"backends", "environment", "results", "sampling", "verify"},
    {"probes"},
    {"analysis", "suite", "workbench"},
    {"outcomes", "plans"},
    {"collective", "e2e", "profiling", "report", "run", "tuning"},
    {"cli"},
    {"__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = (
    "numpy",
    "torch",
    "triton",
    "cupy",
    "numba",
    "cuda",
    "rich",
    "matplotlib",
    "plotly",
    "pandas",
)
# Of a catalogue key such as `rtx_4090` or `h100_pcie_80gb`, what names the card.
NUMBERED = re.compile(r"[a-z]{1,2}\d+[a-z]?|\d{4}")
COMMANDS = tuple(cli.commands)
# Links to the folders beside the package; kernels import nothing of pymicro, csrc is no Python.
FOREIGN = {"kernels", "csrc", "data"}


def modules():
    return [p for p in sorted(ROOT.rglob("*.py")) if p.relative_to(ROOT).parts[0] not in FOREIGN]


def room_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def imported_rooms(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "pymicro":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pymicro."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from (name.split(".")[1] for name in names if name.startswith("pymicro."))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    own = room_of(path)
    if own == "__init__":
        assert list(imported_rooms(path)) == []
        return
    assert own in FLOOR, f"{own} has no floor; give it one"
    for room in imported_rooms(path):
        if room in FOREIGN or room in (own, "__version__", "_native"):
            continue
        assert FLOOR[room] < FLOOR[own], f"{own} (floor {FLOOR[own]}) imports {room}"


def test_kernels_import_nothing_of_pymicro():
    for path in (ROOT.parent / "kernels").rglob("*.py"):
        assert "pymicro" not in set(_roots(path)), path


def _roots(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            # `from ...dtypes import` climbs out of the folder of kernels.
            depth = len(path.relative_to(ROOT.parent / "kernels").parts)
            yield "pymicro" if node.level > depth else (node.module or "").split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_loads_nothing_heavy(words):
    code = f"import sys; sys.argv[1:] = {words}\nfrom pymicro.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit as e:\n    assert not e.code\n"
    code += f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().splitlines()[-1] == "[]", done.stderr


def test_analysis_names_no_card_and_no_model():
    cards = {word for key in catalogue() for word in key.split("_") if NUMBERED.fullmatch(word)}
    models = {word.split("-")[0] for word in (*MODELS, *ALIASES)}
    assert {"h100", "l4", "4090"} <= cards
    assert {"t5", "distilbert", "llama"} <= models
    names = re.compile(rf"(?<![a-z0-9])({'|'.join(sorted(cards | models))})(?![a-z0-9])")
    for path in (ROOT / "analysis").rglob("*.py"):
        found = names.search(path.read_text(encoding="utf-8").lower())
        assert found is None, f"{path} names {found and found[0]}"
