"""The CPU from a made-up /proc and /sys: cores that may be used, caches, and honest peaks."""

from __future__ import annotations

import sys

import pytest

from pymicro.devices.cpu import describe_cpu

ZEN_3 = "fpu sse4_2 fma f16c avx avx2"
SAPPHIRE = "fpu fma avx avx2 avx512f avx512_fp16 avx512_bf16 amx_bf16 amx_tile amx_int8"


@pytest.fixture
def build(tmp_path):
    """Writes files under a root; keys are paths."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def cpuinfo(vendor="AuthenticAMD", family=25, model=1, flags=ZEN_3):
    block = (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: Some CPU\nflags\t\t: {flags}\n"
    )
    return block + "\n" + block.replace("processor\t: 0", "processor\t: 1")


def cpu_files(count, threads_per_core=1, khz=None):
    files = {}
    for cpu in range(count):
        base = f"sys/devices/system/cpu/cpu{cpu}"
        core = cpu // threads_per_core * threads_per_core
        files[f"{base}/topology/core_cpus_list"] = f"{core}-{core + threads_per_core - 1}\n"
        caches = [(1, "Data", "32K", cpu), (2, "Unified", "512K", cpu), (3, "Unified", "32M", 0)]
        for i, (level, kind, size, _) in enumerate(caches):
            shared = "0-3" if level == 3 and cpu < 4 else "4-7" if level == 3 else str(cpu)
            files |= {
                f"{base}/cache/index{i}/level": str(level),
                f"{base}/cache/index{i}/type": kind,
                f"{base}/cache/index{i}/size": size,
                f"{base}/cache/index{i}/shared_cpu_list": shared,
            }
        if khz:
            files[f"{base}/cpufreq/cpuinfo_max_freq"] = f"{khz}\n"
    return files


def test_zen_3_with_a_known_clock(build):
    root = build({"proc/cpuinfo": cpuinfo(), **cpu_files(8, khz=3_500_000)})
    cpu = describe_cpu(root, usable=set(range(8)))
    assert (cpu.core, cpu.physical_cores, cpu.logical_cores) == ("Zen 3", 8, 8)
    assert cpu.peak_ops_per_s("fp32") == 8 * 32 * 3.5e9
    assert cpu.peak_ops_per_s("fp64") == 8 * 16 * 3.5e9
    assert cpu.peak_ops_per_s("fp64_tensor") == 0
    assert (cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes) == (32 * 1024, 512 * 1024, 2 * 32 * 2**20)
    assert cpu.last_level_cache_bytes == 64 * 2**20


def test_affinity_and_hyperthreads(build):
    root = build({"proc/cpuinfo": cpuinfo(), **cpu_files(8, threads_per_core=2)})
    cpu = describe_cpu(root, usable={0, 1, 2})
    assert (cpu.logical_cores, cpu.physical_cores) == (3, 2)
    assert cpu.l3_bytes == 32 * 2**20


def test_a_virtual_machine_without_clock_has_a_rate_but_no_peak(build):
    root = build({"proc/cpuinfo": cpuinfo(flags=ZEN_3 + " hypervisor"), **cpu_files(2)})
    cpu = describe_cpu(root, usable={0, 1})
    assert cpu.virtual
    assert cpu.peak_ops_per_s("fp32") is None
    assert cpu.peak_ops_per_s("fp32", clock_hz=2e9) == 2 * 32 * 2e9


@pytest.mark.parametrize(
    ("flags", "fp32", "bf16"),
    [(SAPPHIRE, 64, 1024), ("fma avx2 avx512f", 64, None), ("avx2", 32, None)],
)
def test_only_what_the_cpu_reports_counts(build, flags, fp32, bf16):
    root = build({"proc/cpuinfo": cpuinfo("GenuineIntel", 6, 143, flags)})
    cpu = describe_cpu(root, usable={0})
    assert cpu.ops_per_clk("fp32") == fp32
    assert cpu.ops_per_clk("bf16_tensor_fp32_acc") == bf16


@pytest.mark.parametrize("model", [85, 250])
def test_a_core_with_unsure_units_gets_no_peak(build, model):
    root = build({"proc/cpuinfo": cpuinfo("GenuineIntel", 6, model, SAPPHIRE)})
    cpu = describe_cpu(root, usable={0})
    assert cpu.core == ""
    assert cpu.peak_ops_per_s("fp32", clock_hz=1e9) is None


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
          "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/x\n",
          "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "250000\n",
          "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 2.5),
        ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_quota_of_the_control_group(build, files, quota):
    cpu = describe_cpu(build({"proc/cpuinfo": cpuinfo(), **files}), usable={0, 1})
    assert cpu.quota_cores == quota
    assert cpu.cores == min(2, quota or 2)


def test_memory_is_limited_by_the_control_group(build):
    files = {"proc/meminfo": "MemTotal:       65536 kB\n", "sys/fs/cgroup/memory.max": "1048576\n"}
    assert describe_cpu(build(files), usable={0}).memory_bytes == 1048576


def test_nothing_readable_still_describes(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymicro._native", None)
    cpu = describe_cpu(tmp_path, usable={0, 1})
    assert (cpu.physical_cores, cpu.simd, cpu.l3_bytes, cpu.memory_bytes) == (2, (), None, None)


def test_this_machine():
    assert describe_cpu().logical_cores >= 1
