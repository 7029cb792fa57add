"""What a word of `compare` or `roofline` means: a result file, a stored run or label, or a card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from pymicro.analysis.figures import Subject
from pymicro.analysis.on_paper import short
from pymicro.devices.cpu import CpuSpec, describe_cpu
from pymicro.devices.finder import find
from pymicro.devices.peaks import Spec
from pymicro.devices.spec import DeviceSpec
from pymicro.errors import UsageError
from pymicro.results import Finding, Reading, Result, Store, latest

_SHORTEST_RUN_ID = 4
_FILE_ENDINGS = (".jsonl", ".json", ".ndjson")


def subject(
    word: str, specs: Mapping[str, DeviceSpec], stored: Sequence[Result]
) -> tuple[Subject, tuple[Finding, ...]]:
    """The subject that `word` names, and what was wrong with its file.

    Files come first, then runs and labels of the store, then cards.

    Raises:
        UsageError: nothing of that name, no results in it, or results of several devices.
    """
    if word.lower().endswith(_FILE_ENDINGS) or Path(word).is_file():
        reading = Store(word).read()
        return _run(Path(word).name, reading.results, specs), reading.findings
    if own := _of_run(word, stored) or _of_label(word, stored):
        return _run(word, own, specs), ()
    if word.strip().lower() == "cpu":
        return of_spec(describe_cpu(), stored), ()
    match = find(word, specs)
    return of_spec(match.spec, stored, match.note, match.alternatives), ()


def stored(path: str | None) -> Reading:
    """The results of the user's store, or of the file that `--store` names.

    Raises:
        UsageError: the file cannot be read, or holds no result.
    """
    reading = Store(path).read()
    if path is not None and not reading.results:
        damage = "; ".join(f.seen for f in reading.findings if f.severity == "error")
        why = f" ({damage.rstrip('.')})" if damage else ""
        raise UsageError(
            f"{path} holds no results{why}; `pymicro gemm --store FILE` makes some in a new one."
        )
    return reading


def tell(findings: Iterable[Finding]) -> int:
    """Say on stderr what is wrong with result files; the exit code: 1 if records were damaged."""
    from pymicro.report.findings import line

    told = [f for f in findings if f.code != "store-empty"]
    for finding in told:
        click.echo(line(finding), err=True)
    return 1 if any(f.severity == "error" for f in told) else 0


def of_spec(
    spec: Spec,
    stored: Sequence[Result],
    note: str | None = None,
    alternatives: tuple[Spec, ...] = (),
) -> Subject:
    """A card or CPU with the stored results of its kind."""
    own = tuple(r for r in stored if r.outcome == "ok" and _is_of(r, spec))
    return Subject(short(spec), spec, tuple(latest(own)), False, note, alternatives)


def _is_of(result: Result, spec: Spec) -> bool:
    if isinstance(spec, CpuSpec):
        return result.device.get("kind") == "cpu" and result.device.get("name") == spec.name
    # A card that the catalogue lacks has no key; then only its name can tell.
    key = result.device.get("key")
    return key == spec.key if key else result.device.get("name") == spec.name


def _run(name: str, results: Sequence[Result], specs: Mapping[str, DeviceSpec]) -> Subject:
    own = tuple(latest(r for r in results if r.outcome == "ok"))
    if not own:
        left = f" ({len(results)} were skipped or failed)" if results else ""
        raise UsageError(f"{name} holds no result that could be compared{left}.")
    devices = {str(r.device.get("name")) for r in own}
    if len(devices) > 1:
        raise UsageError(
            f"{name} holds results of {', '.join(sorted(devices))}; compare them by card with "
            f"--store FILE, or by a label each."
        )
    spec: Spec | None = specs.get(own[0].device.get("key") or "")
    return Subject(name, spec, own, True)


def _of_run(word: str, stored: Sequence[Result]) -> list[Result]:
    """The run of this id, or of the only one that begins so."""
    ids = {r.run_id for r in stored if r.run_id}
    if word not in ids and len(word) >= _SHORTEST_RUN_ID:
        near = [i for i in ids if i.startswith(word)]
        word = near[0] if len(near) == 1 else word
    return [r for r in stored if r.run_id == word]


def _of_label(word: str, stored: Sequence[Result]) -> list[Result]:
    return [r for r in stored if r.environment.get("node") == word]
