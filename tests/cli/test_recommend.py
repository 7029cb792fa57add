"""`pymicro recommend`: cards and prices in comma lists, costs with their unit, eighty columns."""

import json

import pytest
from click.testing import CliRunner

from pymicro.cli import cli
from pymicro.errors import UsageError


def told(*words):
    done = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["recommend", *words])
    assert done.exit_code == 0, done.exception
    return done.output


def test_cards_may_come_in_lists_or_one_by_one():
    lists = told("distilbert", "--card", "4090,H100 PCIe")
    single = told("distilbert", "--card", "4090", "--card", "H100 PCIe")
    assert lists == single
    assert "GeForce" in lists
    assert "H100 PCIe" in lists


def test_a_cost_has_its_unit_and_the_cheapest_is_named():
    words = ("distilbert", "--card", "4090,H100 PCIe", "--price", "4090=0.4,H100 PCIe=2.5")
    text = " ".join(told(*words).split())
    assert "cost" in text
    assert "Cost is that of the job on one card at your price an hour" in text
    assert "Cheapest of those that fit: GeForce RTX 4090" in text
    cards = json.loads(told(*words, "--format", "json"))["cards"]
    for card in cards:
        an_hour = 0.4 if "4090" in card["device"] else 2.5
        assert card["cost"]["value"] == pytest.approx(card["seconds"]["value"] * an_hour / 3600)


def test_without_prices_there_is_no_word_of_cost():
    text = told("distilbert", "--card", "4090")
    assert "cost" not in text.lower()
    assert json.loads(told("distilbert", "--card", "4090", "--format", "json"))["schema"] == 1


def test_a_word_that_means_several_cards_says_which_was_taken():
    assert "was taken as H100 SXM5 80GB" in told("distilbert", "--card", "4090,H100")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--card", "4090", "--price", "T4=1"), "leaves out"),
        (("--price", "4090=much"), "CARD=NUMBER"),
        (("--price", "4090"), "CARD=NUMBER"),
        (("--card", "4090,nope"), "unknown GPU 'nope'"),
    ],
)
def test_wrong_cards_and_prices_are_a_sentence(words, said):
    with pytest.raises(UsageError, match=said):
        cli.main(["recommend", "distilbert", *words], standalone_mode=False)


@pytest.mark.parametrize("words", [(), ("--gpus", "4"), ("--price", "4090=0.4,L4=0.2")])
def test_the_table_fits_eighty_columns(words):
    assert max(map(len, told("distilbert", *words).splitlines())) <= 80


def test_several_cards_are_told_by_link():
    text = told("distilbert", "--card", "H100,4090", "--gpus", "4")
    assert "4 over PCIe" in text
    assert "4 over NVLink" in text


def test_evidence_is_that_of_what_bounds_the_job():
    """Where arithmetic does, the assumed host is no reason to call the time assumed."""
    words = ("--card", "H200,P6000", "--format", "json")
    cards = json.loads(told("bert-large", *words))["cards"]
    kinds = {c["device"]: c["primitives"]["flop_per_s fp32"]["kind"] for c in cards}
    assert all(c["bound"].startswith("arithmetic") for c in cards)
    assert {c["device"]: c["bound_evidence"] for c in cards} == kinds
    assert "measured" in kinds.values()
    host = json.loads(told("t5", "--batch", "1", "--card", "H100", "--format", "json"))["cards"][0]
    assert host["bound"].startswith("the host")
    assert host["bound_evidence"] == "assumed"
    assert "--host tells of yours" in told("t5", "--batch", "1", "--card", "H100")
    assert "--host tells of yours" not in told("bert-large", "--card", "H200")


@pytest.mark.parametrize("width", ["40", "60", "80"])
def test_a_cost_that_was_asked_for_stays_and_is_of_a_readable_size(width):
    """A batch of BERT takes a tenth of a second: per thousand records its cost can be read."""
    words = ["bert-large", "--gpus", "4", "--card", "4090,L4", "--price", "4090=0.4,L4=0.2"]
    done = CliRunner(env={"COLUMNS": width}).invoke(cli, ["recommend", *words])
    text = " ".join(done.output.split())
    assert "cost/1" in text
    assert "e-0" not in text
    assert "Cost is that of 1,000,000 records" in text or "Cost is that of 1,000 records" in text
    least = float(text.split("Cheapest of those that fit: ")[1].split("; then")[0].split(", ")[-1])
    assert least >= 0.01
    cards = json.loads(told(*words, "--format", "json"))["cards"]
    of = 1e6 if "1,000,000" in text else 1e3
    assert least == pytest.approx(min(c["cost"]["value"] for c in cards) / 32 * of, rel=0.01)
