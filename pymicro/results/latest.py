"""A case may be recorded twice in one run: with its burst, then with sustained samples too."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pymicro.results.record import Result


def latest(results: Iterable[Result]) -> list[Result]:
    """The last record of each case of each run, in the order in which the cases first came."""
    newest: dict[tuple[str, ...], Result] = {}
    for result in results:
        newest[_case(result)] = result
    return list(newest.values())


def _case(r: Result) -> tuple[str, ...]:
    # A record without a run is nobody's second half.
    run = r.run_id or str(id(r))
    params = json.dumps(r.params, sort_keys=True)
    # One run may measure several devices, on several machines.
    where = json.dumps([r.device, r.environment.get("node")], sort_keys=True)
    return (run, where, r.benchmark, r.backend, r.variant, r.dtype, params, r.cache, r.fill)
