"""Readiness from tables and from what probes found, without any machine."""

import json
from dataclasses import replace

import pytest

from pymicro.analysis import gate, readiness
from pymicro.analysis.readiness import Installed, for_machine, for_stack, parse_stack
from pymicro.devices.catalogue import catalogue
from pymicro.devices.finder import find
from pymicro.errors import UsageError
from pymicro.probes.child import Report
from pymicro.report.readiness import to_json
from pymicro.software.codes import parse_archs


def judged(card, stack):
    return for_stack(find(card).spec, parse_stack(stack))


def kinds(result):
    return {row.layer: row.kind for row in result.rows}


def test_a_new_card_on_old_software_is_impossible():
    result = judged("RTX 5090", "torch=2.6,cuda=12.4")
    assert result.verdict == "impossible"
    assert kinds(result) == {"cuda": "jit", "cublas": "unknown", "torch": "impossible"}
    assert "torch-no-image-sm120" in {f.id for f in result.faults}
    torch = next(r for r in result.rows if r.layer == "torch")
    assert "torch 2.7 for CUDA 12.8" in torch.do


def test_the_first_build_for_it_is_native_with_known_faults():
    result = judged("RTX 5090", "torch=2.7,cuda=12.8")
    assert result.verdict == "native"
    known = {f.id for f in result.faults}
    assert {"fp32-linear-slow-cu128", "cublas-batched-fp32-small-tile"} <= known
    assert "torch-no-image-sm120" not in known
    assert all(f.sources for f in result.faults)


def test_an_old_card_on_new_software_was_dropped():
    result = judged("P6000", "cuda=13.0")
    assert result.verdict == "dropped"
    assert result.rows[0].do == "use 12.9"
    assert result.headline == "dropped; use 12.9"
    (cupy,) = judged("P6000", "cupy=14,cuda=13.0").rows[1:]
    assert cupy.do == "use CUDA 12.9"
    assert judged("P6000", "cuda=12.9").verdict == "native"
    assert judged("P6000", "torch=2.11,cuda=12.6").verdict == "relative"
    assert judged("P6000", "torch=2.11,cuda=12.8").verdict == "impossible"


def test_all_builds_are_judged_where_no_cuda_is_named():
    result = judged("V100", "torch=2.10")
    found = {row.version: row.kind for row in result.rows}
    assert found == {
        "2.10 for CUDA 12.6": "native",
        "2.10 for CUDA 12.8": "native",
        "2.10 for CUDA 13.0": "impossible",
    }


@pytest.mark.parametrize(
    ("card", "stack", "kind"),
    [
        ("RTX 5090", "triton=3.2", "impossible"),
        ("RTX 5090", "triton=3.3", "native"),
        ("4090", "triton=3.2", "native"),
        ("T4", "triton=3.6", "unknown"),
        ("P6000", "cupy=14,cuda=12.9", "native"),
        ("P6000", "cupy=14,cuda=13.0", "dropped"),
        ("H100", "cupy=13,cuda=13.0", "impossible"),
        ("H100", "driver=570,cuda=13.0", "impossible"),
        ("H100", "driver=580.65,cuda=13.0", "native"),
        ("H100", "driver=535,cuda=12.8", "native"),
        ("L4", "torch=2.9,cuda=13.0", "relative"),
        ("A6000", "cuda=11.8", "native"),
        ("RTX 5090", "cuda=11.8", "jit"),
        ("RTX 5090", "numba=0.30,cuda=12.4", "jit"),
    ],
)
def test_single_layers(card, stack, kind):
    layer = {"numba": "numba-cuda"}.get(name := stack.split("=")[0], name)
    assert kinds(judged(card, stack))[layer] == kind


@pytest.mark.parametrize(
    ("stack", "word"),
    [
        ("torch", "no version"),
        ("torch=", "no version"),
        ("tourch=2.6", "did you mean torch"),
        ("torch=2.6,cuda=12.8", "it has 12.4, 12.6"),
        ("torch=9.9", "not in the table"),
        ("cuda=12.7", "not in the table"),
        ("triton=1.0", "not in the table"),
        ("", "unknown layer"),
        ("torch=2.6;cuda=12.4", "no version"),
    ],
)
def test_words_that_mean_nothing(stack, word):
    with pytest.raises(UsageError, match=word):
        judged("H100", stack)


def test_swapping_two_cards_swaps_their_verdicts():
    verdicts = {
        card: judged(card, "torch=2.6,cuda=12.4").verdict for card in ("RTX 5090", "RTX 4090")
    }
    assert verdicts == {"RTX 5090": "impossible", "RTX 4090": "relative"}


