"""Listens to what torch dispatches and writes it down as operators with symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.utils._python_dispatch import TorchDispatchMode

from pymicro.errors import PymicroError
from pymicro.workloads.sizes import express
from pymicro.workloads.trace import Operator, Tensor

# Allocations and bookkeeping: the host is called, the device is not.
_NO_KERNEL = {
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::empty.memory_format",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::lift_fresh",
    "aten::resize_",
    "aten::set_.source_Tensor",
}
# Dispatched for tensors of a subclass only, as fake ones are: no part of a real run.
_NOT_REAL = "prim::device"
# What they write to, they do not read.
_WRITES_ONLY = ("aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::random_")
# Reading a scalar that an operator made: what it would be in a job that goes on as it should.
# Nothing is padded, no sequence has ended, no number is infinite.
_SCALARS = {
    "aten::all": True,
    "aten::eq.Scalar": False,
    "aten::isnan": False,
    "aten::isinf": False,
    "aten::ne.Scalar": False,
    "aten::any": False,
    "aten::bitwise_and.Tensor": True,  # A beam search: it can improve, and is not done.
}
_GATHERS = {"aten::embedding", "aten::index_select", "aten::gather", "aten::index.Tensor"}
_FOLDED_FROM = 9
_MATRIX_OPERANDS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::baddbmm": (1, 2),
}
_DETAILS = ("is_causal", "dropout_p", "p", "approximate", "dim", "scale", "compute_log_sumexp")
_COPIES = ("aten::_to_copy", "aten::copy_", "aten::clone", "aten::contiguous")


class RecordingError(PymicroError):
    """The job cannot be recorded: it depends on data, or on sizes that are no products."""


class Recorder(TorchDispatchMode):
    """Collects operators while it is entered; put it inside a FakeTensorMode, or around real work.

    Attributes:
        scalars: what a scalar is when the job reads one, by the operator that made it.
    """

    def __init__(self, device: str, values: Mapping[str, int]) -> None:
        super().__init__()
        self.device = torch.device(device).type
        self.values = values
        self.scalars = dict(_SCALARS)
        self.operators: list[Operator] = []
        self.is_listening = False
        self._views = 0
        self._paths: list[str] = []
        self._made_by: dict[int, tuple[Any, str]] = {}

    def take(self) -> tuple[Operator, ...]:
        """The operators heard so far; the next phase starts empty."""
        heard, self.operators, self._views = tuple(self.operators), [], 0
        return heard

    @contextmanager
    def naming(self, model: torch.nn.Module) -> Iterator[None]:
        """Inside, operators carry the path of the module whose forward runs."""
        names = {id(m): _starred(n) for n, m in model.named_modules()}

        def enter(module: Any, args: Any) -> None:
            self._paths.append(names.get(id(module), ""))

        def leave(module: Any, args: Any, output: Any) -> None:
            self._paths.pop()

        hooks = torch.nn.modules.module
        handles = [
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        if name == "aten::_local_scalar_dense":
            result = self._scalar(func, args)
        else:
            result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.numel() == 1:
            made_by = self._made_by.get(id(args[0])) if _passes_on(name) and args else None
            self._made_by[id(result)] = (result, made_by[1] if made_by else name)
        if self.is_listening:
            self._note(func, name, args, kwargs, result)
        return result

    def _scalar(self, func: Any, args: Any) -> Any:
        try:
            return func(*args)
        except DataDependentOutputException as error:
            maker = self._made_by.get(id(args[0]), (None, "an input"))[1]
            if maker not in self.scalars:
                raise RecordingError(f"the job reads a number that {maker} made.") from error
            return self.scalars[maker]

    def _note(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name == _NOT_REAL:
            return
        if func.is_view or name in _NO_KERNEL or not self._is_on_device(args, kwargs, result):
            self._views += 1
            return
        reads, writes, folded = self._tensors(func, name, args, kwargs, result)
        self.operators.append(
            Operator(
                name=name,
                reads=reads,
                writes=writes,
                module=self._paths[-1] if self._paths else "",
                tensors=folded,
                views=self._views,
                synchronises=_synchronises(name, args, kwargs, result),
                transposed=_transposed(name, args),
                details=_details(func, name, args, kwargs),
            )
        )
        self._views = 0

    def _is_on_device(self, *groups: Any) -> bool:
        return any(t.device.type == self.device for t in _all_tensors(groups))

    def _tensors(
        self, func: Any, name: str, args: Any, kwargs: Any, result: Any
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], int]:
        reads: list[Tensor] = []
        writes: list[Tensor] = []
        folded = 0
        for argument, value in _bound(func, args, kwargs):
            is_written = argument.alias_info is not None and argument.alias_info.is_write
            packed, count = self._packed(value)
            folded = max(folded, count)
            if not (is_written and name.startswith(_WRITES_ONLY)):
                reads += packed
            if is_written:
                writes += packed
        returns = result if isinstance(result, tuple | list) else (result,)
        for returned, value in zip(_repeated(func._schema.returns, returns), returns, strict=False):
            if returned.alias_info is None:
                packed, count = self._packed(value)
                folded = max(folded, count)
                writes += packed
        if name in _GATHERS and writes:
            reads[0] = Tensor(writes[0].shape, reads[0].dtype, reads[0].place)
        return tuple(reads), tuple(writes), folded

    def _packed(self, value: Any) -> tuple[list[Tensor], int]:
        """A tensor as it is; of a long list one flat tensor for each dtype."""
        if isinstance(value, torch.Tensor):
            return [self._tensor(value)], 0
        if not isinstance(value, list | tuple):
            return [], 0
        tensors = [v for v in value if isinstance(v, torch.Tensor)]
        if len(tensors) < _FOLDED_FROM:
            return [self._tensor(t) for t in tensors], 0
        sums: dict[tuple[str, str], int] = {}
        for tensor in tensors:
            key = (_dtype(tensor), self._place(tensor))
            sums[key] = sums.get(key, 0) + tensor.numel()
        flat = [Tensor((str(n),), d, p) for (d, p), n in sums.items()]  # type: ignore[arg-type]
        return flat, len(tensors)

    def _tensor(self, tensor: torch.Tensor) -> Tensor:
        # An expanded dimension has stride 0: it is stored once.
        stored = [
            1 if step == 0 else size
            for size, step in zip(tensor.shape, tensor.stride(), strict=True)
        ]
        shape = tuple(express(size, self.values) for size in stored)
        return Tensor(shape, _dtype(tensor), self._place(tensor))  # type: ignore[arg-type]

    def _place(self, tensor: torch.Tensor) -> str:
        return "device" if tensor.device.type == self.device else "host"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _starred(path: str) -> str:
    return ".".join("*" if part.isdecimal() else part for part in path.split("."))


def _passes_on(name: str) -> bool:
    return name in ("aten::_to_copy", "aten::detach", "aten::view", "aten::alias", "aten::clone")


def _all_tensors(groups: Any) -> Iterator[torch.Tensor]:
    for value in groups.values() if isinstance(groups, dict) else groups:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple | dict):
            yield from _all_tensors(value)


def _bound(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Arguments of the schema with the values they were given."""
    for place, argument in enumerate(func._schema.arguments):
        if place < len(args):
            yield argument, args[place]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def _repeated(returns: Any, values: Any) -> Any:
    """A schema that returns one list has one entry for all its tensors."""
    return list(returns) * len(values) if len(returns) == 1 else returns


def _synchronises(name: str, args: Any, kwargs: Any, result: Any) -> bool:
    """Whether the host waits: it reads a number, counts elements, or copies between memories."""
    if name in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"):
        return True
    if name not in _COPIES[:2] or not isinstance(result, torch.Tensor):
        return False
    source = args[0] if name == "aten::_to_copy" else args[1]
    is_blocking = not kwargs.get("non_blocking", len(args) > 2 and args[2])
    return is_blocking and source.device.type != result.device.type


def _transposed(name: str, args: Any) -> str:
    places = _MATRIX_OPERANDS.get(name)
    if places is None:
        return ""
    return "".join(
        side
        for side, place in zip("ab", places, strict=True)
        if args[place].stride(-1) != 1 and args[place].stride(-2) == 1
    )


def _details(func: Any, name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    found = {
        argument.name: list(value) if isinstance(value, tuple | list) else value
        for argument, value in _bound(func, args, kwargs)
        if argument.name in _DETAILS and _is_plain(value)
    }
    if name in _COPIES:
        source = args[1] if name == "aten::copy_" else args[0]
        if not source.is_contiguous():
            found["strided"] = True
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(v, int) for v in value)
    return isinstance(value, bool | int | float | str)
