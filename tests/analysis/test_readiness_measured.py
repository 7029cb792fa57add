"""Readiness from stored measurements: invented results in, rows and sentences out."""

import io
import json
from dataclasses import replace

import pytest
from fakes import H200, RTX_4090, gemm_result

from pymicro.analysis.readiness import Readiness, Row, from_measured
from pymicro.analysis.readiness import measured as m
from pymicro.report.readiness import show, to_json
from pymicro.report.terminal import Terminal
from pymicro.results import Result, Verified
from pymicro.software.kernel_names import Written

HOPPER = (9, 0)
AMPERE_NAME = "ampere_sgemm_128x64_tn"
HOPPER_NAME = "nvjet_sm90_hss_320x128_64x3_1x2_coopB"
SMALL = {"m": 8, "n": 1024, "k": 1024, "layout": "nt", "path": "auto"}


def product(seconds, dtype="fp16", backend="torch", launched=(), params=SMALL, **changes):
    is_vendor = backend == "torch"
    details = {"study": "library", "is_vendor": is_vendor, "kernel": "" if is_vendor else backend}
    details |= {"torch": "2.11.0+cu130"} if is_vendor else {}
    details |= {"launched": [{"name": n, "calls": c, "seconds": s} for n, c, s in launched]}
    return gemm_result(
        seconds, backend=backend, variant="v", dtype=dtype, params=params, details=details,
        burst_s=(seconds,) * 5, times_s=(), flop=2 * 8 * 1024 * 1024, **changes,
    )  # fmt: skip


def by_path(seconds, path, dtype="fp16", **changes):
    params = {"m": 4096, "n": 4096, "k": 4096, "layout": "nt", "path": path}
    details = {"study": "generations", "kernel": f"{path}_{dtype}"}
    return gemm_result(
        seconds, backend="cuda", variant="fastest", dtype=dtype, params=params, details=details,
        **changes,
    )  # fmt: skip


def copied(path, seconds, **changes):
    return Result(
        "bandwidth", "cuda", path, "fp32", params={"op": "copy", "size": 2**30}, device=H200,
        bytes=2**31, times_s=(seconds,) * 3, details={"study": "generations"}, **changes,
    )  # fmt: skip


def without_times(result, reason):
    return replace(result, outcome="skipped", reason=reason, times_s=(), burst_s=())


def test_the_kernel_that_takes_the_time_names_the_generation():
    launched = [(AMPERE_NAME, 1, 8e-6), ("void splitKreduce_kernel<32>", 1, 2e-6)]
    (row,) = m.products([product(1e-5, launched=launched), product(5e-6, backend="cuda")], HOPPER)
    assert row.kernel.written == Written((8, 0), "ampere")
    assert row.kernel.behind == 1
    assert row.kernel.share == pytest.approx(0.8)
    assert row.gap == pytest.approx(2.0)
    assert row.best_by == "cuda"


def test_a_half_rate_library_is_named_with_its_kernel():
    """A card at 112 TFLOP/s where 200 were to be had, by an older generation's kernel."""
    size = {"m": 4096, "n": 4096, "k": 4096, "layout": "nt", "path": "auto"}
    flop = 2 * 4096**3
    slow = replace(
        product(flop / 112e12, launched=[(AMPERE_NAME, 1, 1e-3)], params=size), flop=flop
    )
    fast = replace(product(flop / 200e12, backend="cuda", params=size), flop=flop)
    (row,) = from_measured.rows(m.Measured(tuple(m.products([slow, fast], (12, 0)))), (12, 0))
    assert (row.layer, row.kind, row.evidence) == ("gemm fp16", "older", "profiler")
    assert "1 of 1 kernels written for 8.0 (ampere)" in row.seen
    assert "1.79 times slower" in row.seen


def test_a_library_that_refuses_says_why_and_has_no_gap():
    refused = without_times(product(1e-3), "needs m above 16.")
    (row,) = m.products([refused, product(1e-5, backend="cuda")], HOPPER)
    assert row.flop_per_s is None
    assert row.gap is None
    assert row.reason == "needs m above 16."
    (told,) = from_measured.rows(m.Measured((row,)), HOPPER)
    assert told.kind == "unknown"


