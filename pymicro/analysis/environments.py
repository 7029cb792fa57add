"""What was different around two sets of stored results, the likely causes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pymicro.analysis.figures import Subject
from pymicro.results import Result

# Where in a result's environment, and in words. The driver comes first: one branch of it alone
# made a card many times slower (NVIDIA/open-gpu-kernel-modules issue 1001).
_WATCHED = (
    (("driver", "version"), "driver"),
    (("driver", "kernel_module_version"), "kernel module"),
    (("driver", "cuda_version"), "CUDA version of the driver"),
    (("gpu", "power_limit_w"), "power limit (W)"),
    (("gpu", "are_clocks_set"), "clocks set by hand"),
    (("gpu", "is_ecc_enabled"), "ECC"),
    (("gpu", "is_mig_enabled"), "partitioning (MIG)"),
    (("gpu", "virtualization"), "virtualization"),
    (("software", "pymicro"), "pymicro"),
    (("software", "python"), "Python"),
)


def differences(subjects: Sequence[Subject]) -> Iterator[str]:
    """A sentence for each fact that is not the same in the results of all subjects."""
    with_results = [s for s in subjects if s.results]
    if len(with_results) < 2:
        return
    for path, word in [*_WATCHED, *_versions(with_results)]:
        seen = [_values(s.results, path) for s in with_results]
        if len(set(map(frozenset, seen))) > 1 and all(seen):
            named = ", ".join(
                f"{s.name} {' or '.join(sorted(values))}"
                for s, values in zip(with_results, seen, strict=True)
            )
            yield f"the {word} differs: {named}. {_advice(word)}".strip()


def _versions(subjects: Sequence[Subject]) -> list[tuple[tuple[str, str], str]]:
    """The libraries whose versions any result tells."""
    names = {
        name for s in subjects for r in s.results for name in r.environment.get("versions") or {}
    }
    return [(("versions", name), name) for name in sorted(names)]


def _advice(word: str) -> str:
    drivers = ("driver", "kernel module")
    return "Rule that out before blaming the hardware." if word in drivers else ""


def _values(results: Sequence[Result], path: tuple[str, str]) -> set[str]:
    found = {_at(r.environment, path) for r in results}
    return {str(value) for value in found if value is not None}


def _at(environment: Any, path: tuple[str, str]) -> Any:
    for key in path:
        environment = (environment or {}).get(key)
    return environment if not isinstance(environment, dict | list) else None
