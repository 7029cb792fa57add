"""Records a job's trace on fake tensors, at two sets of sizes that must tell the same story."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any
from unittest import mock

from pymicro.e2e import build, generating, training
from pymicro.e2e.generating import Enough, Generating
from pymicro.e2e.recorder import Recorder, RecordingError
from pymicro.e2e.training import Training
from pymicro.workloads.models import Model
from pymicro.workloads.sizes import grown
from pymicro.workloads.trace import UNLESS, Operator, Phase, Trace

# None divides a product of a model's own sizes. Lengths are multiples of 32, to which an attention
# kernel pads a result; a decoder has any number of tokens behind it, so `keys` is odd, and such
# that padding it brings in a prime of its own.
FIRST = {"batch": 7, "beams": 11, "others": 10, "length": 416, "limit": 487, **grown(148)}
SECOND = {"batch": 17, "beams": 15, "others": 14, "length": 352, "limit": 425, **grown(228)}
# Tensors of a batch of one need fewer copies: what is not there is found by a third recording.
_ALONE = {**FIRST, "batch": 1}
_RUNS = {"decode": "output-1"}


def record(
    row: Model,
    precision: str,
    attention: str,
    device: str,
    beams: int = 1,
    *,
    tiny: bool = False,
    fake: bool = True,
) -> Trace:
    """The trace of a model's job on the kind of device that `device` is.

    Args:
        beams: 1 is greedy, any other number a beam search.
        fake: tensors without memory, so that seconds suffice; real ones dispatch the same and
            are there to show it.

    Raises:
        RecordingError: the two recordings differ, or the job reads numbers that it computed.
    """
    (first, parameters), (second, _), (alone, _) = (
        _phases(row, precision, attention, device, beams, sizes, tiny, fake)
        for sizes in (FIRST, SECOND, _ALONE)
    )
    for phase in first:
        _refuse_difference(phase, first[phase], second[phase])
        first[phase] = _marked(phase, first[phase], alone[phase])
    start = "1" if row.is_encoder_decoder else "length"
    return Trace(
        model=row.key,
        task=row.task,
        precision=precision,
        attention=attention,
        device="cuda" if device.startswith("cuda") else "cpu",
        software=software(device),
        recorded_at=FIRST,
        parameters=parameters,
        phases=tuple(
            Phase(name, _RUNS.get(name, "1"), operators, name == "decode", start)
            for name, operators in first.items()
        ),
        search="" if row.task == "train" else "greedy" if beams == 1 else "beam",
    )


def software(device: str = "cpu") -> dict[str, str]:
    """What a trace depends on: versions, and the GPU's capability, by which attention goes."""
    import torch
    import transformers

    found = {"torch": torch.__version__, "transformers": transformers.__version__}
    if device.startswith("cuda"):
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability(device)))
    return found


def _phases(
    row: Model,
    precision: str,
    attention: str,
    device: str,
    beams: int,
    sizes: Mapping[str, int],
    tiny: bool,
    fake: bool,
) -> tuple[dict[str, tuple[Operator, ...]], int]:
    """Operators of each phase, and how many weights there are."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext(), _taken_for_real():
        model = build.build(row, precision, attention, device, tiny=tiny)
        if row.task == "train":
            heard = _train(model, precision, device, sizes)
        else:
            heard = _generate(model, row, device, beams, sizes)
        return heard, sum(weight.numel() for weight in model.parameters())


@contextmanager
def _taken_for_real() -> Iterator[None]:
    """Inside, transformers treats fake tensors as real ones.

    It would take them for a graph's tracing and keep attention masks that it drops in a real run
    when nothing is padded.
    """
    from transformers.utils import import_utils

    with mock.patch.object(import_utils, "is_fake_tensor", return_value=False):
        yield


def _train(
    model: Any, precision: str, device: str, sizes: Mapping[str, int]
) -> dict[str, tuple[Operator, ...]]:
    """The second step: the first one also makes the optimiser's states."""
    own = {name: sizes[name] for name in ("batch", "length")}
    recorder = Recorder(device, own)
    job = Training(model, precision, device)
    batch = training.host_batch(own["batch"], own["length"], model.config.vocab_size, pinned=False)
    listener = _Listener(recorder)
    with recorder, recorder.naming(model):
        job.step(batch)
        job.step(batch, listener.at)
        listener.at("end")
    return listener.heard


