"""Paths, wheels, host, words of others, and the table of checks itself."""

import pytest

from pymicro.probes import Check, examine, host, paths
from pymicro.probes.quote import quote


def test_folders_that_shadow_libraries(scripted, tmp_path, codes):
    libraries, compat, clean = tmp_path / "lib64", tmp_path / "compat", tmp_path / "clean"
    for folder in (libraries, compat, clean):
        folder.mkdir()
    (libraries / "libcudart.so.12").touch()
    (compat / "libcuda.so.1").touch()
    (clean / "libfoo.so").touch()
    path = f"{libraries}:{compat}:{clean}:/nonexistent:"
    found = list(paths.loader_path(scripted.evidence(env={"LD_LIBRARY_PATH": path})))
    assert [f.code for f in found] == ["shadowed-libraries", "second-driver-library"]
    assert "compatibility package" in found[1].seen
    assert str(tmp_path) not in "".join(f.seen for f in found)


def test_a_driver_that_is_mounted_elsewhere_is_the_driver(scripted, tmp_path, codes):
    folder = tmp_path / "nvidia/lib64"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").touch()
    e = scripted.evidence(env={"LD_LIBRARY_PATH": str(folder)}, root=tmp_path)
    assert codes(paths.loader_path, e) == {}
    fill(tmp_path, **{"usr/lib64/libcuda.so.1": ""})
    assert codes(paths.loader_path, e) == {"second-driver-library": "warning"}


@pytest.mark.parametrize(
    ("installed", "majors"),
    [
        ({"nvidia-cuda-nvrtc-cu12": "12.9.86", "nvidia-cuda-nvrtc": "13.0.88"}, "12 and 13"),
        ({"nvidia-cublas-cu11": "11.11", "nvidia-cublas-cu12": "12.8"}, "11 and 12"),
        ({"nvidia-cuda-nvrtc": "13.0.88", "nvidia-cublas": "13.1"}, None),
        ({"nvidia-cuda-nvrtc-cu12": "12.9", "nvidia-cublas": "13.1"}, None),
    ],
)
def test_wheels_of_two_majors(scripted, installed, majors):
    e = scripted.evidence()
    e.distributions = lambda: iter(installed.items())
    found = list(paths.wheels(e))
    assert bool(found) == (majors is not None)
    assert all(majors in f.seen for f in found)


def test_two_cupys(scripted, codes):
    e = scripted.evidence()
    e.distributions = lambda: iter([("cupy-cuda12x", "13"), ("cupy-cuda13x", "14"), ("numpy", "2")])
    assert codes(paths.two_cupys, e) == {"two-cupys": "warning"}


def test_toolkit_folder_that_is_absent(scripted, tmp_path, codes):
    env = {"CUDA_PATH": "/nonexistent", "CUDA_HOME": str(tmp_path)}
    (found,) = paths.toolkit_variables(scripted.evidence(env=env))
    assert found.seen.startswith("CUDA_PATH")


def fill(root, **files):
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("governor", "driver", "severity"),
    [
        ("powersave", "acpi-cpufreq", "warning"),
        ("powersave", "intel_pstate", "info"),
        ("performance", "acpi-cpufreq", "info"),
    ],
)
def test_governor(scripted, tmp_path, codes, governor, driver, severity):
    folder = "sys/devices/system/cpu/cpu0/cpufreq"
    fill(tmp_path, **{f"{folder}/scaling_governor": governor, f"{folder}/scaling_driver": driver})
    assert codes(host.governor, scripted.evidence(root=tmp_path)) == {"governor": severity}


def test_no_governor_no_finding(scripted, tmp_path, codes):
    assert codes(host.governor, scripted.evidence(root=tmp_path)) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n",
            {"counters-restricted": "info"},
        ),
        ("RmProfilingAdminOnly: 0\n", {}),
        ("", {}),
        ("no colon here", {}),
    ],
)
def test_counters_for_administrators_only(scripted, tmp_path, codes, text, expected):
    fill(tmp_path, **{"proc/driver/nvidia/params": text})
    assert codes(host.counters, scripted.evidence(root=tmp_path)) == expected