def test_a_kernel_that_no_profiler_saw_is_unknown_and_no_claim():
    (row,) = from_measured.rows(m.Measured(tuple(m.products([product(1e-5)], HOPPER))), HOPPER)
    assert row.kind == "unknown"
    assert "no profiler" in row.seen


def test_generation_gap_in_a_sentence():
    results = [
        by_path(1e-3, "sm90"), by_path(2e-3, "sm80"), by_path(1.6e-3, "sm89"),
        by_path(4e-3, "sm75"), by_path(20e-3, "sm61"),
        by_path(1e-3, "sm90", "bf16"), by_path(2.5e-3, "sm80", "bf16"),
        without_times(by_path(1, "sm75", "bf16"), "no kernel."),
    ]  # fmt: skip
    rows = m.generations(results, HOPPER)
    fp16, bf16 = rows
    # Ada is Hopper's sister and no generation behind: the better of both is the own one.
    assert fp16.share(1) == pytest.approx(0.5)
    assert fp16.share(2) == pytest.approx(0.25)
    assert fp16.kernels[0] == "sm90_fp16"
    assert bf16.share(2) is None
    one, two = from_measured.gap_sentences(m.Measured(generations=tuple(rows)), HOPPER)
    assert one.startswith("software one generation behind reaches 45.0 % here")
    assert "fp16 50.0 %" in one
    assert "bf16 40.0 %" in one
    assert "two behind reaches 25.0 %" in two
    assert two.endswith("it has no bf16")


def test_software_that_is_behind_uses_the_newest_kernel_of_its_age():
    """No generation improved this kernel for a while: the older one is what there is."""
    results = [by_path(1e-3, "sm90"), by_path(2e-3, "sm80"), by_path(4e-3, "sm61")]
    (row,) = m.generations(results, HOPPER)
    assert row.share(2) == row.share(3) == pytest.approx(0.25)
    assert row.share(4) is None


def test_an_older_kernel_that_is_faster_does_not_stand_as_the_chips_own():
    results = [copied("sm90", 500e-6), copied("sm75", 498e-6)]
    told = Readiness(
        H200["name"], H200["key"], HOPPER, (), measured=m.measured(results, H200["key"], "", HOPPER)
    )
    out = io.StringIO()
    show(told, Terminal(out, width=160))
    (row,) = (line for line in out.getvalue().splitlines() if "copy fp32  " in line)
    assert row.split()[2:7] == ["4.295", "TB/s", "4.312", "TB/s", "(100.4"]


def test_another_chip_shifts_the_same_results():
    """What is one generation behind on Hopper is none on Ampere."""
    (row,) = m.generations([by_path(1e-3, "sm80"), by_path(3e-3, "sm75")], (8, 0))
    assert row.share(1) == pytest.approx(1 / 3)
    (row,) = m.generations([by_path(1e-3, "sm80"), by_path(3e-3, "sm75")], HOPPER)
    assert row.share(1) is None  # Nothing here is written for it: no share of nothing.
    (said,) = from_measured.gap_sentences(m.Measured(generations=(row,)), HOPPER)
    assert said == "fp16: no kernel here is written for hopper; the newest is one generation behind"


def test_first_use_stands_apart_from_the_steady_state():
    """A first launch of 90 s and later ones of 5 ms are never averaged."""

    def loaded(variant, seconds, first):
        params = {"m": 1, "n": 1, "k": 1, "layout": "nt", "path": "sm80"}
        details = {"study": "first use", "kernel": "sm80_fp16", "code": "compute_80"}
        details |= {"first_use_s": first}
        return gemm_result(seconds, backend="cuda", variant=variant, params=params, details=details)

    pair = [loaded("cubin", 5e-3, [1e-3, 1e-3, 1e-3]), loaded("ptx", 5e-3, [90.0, 60.0, 60.0])]
    (found,) = m.first_uses(pair)
    assert (found.code_s, found.ptx_s, found.ptx_again_s) == (1e-3, 90.0, 60.0)
    assert found.steady == pytest.approx(1.0)
    assert m.first_uses(pair[:1]) == []


