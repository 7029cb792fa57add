"""The environment in a record: facts that bear on the measurement, and nothing about people."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pymicro.environment import capture, node_name
from pymicro.environment.gpu import driver_facts, kernel_module_version
from pymicro.environment.host import cpu_quota_cores, host_facts, is_container, software, versions
from pymicro.environment.variables import ALLOWED, allowed_variables
from pymicro.errors import UsageError

UUID = "GPU-11111111-2222-3333-4444-555555555555"


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "pymicro"
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(folder))
    return folder


def leaves(value):
    if isinstance(value, dict):
        return [x for k, v in value.items() for x in (k, *leaves(v))]
    if isinstance(value, list):
        return [x for v in value for x in leaves(v)]
    return [value]


@pytest.mark.parametrize(
    ("links", "expected"),
    [((1, 1, 0, 1), {"up": 3, "of": 4}), ((), None), ((0,), {"up": 0, "of": 1})],
)
def test_nvlinks_that_are_up(fake_nvml, links, expected):
    fake_nvml.gpus[0].nvlinks = links
    got = capture(UUID, binding=fake_nvml)
    assert got["gpu"]["nvlinks"] == expected
    assert ("gpu.nvlinks" in got["absent"]) == (expected is None)


def test_all_facts_of_a_gpu(fake_nvml):
    fake_nvml.gpus[0].power_limit_mw = 500_000
    fake_nvml.gpus[0].application_clock_mhz = 1200
    got = capture(UUID, binding=fake_nvml)
    assert got["driver"]["version"] == "580.95.05"
    assert got["driver"]["cuda_version"] == "13.0"
    assert got["gpu"] == {
        "found_by": "uuid",
        "is_mig_partition": False,
        "is_mig_enabled": False,
        "virtualization": "none",
        "is_persistent": True,
        "is_ecc_enabled": True,
        "power_limit_w": 500.0,
        "default_power_limit_w": 700.0,
        "max_sm_clock_hz": 1980e6,
        "max_memory_clock_hz": 3201e6,
        "application_clock_hz": 1200e6,
        "default_application_clock_hz": 1980e6,
        "are_clocks_set": True,
        "pcie_max": [5, 16],
        "pcie_card_generation": 5,
        "nvlinks": {"up": 18, "of": 18},
        "other_processes": 0,
    }
    assert got["absent"] == {}
    assert got["host"]["logical_cores"] >= 1
    json.dumps(got, allow_nan=False)


@pytest.mark.parametrize("failure", [3, 4, 13, 15, 999, AttributeError("x")])
def test_each_failing_question_leaves_a_reason_and_the_rest(fake_nvml, failure):
    whole = capture(UUID, binding=fake_nvml)["gpu"]
    asked = [q for q in fake_nvml.calls if q.startswith("nvmlDeviceGet") and "Handle" not in q]
    assert len(asked) >= 10
    for question in asked:
        fake_nvml.failing = {question: failure}
        got = capture(UUID, binding=fake_nvml)
        lost = {name for name, value in got["gpu"].items() if value is None}
        assert {f"gpu.{name}" for name in lost - {"are_clocks_set"}} == set(got["absent"])
        assert lost, question
        assert all(got["gpu"][n] == v for n, v in whole.items() if n not in lost)
        json.dumps(got, allow_nan=False)


@pytest.mark.parametrize("failure", [12, 18, 4])
def test_no_nvml_is_a_reason_and_no_error(fake_nvml, failure):
    fake_nvml.failing["nvmlInit"] = failure
    got = capture(UUID, binding=fake_nvml)
    assert got["gpu"] is None
    assert got["driver"]["version"] is None
    assert set(got["absent"]) == {"driver", "gpu"}


def test_the_cpu_needs_no_gpu(fake_nvml):
    got = capture(None, binding=fake_nvml)
    assert got["gpu"] is None
    assert got["absent"] == {}


@pytest.mark.parametrize(
    ("pids", "in_container", "count"),
    [
        ([], True, 0),
        ([os.getpid()], True, 0),
        ([os.getpid(), 4_000_001], True, 1),
        ([4_000_001, 4_000_002], False, 2),
        ([4_000_001], True, None),
    ],
)
def test_other_processes(fake_nvml, monkeypatch, pids, in_container, count):
    monkeypatch.setattr("pymicro.environment.gpu.is_container", lambda: in_container)
    fake_nvml.gpus[0].pids = pids
    got = capture(UUID, binding=fake_nvml)
    assert got["gpu"]["other_processes"] == count
    assert ("gpu.other_processes" in got["absent"]) == (count is None)


def test_mig_and_vgpu_are_told(fake_nvml):
    fake_nvml.gpus[0].mig_mode, fake_nvml.gpus[0].virtualization = 1, 2
    fake_nvml.gpus[0].mig_uuids = ("MIG-1",)
    gpu = capture("MIG-1", binding=fake_nvml)["gpu"]
    assert gpu["is_mig_enabled"]
    assert gpu["is_mig_partition"]
    assert gpu["virtualization"] == "vgpu"


# --- privacy ---


@pytest.fixture
def strangers(monkeypatch):
    """A machine and a user whose names would be noticed anywhere."""
    monkeypatch.setattr(socket, "gethostname", lambda: "zebra17.corp.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "quaggamire")
    monkeypatch.setenv("HOME", "/home/quaggamire")
    monkeypatch.setenv("USERPROFILE", "C:\\Users\\quaggamire")
    return re.compile(r"zebra17|quagga|corp\.example|hunter2|/home|C:|bobolink", re.IGNORECASE)


SNEAKY = [
    "/home/quaggamire/cuda",
    "/home/quaggamire",
    "/home/quaggamire/",
    "/home/bobolink",
    "/mnt/home/bobolink/lib/x.so:/home/quaggamire/lib/y.so",
    "C:\\Users\\bobolink\\cuda",
    "zebra17",
    "max_split_size_mb:128,user=quaggamire",
    "https://token:hunter2@zebra17.corp.example/",
    "key=hunter2",
    "PASSWORD hunter2",
    "QUAGGAMIRE",
    "/data/zebra17.corp.example/lib.so",
]


@pytest.mark.parametrize("value", SNEAKY)
@pytest.mark.parametrize("label", [None, "lab 3"])
def test_no_name_or_path_in_the_record(fake_nvml, monkeypatch, strangers, value, label):
    for name in ALLOWED:
        monkeypatch.setenv(name, value)
    got = capture(UUID, binding=fake_nvml, label=label)
    assert set(got["variables"]) == set(ALLOWED)
    assert not strangers.search(json.dumps(got))


def test_this_very_machine_is_not_named(fake_nvml):
    text = json.dumps(capture(UUID, binding=fake_nvml))
    # As a whole word: a short host name may stand in the digits of a hash.
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    for private in (str(Path.home()), str(Path.cwd()), sys.prefix):
        assert private not in text
    assert not [x for x in leaves(json.loads(text)) if isinstance(x, str) and x.startswith("/")]
    # Not as part of a longer text: a user may be called `ubuntu`, as the system is.
    assert getpass.getuser() not in leaves(json.loads(text))


def test_only_listed_variables_are_taken_and_no_secret_is_listed(monkeypatch):
    for name in ("CUDA_API_KEY", "NVIDIA_TOKEN", "HF_TOKEN", "TORCH_SECRET", "CUDA_FOO", "NCCL_X"):
        monkeypatch.setenv(name, "hunter2")
    assert "hunter2" not in json.dumps(allowed_variables(os.environ))
    assert not [n for n in ALLOWED if re.search(r"TOKEN|KEY|SECRET|PASSW", n)]
    assert list(ALLOWED) == sorted(set(ALLOWED))


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("CUDA_VISIBLE_DEVICES", "0,1", "0,1"),
        ("CUDA_VISIBLE_DEVICES", "", ""),
        ("CUDA_VISIBLE_DEVICES", UUID, "GPU-11111111"),
        ("CUDA_VISIBLE_DEVICES", f"MIG-{UUID}/1/0", "MIG-GPU-11111111/1/0"),
        ("CUDA_VISIBLE_DEVICES", f"{UUID},{UUID}", "GPU-11111111,GPU-11111111"),
        ("OMP_NUM_THREADS", "2", "2"),
        ("OMP_PLACES", "{0:4}:2", "{0:4}:2"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "expandable_segments:True"),
        ("CUDA_HOME", "/usr/local/cuda-13.0/", "cuda-13.0"),
        ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2 /opt/x.so", "libjemalloc.so.2 x.so"),
        ("KMP_AFFINITY", "a" * 300, "a" * 200 + "..."),
        ("KMP_AFFINITY", "a\nb", "(set)"),
    ],
)
def test_values_as_shown(name, value, shown):
    assert allowed_variables({name: value}) == {name: shown}


# --- node ---


def test_node_is_stable_salted_and_hides_the_name(data_folder, monkeypatch):
    first = node_name()
    assert re.fullmatch(r"[0-9a-f]{12}", first)
    assert node_name() == first
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert node_name() != first
    monkeypatch.undo()


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are a Unix matter")
def test_salt_is_for_the_user_alone(data_folder):
    old = os.umask(0)
    try:
        node_name()
    finally:
        os.umask(old)
    assert stat.S_IMODE((data_folder / "salt").stat().st_mode) == 0o600


def test_another_salt_is_another_node(data_folder):
    first = node_name()
    (data_folder / "salt").unlink()
    assert node_name() != first


@pytest.mark.parametrize("torn", [b"", b"abc", b"\0" * 31])
def test_a_torn_salt_is_made_anew(data_folder, torn):
    data_folder.mkdir(parents=True)
    (data_folder / "salt").write_bytes(torn)
    first = node_name()
    assert node_name() == first
    assert len((data_folder / "salt").read_bytes()) == 32


def test_no_data_folder_still_gives_a_node(data_folder):
    data_folder.parent.mkdir(parents=True)
    data_folder.write_text("a file where the folder should be")
    assert re.fullmatch(r"[0-9a-f]{12}", node_name())
    assert node_name() == node_name()


@pytest.mark.parametrize("label", ["", "  ", "a" * 65, "a/b", "a\nb", "é" * 65, "<x>"])
def test_labels_that_cannot_be(label):
    with pytest.raises(UsageError, match="must be 1 to 64"):
        node_name(label)


def test_label_replaces_the_hash_and_leaves_no_salt(data_folder):
    assert node_name("rack-3 left") == "rack-3 left"
    assert not data_folder.exists()


# --- host ---


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_host_of_an_empty_machine(tmp_path):
    got = host_facts(tmp_path, {})
    assert got["is_container"] is got["is_wsl"] is False
    assert got["governor"] is got["cpu_quota_cores"] is got["is_virtual"] is None


def test_host_of_a_wsl_guest(tmp_path):
    write(tmp_path, "proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")
    write(tmp_path, "proc/cpuinfo", "model name\t: Intel(R)  Core i9\nflags\t: fpu hypervisor\n")
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    got = host_facts(tmp_path, {})
    assert (got["cpu"], got["governor"]) == ("Intel(R) Core i9", "powersave")
    assert got["is_wsl"]
    assert got["is_virtual"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".dockerenv", ""),
        ("run/.containerenv", ""),
        ("proc/1/cgroup", "0::/kubepods/burstable/pod1\n"),
        ("proc/1/cgroup", "12:cpu:/docker/abc\n"),
    ],
)
def test_marks_of_a_container(tmp_path, path, text):
    assert not is_container(tmp_path, {})
    write(tmp_path, path, text)
    assert is_container(tmp_path, {})


@pytest.mark.parametrize("name", ["container", "KUBERNETES_SERVICE_HOST"])
def test_container_told_by_a_variable(tmp_path, name):
    assert is_container(tmp_path, {name: "1"})


@pytest.mark.parametrize(
    ("text", "cores"),
    [("150000 100000", 1.5), ("max 100000", None), ("", None), ("1 0", None), ("x y", None)],
)
def test_quota_of_cgroup_2(tmp_path, text, cores):
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    assert cpu_quota_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("200000", 2.0), ("-1", None)])
def test_quota_of_cgroup_1(tmp_path, quota, cores):
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota)
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert cpu_quota_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("path", "text", "version"),
    [
        ("sys/module/nvidia/version", "580.95.05\n", "580.95.05"),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
            "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n",
            "570.86.15",
        ),
        ("proc/driver/nvidia/version", "nothing of the kind\n", None),
    ],
)
def test_kernel_module_version(tmp_path, path, text, version):
    assert kernel_module_version(tmp_path) is None
    write(tmp_path, path, text)
    assert kernel_module_version(tmp_path) == version


def test_module_and_library_of_different_versions_are_both_told(fake_nvml, tmp_path):
    write(tmp_path, "sys/module/nvidia/version", "570.86.15")
    facts, _ = driver_facts(fake_nvml, tmp_path)
    assert (facts["version"], facts["kernel_module_version"]) == ("580.95.05", "570.86.15")


def test_a_kernel_named_after_the_user_is_left_out(monkeypatch, strangers):
    monkeypatch.setattr("platform.release", lambda: "6.8.0-quaggamire")
    assert software()["kernel"] is None


def test_versions_are_read_without_importing():
    script = (
        "import sys; from pymicro.environment import capture; capture(None)\n"
        "heavy = {'torch', 'triton', 'cupy', 'numba', 'numpy', 'cuda'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_versions_of_what_is_installed_and_what_is_not(monkeypatch):
    assert versions()["nvidia-ml-py"]
    monkeypatch.setattr("pymicro.environment.host._DISTRIBUTIONS", {"x": ("no-such-thing-1",)})
    assert versions() == {"x": None}
