"""The claims are read whole, and every card and figure that they name exists."""

from __future__ import annotations

import pytest

from pymicro.analysis.claims import FIGURES, claims
from pymicro.devices.catalogue import catalogue
from pymicro.errors import UsageError

SIZES = {"large", "middle", "small", "none"}


def test_all_claims_of_both_sources_are_there():
    ids = [c.id for c in claims().claims]
    assert ids == [f"S1-{n}" for n in range(1, 11)] + [f"S2-{n}" for n in range(1, 15)]
    assert set(claims().sources) == {"S1", "S2"}


def test_verdicts_name_cards_of_the_catalogue_once():
    named = [key for c in claims().claims for key in c.cards]
    assert set(named) <= set(catalogue())
    assert len(named) == len(set(named))
    for claim in claims().claims:
        for opinion in filter(None, (claim.training, claim.inference)):
            assert set(opinion.reads_as) <= SIZES


def test_the_nine_cards_of_the_comparison_have_a_verdict():
    for key in ("h100_sxm5_80gb", "a100_sxm4_80gb", "rtx_a6000", "rtx_a4000", "v100_sxm2_32gb",
                "quadro_p6000", "quadro_rtx_4000", "l40s", "l4"):  # fmt: skip
        assert claims().about(key).source == "S2"
    assert claims().about("rtx_4090") is None


def test_errors_of_tables_show_figures_that_exist():
    for error in claims().errors:
        assert set(error.show) <= set(FIGURES)
        assert set(error.cards) <= set(catalogue())


def test_figures_behind_the_errors():
    p6000, h100 = catalogue()["quadro_p6000"], catalogue()["h100_sxm5_80gb"]
    read = {name: row[2] for name, row in FIGURES.items()}
    assert read["fp32"](p6000) / read["fp16_vector"](p6000) == pytest.approx(64)
    assert read["fp16_sparse"](h100) == pytest.approx(2 * read["fp16_dense"](h100))
    assert read["fp16_sparse"](catalogue()["v100_sxm2_32gb"]) is None


def test_a_wrong_file_is_told(tmp_path):
    file = tmp_path / "claims.toml"
    file.write_text('[source.A]\nwhat="x"\n[[claim]]\nid="B-1"\nsays="y"\nkind="z"\n[[error]]\n'
                    'id="e"\nwhat="w"\ncards=[]\nshow=[]\n')  # fmt: skip
    with pytest.raises(UsageError, match="B-1 has no source 'B'"):
        claims(file)
    file.write_text('[source.A]\nwhat="x"\n[[claim]]\nid="A-1"\nsaid="y"\n')
    with pytest.raises(UsageError, match=r"claims\.toml"):
        claims(file)