def switched(value, seconds, error, is_default=False):
    return Result(
        "flags", "torch", value, "fp16", params={"m": 8, "n": 8, "k": 8, "flag": "f"},
        device=H200, verified=Verified("float64", error, 1.0), times_s=(seconds,) * 3,
        details={"study": "flags", "is_default": is_default}, run_id="r",
    )  # fmt: skip


def test_a_switch_beside_the_default():
    (found,) = m.switches([switched("False", 2e-3, 1e-4, True), switched("True", 1e-3, 4e-4)])
    assert (found.value, found.default) == ("True", "False")
    assert found.speedup == pytest.approx(2.0)
    (said,) = from_measured.switch_sentences([found])
    assert "f = True (fp16): 2.00 to 2.00 times as fast as False, error 4 times" in said
    assert m.switches([switched("True", 1e-3, 4e-4)]) == []


def tried(way, dtype="fp16", kernels=(), reason=None):
    params = {"batch": 1, "heads": 2, "queries": 8, "keys": 8, "width": 64, "has_bias": True}
    common = dict(params=params, device=H200, run_id="r")
    if reason:
        return Result("attention", "torch", way, dtype, outcome="skipped", reason=reason,
                      details={"study": "attention"}, **common)  # fmt: skip
    return Result("attention", "torch", way, dtype, times_s=(1e-5,) * 3,
                  details={"study": "attention", "kernels": list(kernels)}, **common)  # fmt: skip


def test_ways_to_attention():
    results = [
        tried(
            "flash",
            reason="; ".join(
                (
                    "Memory Efficient attention has been runtime disabled.",
                    "Flash Attention does not support non-null attn_mask.",
                    "cuDNN attention has been runtime disabled.",
                )
            ),
        ),
        tried("efficient", kernels=["fmha_cutlassF_f16_aligned_64x64_rf_sm80(Params)"]),
        tried("cudnn", kernels=["cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16"]),
    ]
    found = m.Measured(attentions=tuple(m.attentions(results, HOPPER)))
    flash, efficient, cudnn = from_measured.rows(found, HOPPER)
    assert (flash.kind, flash.evidence) == ("unavailable", "probe")
    assert flash.seen == "Flash Attention does not support non-null attn_mask"
    assert (efficient.kind, efficient.evidence) == ("older", "profiler")
    assert cudnn.kind == "native"
    told = Readiness("x", "", HOPPER, (flash, efficient, cudnn))
    assert told.headline == "unknown"  # A way that nobody takes unasked is no news for the card.
    taken = replace(efficient, layer="attention default")
    assert "attention default" in replace(told, rows=(taken,)).headline


def test_only_the_newest_run_of_this_card_counts():
    old = product(1e-3, run_id="run1", launched=[(AMPERE_NAME, 1, 1e-3)])
    new = product(1e-5, run_id="run2", launched=[(HOPPER_NAME, 1, 1e-5)])
    other = product(1e-7, run_id="run3", device=RTX_4090)
    plain = replace(product(1e-9, run_id="run4"), details={})
    found = m.measured([old, new, other, plain], H200["key"], H200["name"], HOPPER)
    (row,) = found.products
    assert row.kernel.written.chip == HOPPER
    assert m.measured([old], "", H200["name"], HOPPER).products
    assert not m.measured([old], "rtx_4090", H200["name"], HOPPER).products


