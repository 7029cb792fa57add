"""Every row is checked on load, and every kind of wrong row is refused with file, row and key."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.devices.catalogue import DATA, catalogue
from pymicro.devices.schema import KEYS, BadRow, Number, read_row
from pymicro.devices.spec import PATHS
from pymicro.errors import UsageError

ROWS = tomllib.loads((DATA / "gpus.toml").read_text(encoding="utf-8"))["gpu"]


def changed(**changes):
    """The row of the RTX 4090 with other values; None removes a key."""
    row = {**ROWS["rtx_4090"], **changes}
    return {k: v for k, v in row.items() if v is not None}


def test_all_rows_load_in_si_units():
    specs = catalogue()
    assert specs.keys() == ROWS.keys()
    card = specs["h100_sxm5_80gb"]
    assert card.capability == (9, 0)
    assert card.boost_clock_hz == 1980e6
    assert card.memory_bytes == 80 * 2**30
    assert card.memory_bytes_per_s == 3352e9
    assert card.l2_bytes == 50 * 2**20
    assert card.shared_bytes_per_block == 227 * 1024


def test_peak_uses_the_tensor_clock_only_where_the_vendor_does():
    card = catalogue()["h100_sxm5_80gb"]
    assert card.peak_ops_per_s("fp16_tensor_fp32_acc") == 132 * 4096 * 1830e6
    assert card.peak_ops_per_s("fp64_tensor") == 132 * 256 * 1980e6
    assert card.peak_ops_per_s("fp32") == 132 * 256 * 1980e6
    assert card.peak_ops_per_s("fp32", clock_hz=1e9) == 132 * 256 * 1e9


def test_paper_figures_of_the_two_sources():
    """FP32 without tensor cores: the 4090 leads the PCIe H100; in TF32 it does not."""
    specs = catalogue()
    fp32 = {k: round(s.peak_ops_per_s("fp32") / 1e12, 1) for k, s in specs.items()}
    assert (fp32["h100_pcie_80gb"], fp32["rtx_4090"], fp32["rtx_5090"]) == (51.2, 82.6, 104.8)
    tf32 = {k: s.peak_ops_per_s("tf32_tensor") for k, s in specs.items()}
    assert tf32["h100_pcie_80gb"] > 4 * tf32["rtx_4090"]
    half = specs["rtx_4090"].peak_ops_per_s("fp16_tensor_fp32_acc")
    assert half * 2 == specs["rtx_4090"].peak_ops_per_s("fp16_tensor_fp16_acc")


def test_absent_path_is_zero_and_unknown_path_is_a_word_error():
    card = catalogue()["v100_sxm2_16gb"]
    assert card.peak_ops_per_s("fp8_tensor_fp32_acc") == 0
    with pytest.raises(UsageError, match="did you mean"):
        card.peak_ops_per_s("fp16_tensor")


@pytest.mark.parametrize("key", [k for k in KEYS if KEYS[k].default is KEYS["sm_count"].default])
def test_a_missing_key_is_named(key):
    with pytest.raises(BadRow, match=rf"'{key}': is missing"):
        read_row("card", changed(**{key: None}))


@pytest.mark.parametrize("path", PATHS)
def test_a_missing_path_is_named(path):
    rates = {p: r for p, r in ROWS["rtx_4090"]["ops_per_clk_per_sm"].items() if p != path}
    with pytest.raises(BadRow, match=rf"ops_per_clk_per_sm\.{path}"):
        read_row("card", changed(ops_per_clk_per_sm=rates))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"boost_clock_mhz": 2620}, "published_tera_ops"),  # 4 % off
        ({"boost_clock_mhz": 2.52}, "boost_clock_mhz"),  # GHz
        ({"boost_clock_mhz": 2520000}, "boost_clock_mhz"),  # kHz
        ({"sm_count": 144}, "published_tera_ops"),
        ({"sm_count": 128.0}, "sm_count"),
        ({"sm_count": True}, "sm_count"),
        ({"memory_bandwidth_gbps": 1.008}, "memory_bandwidth_gbps"),  # TB/s
        ({"memory_bandwidth_gbps": 939}, "memory_bandwidth_gbps"),  # GiB/s
        ({"memory_bandwidth_gbps": float("nan")}, "memory_bandwidth_gbps"),
        ({"memory_data_rate_gbit_s_per_pin": 10.5}, "memory_bandwidth_gbps"),  # per clock edge
        ({"memory_clock_nvml_mhz": 21002}, "memory_clock_nvml_mhz"),
        ({"tensor_boost_clock_mhz": 2600}, "published_tera_ops"),
        ({"max_clock_mhz": 2400}, "max_clock_mhz"),
        ({"base_clock_mhz": 2600}, "base_clock_mhz"),
        ({"compute_capability": "89"}, "compute_capability"),
        ({"compute_capability": 8.9}, "compute_capability"),
        ({"pci_device_ids": ["10de:2684"]}, "pci_device_ids"),
        ({"nvml_names": "NVIDIA GeForce RTX 4090"}, "nvml_names"),
        ({"nvlink_links": 4}, "nvlink_links"),
        ({"structured_sparsity_2_4": "yes"}, "structured_sparsity_2_4"),
        ({"p2p_over_pcie": "maybe"}, "p2p_over_pcie"),
        ({"bost_clock_mhz": 2520}, "bost_clock_mhz"),
        ({"explained_mismatch": {"fp32": "because it is so"}}, "explained_mismatch.fp32"),
        ({"published_halved_from_sparse": ["fp6_tensor_fp32_acc"]}, "published_tera_ops.fp6"),
        ({"published_tera_ops": {"fp31": 82.6}}, "published_tera_ops.fp31"),
    ],
)
def test_a_wrong_value_is_refused_under_its_key(changes, key):
    with pytest.raises(BadRow) as caught:
        read_row("card", changed(**changes))
    assert str(caught.value).startswith(f"key '{key}")


def test_a_sparse_peak_among_the_dense_ones_is_refused():
    peaks = {**ROWS["rtx_4090"]["published_tera_ops"], "fp16_tensor_fp32_acc": 330.3}
    with pytest.raises(BadRow, match="fp16_tensor_fp32_acc"):
        read_row("card", changed(published_tera_ops=peaks))


@given(st.sampled_from(sorted(ROWS)), st.sampled_from([1e-6, 1e-3, 1e3, 1e6]))
def test_no_unit_slip_of_any_number_survives(name, slip):
    for key, kind in KEYS.items():
        number = getattr(kind.read, "__self__", None)
        value = ROWS[name].get(key)
        if not isinstance(number, Number) or not value:
            continue
        with pytest.raises(BadRow):
            read_row(name, {**ROWS[name], key: value * slip})


def write(folder, text):
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_users_file_changes_single_keys(tmp_path):
    file = write(tmp_path, "[gpu.rtx_4090]\ntdp_w = 600\n")
    assert catalogue(file)["rtx_4090"].tdp_w == 600
    assert catalogue()["rtx_4090"].tdp_w == 450


def test_a_users_clock_drops_the_published_peaks(tmp_path):
    card = catalogue(write(tmp_path, "[gpu.rtx_4090]\nboost_clock_mhz = 2700\n"))["rtx_4090"]
    assert card.peak_ops_per_s("fp32") == 128 * 256 * 2700e6
    assert not card.published_ops_per_s


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gpu.rtx_4090]\nboost_clock_mhz = 2\n", ["mine.toml", "rtx_4090", "boost_clock_mhz"]),
        ("[gpu.mine]\nsm_count = 4\n", ["mine.toml", "mine", "missing"]),
        ('[gpu.l4]\nmarketing_name = "NVIDIA L40"\n', ["'NVIDIA L40'", "'l4'", "'l40'"]),
        ('[gpu.l4]\nnvml_names = ["nvidia  l40s"]\n', ["mine.toml", "nvml_names", "'l40s'"]),
        ("[gpu.a]\nx = 1\n[gpu.a]\nx = 2\n", ["mine.toml", "TOML"]),
        ("[card.a]\nx = 1\n", ["mine.toml", "'card'"]),
        ("", ["mine.toml", "no row"]),
        ("gpu = 3\n", ["mine.toml", "no row"]),
        ("[gpu]\nmine = 3\n", ["mine.toml", "not a table"]),
        ("[gpu.rtx_4090.ops_per_clk_per_sm]\nfp33 = 1\n", ["fp33", "mine.toml"]),
    ],
)
def test_a_wrong_users_file_fails_in_one_sentence(tmp_path, text, words):
    with pytest.raises(UsageError) as caught:
        catalogue(write(tmp_path, text))
    assert all(w in str(caught.value) for w in words), caught.value
    assert "\n" not in str(caught.value).strip()


def test_an_absent_or_binary_file_fails_in_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        catalogue(tmp_path / "none.toml")
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="TOML"):
        catalogue(file)


def test_importing_the_rooms_loads_nothing_heavy():
    code = (
        "import sys, pymicro.devices, pymicro.devices.here, pymicro.devices.finder,"
        " pymicro.devices.describe, pymicro.devices.traps\n"
        "print([m for m in ('numpy', 'pynvml', 'cuda', 'torch', 'tomllib', 'csv')"
        " if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
