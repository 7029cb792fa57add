"""What a job asks of a model: batch, length, output, beams, precision, records, epochs.

Two published experiments are rows here, and each of their settings says whether the publication
states it, whether it follows from what it states, or whether we assume it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pymicro.errors import UsageError
from pymicro.workloads.models import Model
from pymicro.workloads.precisions import precision
from pymicro.workloads.sizes import grown

Basis = Literal["stated", "inferred", "assumed"]


@dataclass(frozen=True)
class Setting:
    """One parameter of a published job, on what it rests, and why that value."""

    value: Any
    basis: Basis
    why: str


@dataclass(frozen=True)
class Job:
    """All parameters of one job of a model.

    Attributes:
        batch: sequences at once. length: tokens of each at the input.
        output: tokens that each sequence generates; 0 in training.
        beams: hypotheses a sequence; 1 is greedy.
        records: sequences in all. epochs: passes over them.
    """

    model: str
    batch: int
    length: int
    output: int = 0
    beams: int = 1
    records: int = 0
    epochs: int = 1
    precision: str = "fp32"
    attention: str = "sdpa"

    @property
    def batches(self) -> int:
        """Batches of one epoch; the last one may be smaller."""
        return -(-self.records // self.batch) if self.records else 1


SUMMARISE: Mapping[str, Setting] = {
    "batch": Setting(32, "assumed", "'in batches' is stated, the value is cut off; 1 is as likely"),
    "length": Setting(
        320, "inferred", "1,350 characters of one English sentence, 300 to 340 tokens"
    ),
    "output": Setting(200, "assumed", "the checkpoint's own summarising default: 200 at most"),
    "beams": Setting(4, "inferred", "no argument is passed, so the checkpoint's own: 4"),
    "records": Setting(100, "stated", "the same text 100 times"),
    "epochs": Setting(1, "stated", "each article once"),
    "precision": Setting("fp32", "inferred", "no dtype is passed, and TF32 is off by default"),
    "attention": Setting("eager", "inferred", "transformers of 2025 had no other for this model"),
}
FINE_TUNE: Mapping[str, Setting] = {
    "batch": Setting(32, "stated", "32 a device"),
    "length": Setting(128, "assumed", "not recovered; 512 is the model's limit"),
    "output": Setting(0, "stated", "training"),
    "beams": Setting(1, "stated", "training"),
    "records": Setting(7500, "stated", "about 7,500"),
    "epochs": Setting(5, "stated", "5 on the GPUs"),
    "precision": Setting("fp32", "inferred", "no half-precision flag is passed"),
    "attention": Setting("sdpa", "inferred", "the default of transformers for this model"),
}
PUBLISHED: Mapping[str, Mapping[str, Setting]] = {
    "t5-large": SUMMARISE,
    "distilbert": FINE_TUNE,
}
# The experiments, summarising also at the other ends of what its publication leaves open and what
# decides the shapes of its products: one article at once, and greedy.
EXPERIMENTS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "t5-large": ({}, {"batch": 1}, {"batch": 1, "beams": 1}),
    "distilbert": ({},),
}
# For models that no experiment fixes: enough to be typical, all assumed.
_GENERATE = {"batch": 1, "length": 128, "output": 64, "records": 1}
_TRAIN = {"batch": 32, "length": 128, "records": 32}


def settings(model: Model) -> Mapping[str, Setting]:
    """The published settings of a model's job, none if nobody published one."""
    return PUBLISHED.get(model.key, {})


def job(model: Model, **given: Any) -> Job:
    """A job of a model: what is given, else what was published, else what is usual.

    Raises:
        UsageError: a value that cannot be, or a sequence beyond what the model holds.
    """
    values: dict[str, Any] = dict(_GENERATE if model.task == "generate" else _TRAIN)
    values |= {name: setting.value for name, setting in settings(model).items()}
    values |= {name: value for name, value in given.items() if value is not None}
    wanted = Job(model=model.key, **values)
    _refuse(model, wanted)
    return wanted


# Beyond any data set, and far from where times stop being numbers.
_MOST = 10**9


def _refuse(model: Model, wanted: Job) -> None:
    for name in ("batch", "length", "beams", "records", "epochs", "output"):
        value = getattr(wanted, name)
        if value < 1 and name != "output":
            raise UsageError(f"{name} {value}: at least 1 makes a job.")
        if value > _MOST:
            raise UsageError(f"{name} {value}: 10^9 at most.")
    how = precision(wanted.precision)
    if model.task == "generate" and wanted.output < 1:
        raise UsageError(f"--output {wanted.output}: {model.key} generates at least 1 token.")
    if model.task == "train" and (wanted.output or wanted.beams > 1):
        raise UsageError(f"{model.key} is trained: --output and --beams mean nothing.")
    if why := how.why_no_training if model.task == "train" else how.why_no_generating:
        raise UsageError(why.format(model=model.key))
    _refuse_length(model, wanted)


def _refuse_length(model: Model, wanted: Job) -> None:
    if model.longest is None:
        return
    tokens = wanted.length + wanted.output
    if tokens > model.longest:
        parts = f"{wanted.length} + {wanted.output}" if wanted.output else f"{wanted.length}"
        raise UsageError(f"{model.key} holds {model.longest} positions, not {parts}.")


def sizes_of(model: Model, wanted: Job, past: int | None = None) -> dict[str, int]:
    """Values for the products in a trace, and `output` for `trace.runs_of`.

    Args:
        past: tokens in the cache before a decode step; None in other phases, where a decoder
            without an encoder works on the whole prompt at once.
    """
    first = 1 if model.is_encoder_decoder else wanted.length
    return {
        "batch": wanted.batch,
        "beams": wanted.beams,
        "length": wanted.length,
        **grown(first - 1 if past is None else past),
        "limit": first + wanted.output,
        "others": wanted.beams - 1,
        "output": wanted.output,
    }