def _generate(
    model: Any, row: Model, device: str, beams: int, sizes: Mapping[str, int]
) -> dict[str, tuple[Operator, ...]]:
    """Two runs: one to its first step, one whose first step leaves a cache of `past` tokens."""
    first = 1 if row.is_encoder_decoder else sizes["length"]
    own = {name: sizes[name] for name in ("batch", "length", "limit")}
    if beams > 1:
        own |= {name: sizes[name] for name in ("beams", "others")}
    after = {} if row.is_encoder_decoder else {"next": first + 1}
    heard = _run(model, device, {**own, **after}, sizes["length"], first, None, until=1)
    decode = {**own, **{name: sizes[name] for name in grown(0)}}
    if row.is_encoder_decoder:
        # The start token comes before those that it is given.
        behind = sizes["past"] - 1
        at = _run(model, device, decode, sizes["length"], sizes["past"], behind, until=2)
    else:
        del decode["length"]  # Of a prompt, a later step sees only the cache.
        at = _run(model, device, decode, sizes["past"], sizes["past"], None, until=2)
    return {"encode": heard["encode"], "first": heard["first"], "decode": at["decode"]}


def _run(
    model: Any,
    device: str,
    own: Mapping[str, int],
    length: int,
    start: int,
    decoded: int | None,
    until: int,
) -> dict[str, tuple[Operator, ...]]:
    """Generate until `until` steps are over; `start` tokens stand in the sequence before."""
    import torch

    recorder = Recorder(device, {**own, "output": own["limit"] - start})
    listener = _Listener(recorder)

    def at(phase: str, made: int) -> None:
        listener.at(phase if made < until else "end")
        if made == until:
            raise Enough

    vocabulary = model.config.vocab_size
    prompt = generating.prompt(own["batch"], length, vocabulary, device)
    before = None
    if decoded is not None:
        before = torch.randint(3, vocabulary, (own["batch"], decoded), device=device)
    job = Generating(model, own["limit"] - start, own.get("beams", 1))
    with recorder, recorder.naming(model):
        job.run(prompt, at, before)
    return listener.heard


class _Listener:
    """Sorts what the recorder hears into phases."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.heard: dict[str, tuple[Operator, ...]] = {}
        self._phase: str | None = None

    def at(self, phase: str) -> None:
        if self._phase is not None:
            self.heard[self._phase] = self.recorder.take()
        self._phase, self.recorder.is_listening = phase, phase != "end"


def _refuse_difference(phase: str, one: tuple[Operator, ...], two: tuple[Operator, ...]) -> None:
    """Refuse a job whose operators change with its sizes: its trace would be of one size only.

    Raises:
        RecordingError: they do; says where first.
    """
    for place, (a, b) in enumerate(zip_longest(one, two)):
        if a != b:
            raise RecordingError(
                f"{phase}, operator {place}: at one set of sizes {_said(a)}, at another {_said(b)}."
            )


def _marked(
    phase: str, operators: tuple[Operator, ...], alone: tuple[Operator, ...]
) -> tuple[Operator, ...]:
    """Operators, those that a batch of one does without marked so.

    Raises:
        RecordingError: a batch of one dispatches what a larger one does not.
    """
    names, those = ([(o.name, o.module) for o in found] for found in (operators, alone))
    marked = list(operators)
    for what, start, stop, *_ in SequenceMatcher(None, names, those, autojunk=False).get_opcodes():
        if what == "delete":
            for place in range(start, stop):
                details = {**operators[place].details, UNLESS: "batch=1"}
                marked[place] = replace(operators[place], details=details)
        elif what != "equal":
            more = f"{len(operators)} operators, {len(alone)} at a batch of one"
            raise RecordingError(f"{phase}: a batch of one takes another path: {more}.")
    return tuple(marked)


def _said(operator: Operator | None) -> str:
    if operator is None:
        return "nothing"
    shapes = ["x".join(t.shape) for t in (*operator.reads, *operator.writes)]
    return f"{operator.name}({', '.join(shapes)}) {operator.details or ''} in {operator.module}"
