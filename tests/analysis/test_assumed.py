"""What is assumed has a reason and an interval, is used, and gives way to any evidence."""

import re
import tomllib
from pathlib import Path

from pymicro.analysis.assumed import figure, number
from pymicro.analysis.primitives_print import link
from pymicro.analysis.primitives_sources import primitives
from pymicro.devices.catalogue import DATA, catalogue

ANALYSIS = Path(__file__).parents[2] / "pymicro" / "analysis"
TABLES = tomllib.loads((DATA / "assumptions.toml").read_text(encoding="utf-8"))


def test_every_row_has_a_reason_and_is_used():
    text = "".join(p.read_text(encoding="utf-8") for p in ANALYSIS.glob("*.py"))
    for table in TABLES.values():
        for name, row in table.items():
            assert len(row["why"]) > 15, name
            assert f'"{name}"' in text, name
    for name in TABLES["figures"]:
        value = figure(name, 2.0)
        assert value.low < value.value < value.high
        assert value.kind == "assumed"
        assert value.source.startswith("assumed: ")


def test_no_card_rests_on_an_assumption_where_print_tells():
    for spec in catalogue().values():
        p = primitives(spec, measured=False)
        assumed = {name for name, value in p.values().items() if value.kind == "assumed"}
        assert assumed <= {"link_start_s", "host_operator_s", "host_operator_s backward"}, spec.key


def test_a_link_out_of_print_takes_the_share_of_those_in_print():
    in_print = link(catalogue()["rtx_4090"])
    inferred = link(catalogue()["l4"])
    assert in_print.kind == "published"
    share = re.search(r"x (0\.\d+), the median of cards in print", inferred.source)
    assert share
    assert 0.7 < float(share[1]) < 1
    assert inferred.low < inferred.value <= inferred.high


def test_numbers_are_shares_factors_or_units_by_name():
    for name in TABLES["numbers"]:
        assert number(name) > 0
        if name.endswith(("_share", "_spread")):
            assert number(name) < 1, name
