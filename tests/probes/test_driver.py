"""Absent, no access, broken, too old: each its own diagnosis, from a library that really loads."""

import os

import pytest

from pymicro.probes import Check, Evidence, driver, examine
from pymicro.probes.child import Report


def diagnose(env, root, **given):
    findings = list(driver.driver(Evidence(env=env, root=root, timeout_s=20, given=given)))
    assert len(findings) == 1
    return findings[0]


@pytest.fixture
def bare(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return root


def loaded_kernel_module(root):
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text("NVRM version: Kernel Module  580.95.05")


def test_nothing_there_is_no_fault(bare):
    found = diagnose({"PATH": ""}, bare)
    assert (found.code, found.severity) == ("no-gpu", "info")


def test_a_plugged_in_card_without_driver_is(bare):
    card = bare / "sys/bus/pci/devices/0000:01:00.0"
    card.mkdir(parents=True)
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030200\n")
    found = diagnose({"PATH": ""}, bare)
    assert (found.code, found.severity) == ("driver-absent", "error")
    assert "0000:01:00.0" in found.seen


def test_container_without_gpu_access(bare):
    loaded_kernel_module(bare)
    (bare / ".dockerenv").touch()
    found = diagnose({"PATH": ""}, bare)
    assert found.code == "container-no-gpu"
    assert found.severity == "error"
    assert "--gpus all" in found.do


def test_an_image_that_asks_for_a_gpu_on_a_host_without_one(bare):
    (bare / ".dockerenv").touch()
    found = diagnose({"PATH": "", "NVIDIA_VISIBLE_DEVICES": "all"}, bare)
    assert (found.code, found.severity) == ("container-no-gpu", "warning")
    assert diagnose({"PATH": "", "NVIDIA_VISIBLE_DEVICES": "void"}, bare).code == "no-gpu"


def test_library_that_shows_no_device_is_no_access(stub_driver, bare):
    loaded_kernel_module(bare)
    found = diagnose(stub_driver(init=100), bare)
    assert (found.code, found.severity) == ("driver-no-access", "error")
    assert "/dev/nvidia0 is missing" in found.seen


def test_library_without_any_hardware_only_warns(stub_driver, bare):
    assert diagnose(stub_driver(init=100), bare).severity == "warning"


@pytest.mark.parametrize(
    ("code", "name", "word"),
    [
        (34, "driver-stub", "stubs"),
        (35, "driver-too-old", "580"),
        (101, "mask-wrong", "CUDA_VISIBLE_DEVICES"),
        (803, "driver-mismatch", "reload"),
        (804, "driver-compat-refused", "host"),
        (999, "driver-unknown-error", "reload"),
        (3, "driver-start-failed", "dmesg"),
    ],
)
def test_each_error_of_the_driver_has_its_remedy(stub_driver, bare, code, name, word):
    found = diagnose(stub_driver(init=code), bare)
    assert (found.code, found.severity) == (name, "error")
    assert word in found.do


def test_error_35_has_three_causes_that_are_told_apart(stub_driver, bare, scripted):
    """No driver, no access to the GPU, and a driver of CUDA 12.2 under libraries for 13.0."""
    loaded_kernel_module(bare)
    torch = Report("ok", facts={"version": "2.11.0+cu130", "cuda": "13.0", "is_available": False})

    def errors(env):
        e = scripted.evidence(root=bare, env=env, torch=torch)
        e.given = {n: r for n, r in e.given.items() if n != "driver"}
        checks = [Check(driver.driver), Check(driver.libraries_against_driver, needs_gpu=True)]
        return {f.code: f.do for f in examine(e, checks) if f.severity == "error"}

    absent = errors({"PATH": ""})
    refused = errors(stub_driver(init=100, version=13000))
    old = errors(stub_driver(version=12020, count=1))
    assert [list(found) for found in (absent, refused, old)] == [
        ["driver-absent"],
        ["driver-no-access"],
        ["driver-too-old"],
    ]
    assert "driver 580 or newer" in old["driver-too-old"]


@pytest.mark.parametrize(
    ("card", "why"),
    [("NVIDIA GeForce RTX 4090", "data-centre cards only"), ("NVIDIA H200", "older or newer")],
)
def test_compatibility_package_on_two_classes_of_card(bare, scripted, fake_nvml, card, why):
    fake_nvml._nvmlDeviceGetName = lambda handle: card
    e = scripted.evidence(root=bare, nvml=fake_nvml, driver=scripted.driver(init=804, devices=()))
    (found,) = driver.driver(e)
    assert found.code == "driver-compat-refused"
    assert card in found.seen
    assert why in found.why


def test_working_driver(stub_driver, bare):
    found = diagnose(stub_driver(count=1), bare, nvml=Report("ok", facts={"installed": False}))
    assert (found.code, found.severity) == ("driver-ok", "info")
    assert "CUDA up to 13.0" in found.seen
    assert "NVIDIA H200, compute capability 9.0" in found.seen
    assert "may be used" in found.why
    gaming = diagnose(
        stub_driver(count=1, name="NVIDIA GeForce RTX 5090", cc=(12, 0)),
        bare,
        nvml=Report("ok", facts={"installed": False}),
    )
    assert "may not be used" in gaming.why


def test_driver_that_brings_its_process_down(stub_driver, bare):
    found = diagnose(stub_driver(dies=1), bare)
    assert (found.code, found.severity) == ("driver-crash", "error")
    assert "SIGABRT" in found.seen
    assert "initialise" in found.seen


def test_mask_that_hides_all_is_not_lack_of_access(scripted, bare):
    e = scripted.evidence(
        root=bare,
        env={"CUDA_VISIBLE_DEVICES": "-1"},
        driver=scripted.driver(init=100, devices=()),
        unmasked_driver=scripted.driver(),
    )
    (found,) = driver.driver(e)
    assert (found.code, found.severity) == ("gpus-hidden", "info")


UUIDS = ("GPU-ab11-x", "GPU-ab22-x")


@pytest.mark.parametrize(
    ("value", "stops_at"),
    [
        ("0,1", None),
        ("1", None),
        ("GPU-ab1", None),
        ("GPU-ab", "GPU-ab"),
        ("MIG-1234", None),
        ("", None),
        ("-1", None),
        ("0,-1,1", "-1"),
        ("0,0", "0"),
        ("x", "x"),
        ("7", "7"),
    ],
)
def test_masks(scripted, fake_nvml, fake_gpu, value, stops_at):
    fake_nvml.gpus = [fake_gpu(uuid=u) for u in UUIDS]
    e = scripted.evidence(env={"CUDA_VISIBLE_DEVICES": value}, nvml=fake_nvml)
    found = [f for f in driver.mask(e) if f.code == "mask-stops"]
    assert bool(found) == (stops_at is not None)
    assert all(f"at '{stops_at}'" in f.seen for f in found)


def built(cuda, **facts):
    return Report("ok", facts={"installed": True, "version": "1", "cuda": cuda, **facts})


def test_libraries_newer_than_the_driver_are_named_with_the_branch(scripted):
    e = scripted.evidence(
        driver=scripted.driver(cuda=12020),
        torch=built("13.0"),
        cupy=built(12090),
        nvrtc=built(13050),
    )
    (found,) = driver.libraries_against_driver(e)
    assert (found.code, found.severity) == ("driver-too-old", "error")
    assert "torch (13.0)" in found.seen
    assert "nvrtc (13.5)" in found.seen
    assert "cupy" not in found.seen  # Minor versions of one major number get along.
    assert "driver 580 or newer" in found.do


def test_libraries_within_the_drivers_major_version_pass(scripted):
    e = scripted.evidence(torch=built("13.2"), cupy=built(12090))
    (found,) = driver.libraries_against_driver(e)
    assert (found.code, found.severity) == ("driver-new-enough", "info")
    assert found.seen.endswith("new enough for cupy (12.9), torch (13.2)")
    assert list(driver.libraries_against_driver(scripted.evidence())) == []


def test_ptx_newer_than_the_driver(scripted):
    """Driver 12.2 with toolkit 12.4: Numba's PTX is refused, machine code is fine."""
    e = scripted.evidence(
        driver=scripted.driver(cuda=12020),
        numba=built(None, ptx="8.4"),
        cupy=built(12040, nvrtc=[12, 4]),
        torch=built("12.4"),
    )
    found = {f.code: f for f in driver.ptx(e)}
    assert found["numba-ptx-too-new"].severity == "error"
    assert "error 222" in found["numba-ptx-too-new"].why
    assert found["cupy-ptx-too-new"].severity == "info"
    assert "machine code" in found["cupy-ptx-too-new"].seen
    assert [f.severity for f in driver.libraries_against_driver(e)] == ["info"]


def test_ptx_that_the_driver_reads(scripted, codes):
    e = scripted.evidence(numba=built(None, ptx="9.0"))
    assert codes(driver.ptx, e) == {"numba-ptx-ok": "info"}


def test_this_machine_has_exactly_one_diagnosis():
    found = diagnose(dict(os.environ), Evidence().root)
    assert found.seen