def test_every_card_has_a_verdict_on_every_build():
    """No combination of tables falls through."""
    from pymicro.software import stacks

    for spec in catalogue().values():
        for build in stacks.load().torch:
            result = for_stack(spec, {"torch": build.version, "cuda": build.cuda})
            assert result.verdict in ("native", "relative", "jit", "dropped", "impossible")
            json.dumps(to_json(result, None))


ABSENT = Report("ok", facts={"installed": False})


def installed(is_here=True, precision="highest", archs="sm_80 sm_90", **more):
    torch = {"version": "2.11.0+cu130", "cuda": "13.0", "archs": archs.split()}
    torch |= {"matmul_precision": precision, "cudnn": 91900}
    libraries = {
        "nvrtc": Report("ok", facts={"version": "13.0", "archs": ["sm_75", "sm_90", "sm_121"]}),
        "torch": Report("ok", facts=torch),
        "triton": Report("ok", facts={"version": "3.6.0"}),
        "cupy": Report("ok", facts={"version": "14.2.0", "nvrtc": [13, 0], "ran_on": "gpu"}),
        "numba": Report("ok", facts={"version": "0.68", "ran_on": "gpu"}),
    } | more
    assemblers = {"ptxas 12.9": parse_archs(["sm_80", "sm_90", "sm_90a"])}
    return Installed(libraries, assemblers, "580.95.05", (13, 0), is_here)


H200 = find("H200").spec


def test_this_machine_layer_by_layer():
    result = for_machine(H200, installed())
    assert result.verdict == "native"
    found = {r.layer: (r.kind, r.evidence) for r in result.rows}
    assert found == {
        "driver": ("native", "probe"),
        "nvrtc": ("native", "binary"),
        "torch": ("native", "binary"),
        "tf32": ("off", "probe"),
        "cuda": ("native", "table"),
        "cudnn": ("unknown", "probe"),
        "triton": ("native", "binary"),
        "cupy": ("native", "probe"),
        "numba": ("native", "probe"),
    }


def test_the_runtime_that_torch_brings_may_have_dropped_the_card():
    result = for_machine(find("P6000").spec, installed(archs="sm_61"))
    cuda = next(r for r in result.rows if r.layer == "cuda")
    assert (cuda.kind, cuda.do) == ("dropped", "use 12.9")
    assert cuda.seen.startswith("the runtime of torch")


def test_the_score_counts_layers_that_carry_code():
    broken = Report("error", "compile an empty kernel", "AttributeError", {"version": "0.68.0"})
    result = for_machine(H200, installed(numba=broken))
    of = [r.layer for r in result.rows if r.kind not in ("on", "off", "unknown")]
    assert result.score == (len(of) - 1, len(of))
    assert to_json(result, None)["score"] == {"native": len(of) - 1, "of": len(of)}


def test_code_of_the_libraries_under_torch_is_read_from_their_files():
    archs = parse_archs(["sm_80", "sm_90", "compute_120"])
    found = replace(installed(), binaries={"cudnn": archs, "nccl": archs[:1], "cublas": archs})
    rows = {r.layer: r for r in for_machine(H200, found).rows}
    assert (rows["cudnn"].kind, rows["cudnn"].evidence) == ("native", "binary")
    assert rows["cudnn"].version == "9.19.0"
    assert (rows["nccl"].kind, rows["nccl"].evidence) == ("impossible", "binary")
    assert "sm_80" in rows["nccl"].seen
    assert rows["cublas"].kind == "native"
    newer = for_machine(find("RTX 5090").spec, replace(found, is_here=False))
    assert {r.layer: r.kind for r in newer.rows}["cudnn"] == "jit"


def test_one_broken_library_does_not_condemn_the_card():
    """Its kernels fail; those of all the others run as before, and the headline says both."""
    broken = Report("error", "compile an empty kernel", "AttributeError", {"version": "0.68.0"})
    result = for_machine(H200, installed(numba=broken))
    assert result.verdict == "native"
    assert result.headline == "native; broken here: numba"
    none = for_machine(H200, installed(archs="sm_80"))
    assert none.headline == "impossible"


def test_the_same_software_on_another_card():
    result = for_machine(find("P6000").spec, installed(is_here=False))
    found = kinds(result)
    assert found["torch"] == found["nvrtc"] == found["cupy"] == "impossible"
    assert found["triton"] == "unknown"
    assert "driver" not in found
    newer = kinds(for_machine(find("RTX 5090").spec, installed(is_here=False)))
    assert newer["nvrtc"] == "jit"
    assert newer["torch"] == "impossible"


