"""What people call a card finds it; what they call its sibling never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.devices.catalogue import catalogue
from pymicro.devices.finder import find
from pymicro.errors import UsageError

SPECS = catalogue()
NAMES = sorted((n, s.key) for s in SPECS.values() for n in (s.key, s.name, *s.nvml_names))
SUFFIXES = [
    "Laptop GPU", "Max-Q", "Mobile", "SUPER", "Ti", "D", "S", "Ti SUPER", "NVL", "PCIe", "SXM",
    "SXM2", "GRID", "MIG 1g.5gb", "MIG 3g.40gb", "-40C", "-8Q", "Server Edition", "Ada", "Ultra",
    "X", "G", "v2", "12GB", "320GB",
]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("H100", "h100_sxm5_80gb"), ("h100 sxm", "h100_sxm5_80gb"), ("H100 80GB", "h100_sxm5_80gb"),
        ("H100-PCIe", "h100_pcie_80gb"), ("h100pcie", "h100_pcie_80gb"),
        ("H100 NVL", "h100_nvl_94gb"), ("H200", "h200_sxm_141gb"), ("gh200 96gb", "gh200_96gb"),
        ("a100 80gb", "a100_sxm4_80gb"), ("A100-40G", "a100_sxm4_40gb"),
        ("a100 pcie 40 GB", "a100_pcie_40gb"), ("v100", "v100_sxm2_32gb"),
        ("V100 PCIe 16GB", "v100_pcie_16gb"), ("4090", "rtx_4090"), ("rtx4090", "rtx_4090"),
        ("GeForce RTX 4090", "rtx_4090"), ("geforce_rtx-4090", "rtx_4090"), ("5090", "rtx_5090"),
        ("l40s", "l40s"), ("L40", "l40"), ("L4", "l4"), ("A10", "a10"), ("T4", "t4"),
        ("P6000", "quadro_p6000"), ("A6000", "rtx_a6000"), ("RTX A6000", "rtx_a6000"),
        ("A4000", "rtx_a4000"), ("Quadro RTX 4000", "quadro_rtx_4000"),
        ("RTX 4000 Ada", "rtx_4000_ada"),
        ("4000 SFF", "rtx_4000_sff_ada"), ("RTX 6000 Ada", "rtx_6000_ada"),
        ("RTX PRO 6000", "rtx_pro_6000_blackwell_ws"), ("B200", "b200_sxm_180gb"),
    ],
)  # fmt: skip
def test_common_names(word, key):
    assert find(word).spec.key == key


@pytest.mark.parametrize(("name", "key"), NAMES)
def test_every_name_finds_its_own_row_without_a_note(name, key):
    match = find(name)
    assert (match.spec.key, match.note) == (key, None)
    assert find(name.upper()).spec.key == key


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        ("RTX 4000", ("Quadro RTX 4000 (Turing)", "RTX 4000 Ada", "RTX 4000 SFF Ada")),
        ("rtx4000", ("Quadro RTX 4000 (Turing)",)),
        ("6000", ("RTX 6000 Ada", "RTX PRO 6000 Blackwell")),
    ],
)
def test_a_name_that_cards_of_several_generations_share_is_refused(word, choices):
    with pytest.raises(UsageError, match="several generations") as refused:
        find(word)
    assert all(choice in str(refused.value) for choice in choices)


def test_a_card_whose_notes_tell_of_its_namesake_is_never_taken_for_it():
    words = [n.split("call ")[1].split(";")[0] for s in SPECS.values() for n in s.notes
             if "that tables call" in n]  # fmt: skip
    assert words
    for word in words:
        with pytest.raises(UsageError, match="several generations"):
            find(word)


@pytest.mark.parametrize("word", ["H100", "A100", "V100"])
def test_variants_of_one_generation_keep_the_stated_fastest(word):
    match = find(word)
    assert "the fastest of them" in match.note
    assert "SXM" in match.spec.name


def test_a_choice_is_said_with_the_alternatives():
    match = find("H100")
    assert {s.key for s in match.alternatives} == {"h100_pcie_80gb", "h100_nvl_94gb"}
    assert all(word in match.note for word in ("SXM5", "PCIe", "NVL"))
    assert find("4090").note is None


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_suffix_leads_to_a_row_of_another_chip(suffix):
    """A suffix either belongs to the very row or makes the name unknown."""
    for name, key in NAMES:
        for word in (f"{name} {suffix}", f"{suffix} {name}", name + suffix.split()[0]):
            try:
                found = find(word).spec
            except UsageError:
                continue
            own = SPECS[key]
            assert (found.chip, found.sm_count) == (own.chip, own.sm_count), word
            vocabulary = " ".join((found.key, found.name, *found.nvml_names, found.architecture))
            assert suffix.lower().split()[0].strip("-") in vocabulary.lower(), word


@pytest.mark.parametrize(
    "word",
    [
        "RTX 4090 Laptop GPU", "4090 D", "4090D", "5090 D", "RTX 4080 SUPER", "4080 Ti", "3090 Ti",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "Quadro RTX 6000", "GB200",
        "B300", "H200 NVL", "GRID A100-40C", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A10G", "T4G",
        "V100S", "H800", "H20", "RTX A6000 Ada", "A100X", "L20", "RTX 4000 Ada Laptop GPU",
        "H100 4090", "", "-", "NVIDIA",
    ],
)  # fmt: skip
def test_cards_that_are_not_in_the_catalogue_stay_unknown(word):
    with pytest.raises(UsageError):
        find(word)


@pytest.mark.parametrize(
    ("typo", "hint"),
    [("4900", "RTX 4090"), ("rtx 409O", "RTX 4090"), ("h10O", "H100"), ("B300", "B200")],
)
def test_a_typo_gets_a_suggestion(typo, hint):
    with pytest.raises(UsageError, match=hint):
        find(typo)


@pytest.mark.parametrize("family", ["rtx", "hopper", "Ada Lovelace", "80gb", "AD102", "geforce"])
def test_a_family_is_no_card(family):
    with pytest.raises(UsageError, match="say which"):
        find(family)


@given(st.text(max_size=30))
def test_any_text_is_found_or_told_unknown(word):
    try:
        key = find(word).spec.key
    except UsageError:
        return
    assert key in SPECS
