"""A job's operators under a card's roofs: shares add up, and follow the job."""

import pytest
from click.testing import CliRunner

from pymicro.analysis import cases
from pymicro.analysis.job_points import job_points
from pymicro.analysis.primitives_sources import primitives
from pymicro.cli import cli
from pymicro.devices.catalogue import catalogue
from pymicro.errors import UsageError

CARD = "rtx_4090"


def points(model="distilbert", card=CARD, most=20, **job):
    return job_points(cases.case(model, "cuda", **job), primitives(catalogue()[card], []), most)


@pytest.mark.parametrize("model", ["distilbert", "t5-large"])
def test_shares_of_points_and_of_what_is_left_out_add_up(model):
    for most in (1, 5, 1000):
        found = points(model, most=most)
        shown = [p.share_of_time for p in found.points]
        assert sum(shown) + found.rest_share + found.bare_share == pytest.approx(1)
        assert shown == sorted(shown, reverse=True)
    assert found.rest_share == 0


def test_products_carry_their_sizes_and_no_more_than_the_peak():
    card = primitives(catalogue()[CARD], [])
    found = points(batch=32, length=128, precision="fp32")
    product = next(p for p in found.points if "4096×3072×768" in p.label)
    moved = 4 * (4096 * 768 + 768 * 3072 + 4096 * 3072)
    assert product.intensity == pytest.approx(2 * 4096 * 3072 * 768 / moved, rel=0.01)
    assert all(p.rate <= card.peak_flop_per_s[p.dtype] for p in found.points)


def test_tf32_moves_products_to_the_matrix_units_and_not_attention():
    formats = {p.dtype: p.label for p in points(precision="tf32").points}
    assert "tf32" in formats
    assert "attention" in formats["fp32"]


def test_the_command_places_them():
    done = CliRunner().invoke(cli, ["roofline", "4090", "--job", "distilbert", "--format", "csv"])
    assert done.exit_code == 0
    assert "4096×768×768" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--batch", "3"], "--job MODEL"), (["--job", "nonsense"], "nonsense")],
)
def test_what_names_no_job_is_one_sentence(words, said):
    done = CliRunner().invoke(cli, ["roofline", "4090", *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)
