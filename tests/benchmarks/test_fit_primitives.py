"""What ships measured is what the command beside it derives from the readings that are kept."""

import csv
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from pymicro.analysis.primitives_sources import primitives
from pymicro.analysis.primitives_tables import default_library, measured
from pymicro.devices.catalogue import DATA, catalogue

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def fits():
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(BENCHMARKS))
    import fit_primitives

    yield fit_primitives
    patch.undo()


def test_the_figures_of_the_card_are_derived(fits):
    shipped = (DATA / "measured" / f"{fits.CARD}.csv").read_text(encoding="utf-8")
    assert fits.measured_csv(fits.REFERENCE / fits.CARD) == shipped
    rows = list(csv.DictReader(shipped.splitlines()))
    assert all(row["source"] for row in rows)


def test_the_table_of_operators_is_derived(fits):
    """To a hundredth, as another machine's logarithm may end a search elsewhere."""
    text = fits.operators_toml(fits.library(fits.REFERENCE / fits.CARD))
    shipped = (DATA / "operators.toml").read_text(encoding="utf-8")
    assert [n.split("=")[0] for n in text.splitlines()] == [
        n.split("=")[0] for n in shipped.splitlines()
    ]
    ours, theirs = (dict(_numbers(tomllib.loads(t))) for t in (text, shipped))
    assert ours == pytest.approx(theirs, rel=0.01)


def _numbers(held, name=""):
    if isinstance(held, dict):
        for key, value in held.items():
            yield from _numbers(value, f"{name}.{key}")
    elif isinstance(held, list):
        for place, value in enumerate(held):
            yield from _numbers(value, f"{name}.{place}")
    elif not isinstance(held, str):
        yield name, held


def test_a_fit_finds_the_constants_that_its_readings_were_made_of(fits):
    """Readings by the simulation itself, with other kernels than those it starts from."""
    import fit_operators
    import fit_readings

    from pymicro.analysis.durations import Clock
    from pymicro.analysis.primitives import Kernel
    from pymicro.analysis.work import Work

    p = primitives(catalogue()[fits.CARD], measured=False)
    true = Kernel(2.0, 3.0, (6.0, 4.0))
    clock = Clock(fit_operators.with_kernel(p, "gelu", true))
    works = [
        Work("gelu", "pointwise", dtype, 0, 2**n)
        for n in range(12, 30, 2)
        for dtype in ("float32", "float16")
    ]
    readings = [fit_readings.Reading(((w, 1.0),), clock.of(w).seconds, 2.0) for w in works]
    found = fit_operators.kernel(p, "gelu", readings)
    assert found.kernels == 2.0
    assert found.start_floors == pytest.approx(3.0, rel=0.05)
    assert found.bytes_per_clk == pytest.approx(true.bytes_per_clk, rel=0.05)
    assert fit_operators.error(fit_operators.with_kernel(p, "gelu", found), readings) < 0.02


def test_error_is_none_where_the_simulation_is_right_and_symmetric(fits):
    import fit_operators
    import fit_readings

    from pymicro.analysis.durations import Clock
    from pymicro.analysis.work import Work

    p = primitives(catalogue()[fits.CARD])
    work = Work("gelu", "pointwise", "float32", 0, 2**24)
    seconds = Clock(p).of(work).seconds
    ends = [
        fit_operators.error(p, [fit_readings.Reading(((work, 3.0),), 3 * seconds * f, 1.0)])
        for f in (1.0, 2.0, 0.5)
    ]
    assert ends == pytest.approx([0.0, math.log(2), math.log(2)])


def test_what_ships_of_the_card_is_what_its_primitives_hold():
    held = measured("h200_sxm_141gb")
    p = primitives(catalogue()["h200_sxm_141gb"])
    assert p.flop_per_s == held.flop_per_s
    assert p.gap_s == held.gap_s
    assert p.link_start_s == held.link_start_s
    for value in (
        *held.flop_per_s.values(),
        *held.clock_share.values(),
        held.floor_s,
        held.dram_bytes_per_s,
        held.l2_bytes_per_s,
    ):
        assert value.low < value.value < value.high
        assert value.kind == "measured"
    # A rate is no higher than the peak at the clock that it was reached at.
    for path, share in held.clock_share.items():
        assert p.flop_per_s[path].value <= p.peak_flop_per_s[path] * share.value * 1.02
    assert measured("rtx_4090") == replace(measured("rtx_4090"))


def test_nothing_is_both_fitted_and_assumed():
    fitted, assumed = (
        tomllib.loads((DATA / name).read_text(encoding="utf-8"))
        for name in ("operators.toml", "operators_assumed.toml")
    )
    for table in ("class", "operator"):
        assert not fitted[table].keys() & assumed[table].keys()
    assert not fitted.keys() & assumed.keys() - {"class", "operator"}
    assert default_library().kernels.keys() == {
        *fitted["class"], *assumed["class"], *fitted["operator"], *assumed["operator"]
    }  # fmt: skip
