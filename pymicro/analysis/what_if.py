"""Counterfactuals: the same job with one thing changed, simulated anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pymicro.analysis.cases import Case, changed
from pymicro.analysis.predict import Prediction, predict
from pymicro.analysis.primitives import Primitives
from pymicro.errors import PymicroError, Unavailable, UsageError, unknown
from pymicro.workloads.precisions import PRECISIONS


@dataclass(frozen=True)
class Outcome:
    """What a change makes of a job: the prediction with it, or why there is none."""

    word: str
    what: str
    prediction: Prediction | None
    why_not: str = ""


Change = Callable[[Case, Primitives, str], tuple[Case, Primitives]]


@dataclass(frozen=True)
class Remedy:
    """One word of `--what-if`: what it does, and whether it takes a value after `=`."""

    what: str
    apply: Change
    value: str = ""


def _precision(name: str) -> Change:
    def apply(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
        row = PRECISIONS[name]
        if row.autocasts and case.trace.task != "train":
            return changed(case, {"precision": row.products}), p
        if row.allows_tf32 and not p.peak_flop_per_s.get("tf32"):
            raise Unavailable(f"{p.name} has no TF32.")
        return changed(case, {"precision": name}), p

    return apply


def _number(name: str) -> Change:
    def apply(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
        if not value.isdecimal() or int(value) < 1:
            raise UsageError(f"--what-if {name}={value}: a whole number from 1 on.")
        from pymicro.workloads.jobs import job

        j = case.job
        given = {f: getattr(j, f) for f in ("batch", "length", "output", "beams", "records",
                                            "epochs", "precision", "attention")}  # fmt: skip
        wanted = job(case.model, **given | {name: int(value)})
        return changed(case, {name: getattr(wanted, name)}), p

    return apply


def _attention(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
    if value not in ("sdpa", "eager"):
        raise UsageError(f"--what-if attn={value}: sdpa or eager.")
    return changed(case, {"attention": value}), p


def _graphs(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
    return replace(case, graphs=True), p


def _compile(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
    return replace(case, fused=True), p


def _host(case: Case, p: Primitives, value: str) -> tuple[Case, Primitives]:
    return case, replace(p, host=p.host.faster(factor(value)))


REMEDIES: dict[str, Remedy] = {
    "tf32": Remedy("FP32 products on the matrix unit", _precision("tf32")),
    "amp": Remedy("autocast to FP16 (in generation: all of it in FP16)", _precision("amp_fp16")),
    "fp16": Remedy("everything in FP16", _precision("fp16")),
    "bf16": Remedy("everything in BF16", _precision("bf16")),
    "fp32": Remedy("everything in FP32, matrix units off", _precision("fp32")),
    "batch": Remedy("another batch", _number("batch"), "N"),
    "length": Remedy("another length", _number("length"), "N"),
    "output": Remedy("more or fewer tokens", _number("output"), "N"),
    "beams": Remedy("more or fewer beams", _number("beams"), "N"),
    "attn": Remedy("another attention", _attention, "sdpa|eager"),
    "graphs": Remedy("CUDA graphs: the host asks once a phase", _graphs),
    "compile": Remedy(
        "a compiler: chains between products become one kernel, replayed from a graph", _compile
    ),
    "host": Remedy("a host that is N times as fast", _host, "Nx"),
}


def factor(word: str) -> float:
    """The number in `2x` or `1.5`.

    Raises:
        UsageError: it is none, or not above zero.
    """
    try:
        value = float(word.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 100:
        raise UsageError(f"'{word}' is no factor; write 2x for a host twice as fast.")
    return value


def parse(text: str) -> list[tuple[str, str]]:
    """Words and their values of a list like `tf32,batch=64,host=2x`.

    Raises:
        UsageError: an unknown word, a value missing or too much.
    """
    found = []
    for item in text.split(","):
        word, _, value = item.strip().partition("=")
        if word not in REMEDIES:
            raise unknown("change", word, REMEDIES)
        wants = REMEDIES[word].value
        if bool(wants) != bool(value):
            told = f"needs a value, {word}={wants}" if wants else "takes no value"
            raise UsageError(f"--what-if {word} {told}.")
        found.append((word, value))
    return found


def applied(case: Case, p: Primitives, word: str, value: str) -> tuple[Case, Primitives]:
    """A case and a device with one change.

    Raises:
        Unavailable: there is no trace of it, or the device cannot do it.
    """
    return REMEDIES[word].apply(case, p, value)


def outcomes(case: Case, p: Primitives, words: list[tuple[str, str]]) -> Iterator[Outcome]:
    """Each change on its own; one that has no trace says so and does not stop the others."""
    for word, value in words:
        text = f"{word}={value}" if value else word
        what = REMEDIES[word].what
        try:
            other, primitives = applied(case, p, word, value)
            yield Outcome(text, what, predict(other, primitives))
        except UsageError:
            raise
        except PymicroError as error:
            yield Outcome(text, what, None, str(error))
