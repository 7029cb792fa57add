"""The rules of code on chips, on a table."""

import pytest

from pymicro.errors import UsageError
from pymicro.software.codes import KINDS, best_code, parse_archs

OLD_WHEEL = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
NEW_WHEEL = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"
TABLE = [
    # capability, list, kind
    ("12.0", OLD_WHEEL, "impossible"),
    ("12.0", OLD_WHEEL + " compute_90", "jit"),
    ("12.0", NEW_WHEEL, "native"),
    ("12.1", NEW_WHEEL, "relative"),
    ("10.3", NEW_WHEEL, "relative"),
    ("11.0", NEW_WHEEL, "impossible"),
    ("9.0", OLD_WHEEL, "native"),
    ("9.0", NEW_WHEEL, "native"),
    ("8.9", OLD_WHEEL, "relative"),
    ("8.9", "sm_86", "relative"),
    ("8.9", "sm_80", "relative"),
    ("8.9", "sm_89 sm_86", "native"),
    ("8.9", "sm_90", "impossible"),
    ("8.6", OLD_WHEEL, "native"),
    ("8.0", "sm_86", "impossible"),
    ("8.0", "sm_86 compute_75", "jit"),
    ("8.0", NEW_WHEEL, "native"),
    ("7.5", OLD_WHEEL, "native"),
    ("7.5", "sm_70", "relative"),
    ("7.0", "sm_75 sm_80", "impossible"),
    ("7.0", NEW_WHEEL, "impossible"),
    ("7.0", OLD_WHEEL, "native"),
    ("6.1", OLD_WHEEL, "relative"),
    ("6.1", "sm_61", "native"),
    ("6.1", NEW_WHEEL, "impossible"),
    ("6.1", "compute_52", "jit"),
    ("5.2", OLD_WHEEL, "relative"),
    # PTX runs forward only.
    ("9.0", "compute_80", "jit"),
    ("9.0", "compute_90", "jit"),
    ("8.0", "compute_90", "impossible"),
    ("12.0", "compute_50", "jit"),
    # `a` runs on its own chip alone, as machine code and as PTX.
    ("9.0", "sm_90a", "native"),
    ("9.0", "compute_90a", "jit"),
    ("10.0", "sm_90a", "impossible"),
    ("12.0", "compute_90a", "impossible"),
    ("10.3", "sm_100a", "impossible"),
    ("10.3", "compute_100a", "impossible"),
    ("12.0", "sm_120a", "native"),
    ("12.1", "sm_120a", "impossible"),
    # `f` runs in its family: same major number, from its minor one on.
    ("10.0", "sm_100f", "native"),
    ("10.3", "sm_100f", "relative"),
    ("10.0", "sm_103f", "impossible"),
    ("12.0", "sm_100f", "impossible"),
    ("12.1", "sm_120f", "relative"),
    ("10.3", "compute_100f", "jit"),
    ("12.0", "compute_100f", "impossible"),
    # Tegra chips share machine code with no neighbour, PTX with all.
    ("8.7", "sm_86", "impossible"),
    ("8.7", "sm_87", "native"),
    ("8.9", "sm_87", "impossible"),
    ("8.7", "sm_86 compute_86", "jit"),
    ("7.2", "sm_70", "impossible"),
    # Build flags, and nothing at all.
    ("9.0", "8.0 9.0+PTX", "native"),
    ("12.0", "8.0 9.0+PTX", "jit"),
    ("12.0", "12.0", "native"),
    ("9.0", "9.0a", "native"),
    ("9.0", "", "impossible"),
]


def capability(text):
    major, minor = text.split(".")
    return int(major), int(minor)


def code_kind(chip, words):
    return best_code(chip, parse_archs(words))[0]


def test_the_table_is_long_enough():
    assert len(TABLE) >= 40
    assert {kind for _, _, kind in TABLE} == set(KINDS)


@pytest.mark.parametrize(("chip", "archs", "kind"), TABLE)
def test_code_kind(chip, archs, kind):
    assert code_kind(capability(chip), archs.split()) == kind


@pytest.mark.parametrize(("chip", "archs", "kind"), TABLE)
def test_order_and_repetition_change_nothing(chip, archs, kind):
    words = archs.split()
    assert code_kind(capability(chip), [*reversed(words), *words]) == kind


@pytest.mark.parametrize(("chip", "archs", "kind"), TABLE)
def test_more_code_never_makes_it_worse(chip, archs, kind):
    more = [*archs.split(), "sm_30", "compute_30"]
    assert KINDS.index(code_kind(capability(chip), more)) <= KINDS.index(kind)


def test_the_nearest_entry_is_named():
    _, arch = best_code((8, 9), parse_archs(["sm_80", "sm_86", "compute_80"]))
    assert str(arch) == "sm_86"
    _, arch = best_code((12, 0), parse_archs(["compute_75", "compute_90", "compute_90a"]))
    assert str(arch) == "compute_90"
    assert best_code((12, 0), ()) == ("impossible", None)


@pytest.mark.parametrize("word", ["sm_9", "sm90", "gfx942", "sm_90b", "9", "", "compute_"])
def test_other_words_are_refused(word):
    with pytest.raises(UsageError, match="no architecture"):
        code_kind((9, 0), [word])