def test_wsl_and_quota(scripted, tmp_path, codes):
    fill(
        tmp_path,
        **{
            "proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2",
            "sys/fs/cgroup/cpu.max": "50000 100000",
        },
    )
    assert codes(host.virtual, scripted.evidence(root=tmp_path)) == {
        "wsl": "info",
        "cpu-quota": "info",
    }


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("0::/\n", "memory.max"),
        ("4:memory:/docker/77\n", "memory/docker/77/memory.limit_in_bytes"),
    ],
    ids=["v2", "v1"],
)
def test_memory_limit_of_a_container(scripted, tmp_path, group, file):
    fill(
        tmp_path,
        **{
            "proc/meminfo": "MemTotal:       67108864 kB\n",
            "proc/self/cgroup": group,
            f"sys/fs/cgroup/{file}": str(512 * 2**20),
        },
    )
    found = {f.code: f for f in host.pinned_memory(scripted.evidence(root=tmp_path))}
    assert "512 MiB of 64 GiB" in found["container-memory"].seen


def test_gpu_far_from_the_processors_of_this_process(scripted, tmp_path, codes):
    folder = "sys/bus/pci/devices/0000:01:00.0"
    fill(tmp_path, **{f"{folder}/local_cpulist": "1000-1015,1032"})
    e = scripted.evidence(root=tmp_path)
    assert codes(host.numa, e) == {"numa-far": "warning"}
    fill(tmp_path, **{f"{folder}/local_cpulist": "0-1015"})
    assert codes(host.numa, e) == {}


def test_iommu_matters_between_gpus(scripted, tmp_path, codes):
    (tmp_path / "sys/kernel/iommu_groups/0").mkdir(parents=True)
    fill(tmp_path, **{"proc/cmdline": "quiet"})
    two = scripted.driver(devices=[scripted.device] * 2)
    assert codes(host.iommu, scripted.evidence(root=tmp_path, driver=two)) == {"iommu": "info"}
    assert codes(host.iommu, scripted.evidence(root=tmp_path)) == {}
    fill(tmp_path, **{"proc/cmdline": "iommu=pt quiet"})
    assert codes(host.iommu, scripted.evidence(root=tmp_path, driver=two)) == {}


SECRETS = {"CUDA_API_KEY": "hunter2", "NVIDIA_TOKEN": "hunter2", "HOME": "/home/someone"}


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach https://user:hunter2@host/path",
        "got token=hunter2",
        "API_KEY: hunter2 is wrong",
        "value hunter2 was refused",
    ],
)
def test_secrets_are_not_quoted(text):
    assert "hunter2" not in quote(text, SECRETS)


def test_quotes_are_short_and_without_paths():
    said = quote("ImportError: /opt/venv/lib/x/libfoo.so.1: cannot open\nsecond line", {})
    assert said == "ImportError: libfoo.so.1: cannot open"
    assert len(quote("x" * 5000, {})) < 250
    assert quote("", {}) == ""


def test_a_check_that_fails_is_a_finding_and_others_go_on(scripted):
    def broken(e):
        raise RuntimeError("oops")
        yield

    found = list(
        examine(scripted.evidence(), [Check(broken), Check(paths.two_cupys), Check(broken)])
    )
    assert [f.code for f in found] == ["check-failed-broken"] * 2
    assert {f.severity for f in found} == {"error"}


def test_checks_of_the_gpu_are_left_out_without_one(scripted, tmp_path):
    asked = []

    def note(e):
        asked.append(e)
        return ()

    none = scripted.driver(devices=())
    e = scripted.evidence(root=tmp_path, driver=type(none)("ok", facts={"no_library": "x"}))
    assert list(examine(e, [Check(note, needs_gpu=True)])) == []
    assert not asked
    list(examine(scripted.evidence(root=tmp_path), [Check(note, needs_gpu=True)]))
    assert asked