def test_the_switch_that_is_off_says_what_it_would_bring():
    results = [
        product(4e-5, "fp32", launched=[(AMPERE_NAME, 1, 4e-5)]),
        product(1e-5, "tf32", launched=[(HOPPER_NAME, 1, 1e-5)]),
    ]
    told = Readiness(H200["name"], H200["key"], HOPPER, (
        Row("torch", "2.11", "native", "binary", "has code"),
        Row("tf32", "2.11", "off", "probe", "is 'highest'"),
    ))  # fmt: skip
    full = from_measured.with_measured(told, results)
    tf32 = next(row for row in full.rows if row.layer == "tf32")
    assert "4.00 to 4.00 times as fast" in tf32.seen
    assert tf32.evidence == "profiler"
    assert {r.layer: r.kind for r in full.rows}["gemm fp32"] == "older"
    assert {r.layer: r.version for r in full.rows}["gemm fp32"] == "2.11.0+cu130"
    assert full.verdict == "native"
    assert full.headline == "native; kernels of an earlier generation: gemm fp32"
    out = io.StringIO()
    show(full, Terminal(out, width=160))
    assert "ampere_sgemm_128x64_tn" in out.getvalue()
    document = json.loads(json.dumps(to_json(full, None)))
    assert len(document["measured"]["products"]) == 2


def test_what_nobody_measured_is_said_with_the_way_to_do_it():
    torch = Row("torch", "2.11", "native", "binary", "has code")
    told = Readiness(H200["name"], H200["key"], HOPPER, (torch,))
    unseen = {r.layer: r.do for r in from_measured.with_measured(told, []).rows[1:]}
    assert unseen == {
        "gemm": "pymicro readiness --measure library",
        "gemm fp8_e4m3": "pymicro readiness --measure library --dtype fp8",
        "attention": "pymicro readiness --measure attention",
        "torch.compile": "pymicro readiness --measure compile",
    }
    seen = from_measured.with_measured(told, [product(4e-5, "fp32")])
    assert "gemm" not in {r.layer for r in seen.rows}
    assert "gemm fp8_e4m3" in {r.layer for r in seen.rows}
    cannot = replace(told, rows=(replace(torch, kind="impossible"),))
    assert from_measured.with_measured(cannot, []).rows == cannot.rows


def test_copies_of_an_earlier_run_stay_where_the_last_one_ended_before_them():
    by_run = [
        replace(by_path(1e-3, "sm90", "fp32"), run_id="run1"),
        copied("sm90", 1e-3, run_id="run1"),
        copied("sm75", 2e-3, run_id="run1"),
        replace(by_path(2e-3, "sm90", "fp32"), run_id="run2"),
    ]
    found = m.measured(by_run, H200["key"], H200["name"], HOPPER).generations
    assert {row.what for row in found} == {"fp32", "copy fp32"}
    copy = next(row for row in found if row.what == "copy fp32")
    assert copy.share(1) == pytest.approx(0.5)


def test_compiling():
    def block(variant, seconds, count):
        kernels = [*["k"] * count, "Memset (Device)"]  # A fill is no kernel.
        details = {"study": "compile", "kernels": kernels, "compile_s": 12.0, "host_s": seconds / 2}
        return Result("compile", "torch", variant, "fp16", params={"rows": 1}, device=H200,
                      times_s=(seconds,), details=details, run_id="r")  # fmt: skip

    found = m.measured(
        [block("eager", 2e-4, 5), block("compiled", 1e-4, 3)], H200["key"], "", HOPPER
    )
    (row,) = from_measured.rows(found, HOPPER)
    assert row.seen == (
        "5 kernels a block become 3, 2.00 times as fast on the device, the host needs 50.0 µs a "
        "call instead of 100 µs; 12 s to compile"
    )
    unseen = m.measured(
        [block("eager", 2e-4, 0), block("compiled", 1e-4, 0)], H200["key"], "", HOPPER
    )
    (row,) = from_measured.rows(unseen, HOPPER)
    assert row.seen.startswith("2.00 times as fast")  # No profiler: a time, and no count of zero.
    failed = Result("compile", "torch", "compiled", "fp16", device=H200, outcome="skipped",
                    reason="no C compiler", details={"study": "compile"})  # fmt: skip
    (row,) = from_measured.rows(m.measured([failed], H200["key"], "", HOPPER), HOPPER)
    assert (row.kind, row.seen) == ("broken", "no C compiler")