def test_libraries_that_are_absent_have_no_row():
    names = ("nvrtc", "torch", "triton", "cupy", "numba")
    result = for_machine(H200, installed(**dict.fromkeys(names, ABSENT)))
    assert set(kinds(result)) == {"driver"}
    cpu = Report("ok", facts={"version": "2.13.0+cpu", "cuda": None})
    row = next(r for r in for_machine(H200, installed(torch=cpu)).rows if r.layer == "torch")
    assert (row.kind, row.evidence) == ("impossible", "binary")


CRASHED = Report("crash", "import", "SIGSEGV", {"installed": True})


def test_a_library_that_fails_here_is_no_native_one():
    """Its list of architectures may be perfect; a crash before it told a version counts too."""
    failed = Report("error", "run an empty kernel", "x", {"version": "14.2.0", "nvrtc": [13, 0]})
    result = for_machine(H200, installed(cupy=failed, torch=CRASHED))
    assert kinds(result)["cupy"] == kinds(result)["torch"] == "broken"
    lines = gate.failures(gate.parse_requirements("native"), gate.Node(result))
    assert "cupy" in lines[0]
    assert "torch" in lines[0]


def test_a_driver_older_than_the_libraries():
    found = installed()
    old = Installed(found.libraries, found.assemblers, "535.54.03", (12, 2), is_here=True)
    row = for_machine(H200, old).rows[0]
    assert (row.layer, row.kind) == ("driver", "impossible")
    assert "torch (13.0)" in row.seen
    assert row.do == "install driver 580 or newer"


def node(**values):
    defaults = {"driver": (580, 95, 5), "driver_cuda": (13, 0), "link": (5, 16)}
    told = for_machine(H200, values.pop("installed", installed()))
    return gate.Node(told, **defaults | values)


@pytest.mark.parametrize(
    ("words", "changes", "why"),
    [
        ("native", {}, None),
        ("native", {"installed": installed(archs="sm_80 compute_80")}, "torch .* is jit"),
        ("relative", {"installed": installed(archs="sm_80 compute_80")}, "torch .* is jit"),
        ("jit", {"installed": installed(archs="sm_80 compute_80")}, None),
        ("jit", {"installed": installed(archs="sm_80")}, "torch .* is impossible"),
        ("tf32", {}, "does not use TF32"),
        ("tf32", {"installed": installed(precision="high")}, None),
        ("tf32", {"installed": installed(torch=ABSENT)}, "torch was not found"),
        ("link>=gen4x16", {}, None),
        ("link>=gen5x16", {"link": (4, 16)}, "generation 4 x16"),
        ("link>=gen4x16", {"link": (5, 8)}, "generation 5 x8"),
        ("link>=gen4x16", {"link": None}, "not known"),
        ("driver>=580", {}, None),
        ("driver>=580.95.06", {}, "580.95.5"),
        ("driver>=580", {"driver": None}, "not known"),
        ("cuda>=13.1", {}, "13.0"),
        ("gemm_fp16>=0.6", {"fractions": {"gemm_fp16": 0.66}}, None),
        ("gemm_fp16>=0.6", {"fractions": {"gemm_fp16": 0.5}}, "reaches 0.50"),
        ("gemm_fp16>=0.6", {}, "run pymicro gemm --dtype fp16"),
    ],
)
def test_requirements(words, changes, why):
    import re

    failed = gate.failures(gate.parse_requirements(words), node(**changes))
    assert bool(failed) == (why is not None), failed
    assert all(re.search(why or "", line) and line.startswith(words) for line in failed)


def test_a_node_of_which_nothing_is_known_passes_no_code_requirement():
    empty = gate.Node(readiness.Readiness("x", "", (9, 0), ()))
    assert len(gate.failures(gate.parse_requirements("native,relative,jit"), empty)) == 3


@pytest.mark.parametrize(
    "words",
    ["nativ", "", "native,", "link>=16", "link", "gemm_fp16>=60", "gemm_fp16", "driver>=x",
     "native>=2", "gemm_fp16>=nan", "tf32>=1"],
)  # fmt: skip
def test_requirements_that_mean_nothing(words):
    with pytest.raises(UsageError):
        gate.parse_requirements(words)


def test_best_stored_share_of_this_card_only():
    from pymicro.results import Result

    def result(seconds, key="h200_sxm_141gb", dtype="fp16", outcome="ok"):
        device = {"kind": "cuda", "key": key, "peak_ops_per_s": {dtype: 100.0}}
        more = {"times_s": (seconds,) * 5, "flop": 60} if outcome == "ok" else {"reason": "no"}
        return Result("gemm", "cuda", "x", dtype, device=device, outcome=outcome, **more)

    results = [result(1.0), result(0.8), result(0.1, key="other"), result(1, outcome="skipped")]
    assert gate.best_fractions(results, "h200_sxm_141gb") == {"gemm_fp16": pytest.approx(0.75)}
    assert gate.best_fractions(results, "") == {}
