"""Names in traces of PyTorch's profiler and what each says of the host. A table, to be added to."""

from __future__ import annotations

import re
from enum import IntEnum


class State(IntEnum):
    """What a host thread is doing, from the view of a device that waits for it."""

    NOTHING = 0  # nothing that the profiler sees
    PYTHON = 1  # inside an annotation, but in no operator
    OPERATOR = 2  # in an operator or a launch
    COPY = 3  # in a copying call, which may block
    SYNCHRONISE = 4
    ALLOCATE = 5
    START_UP = 6  # compiling, or loading code
    INPUT = 7  # in a data loader's `__next__`
    PROFILER = 8


# Categories, of this and earlier versions of the profiler, to ours.
HOST = {
    "cpu_op": "op", "operator": "op", "user_annotation": "mark", "cuda_runtime": "call",
    "cuda_driver": "call", "runtime": "call", "overhead": "overhead", "python_function": "stack",
}  # fmt: skip
DEVICE = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset",
    "memset": "memset",
}  # fmt: skip
# Calls and categories that only other vendors' profilers write.
FOREIGN = {
    "hip": "AMD", "hsa_": "AMD", "xpu_runtime": "Intel", "xpu_driver": "Intel", "ze": "Intel",
    "musa": "Moore Threads", "acl": "Huawei", "privateuse1_runtime": "a private backend",
    "privateuse1_driver": "a private backend", "mtia_runtime": "Meta's accelerator",
    "hpu_op": "Habana",
}  # fmt: skip
FOREIGN_DEVICES = re.compile(r"\bAMD\b|Instinct|Radeon|\bIntel\b|Ascend|MTIA|Gaudi", re.IGNORECASE)

_SYNCHRONISE = re.compile(r"Synchronize|^cudaMemcpy$|^cuMemcpy(?:DtoH|HtoD)_v2$")
_ALLOCATE = re.compile(r"^cuda(?:Malloc|Free|HostAlloc|MallocHost|HostRegister)|^cuMem(?:Alloc|"
                       r"Free|Create|Map|Unmap|AddressReserve|SetAccess|HostAlloc)")  # fmt: skip
_LOAD = re.compile(
    r"^cu(?:da)?(?:Module|Library)(?:Load|GetGlobal)|^cuInit|^cuLink|^nvrtc|^cudaGraphInstantiate"
)
_COPY = re.compile(r"^cu(?:da)?Memcpy")
_COMPILE = re.compile(r"dynamo_timed|^(?:_?compile_|inductor_compile|async_compile)|autotun")
_LOADING_OVERHEADS = ("Lazy Function Loading", "Driver Compiler", "Runtime Triggered Module Load")
_INPUT = ("enumerate(DataLoader)", "DataLoader.__next__", "[pl][profile]_TrainingEpochLoop.train_d",
          "[pl][profile]_EvaluationLoop.val_n")  # fmt: skip
OPTIMIZER = "Optimizer.step#"
STEP = "ProfilerStep"


def of_call(name: str) -> State:
    """The state of a thread in a call of the CUDA runtime or driver."""
    for pattern, state in (
        (_SYNCHRONISE, State.SYNCHRONISE),
        (_ALLOCATE, State.ALLOCATE),
        (_LOAD, State.START_UP),
        (_COPY, State.COPY),
    ):
        if pattern.search(name):
            return state
    return State.OPERATOR


def of_mark(name: str) -> State:
    """The state of a thread in an annotation."""
    if name.startswith(STEP):
        return State.NOTHING
    if name.startswith(_INPUT):
        return State.INPUT
    return State.START_UP if _COMPILE.search(name) else State.PYTHON


def of_operator(name: str) -> State:
    """The state of a thread in an operator; earlier versions write annotations as operators."""
    state = of_mark(name)
    return State.OPERATOR if state == State.PYTHON else state


def of_overhead(name: str) -> State:
    """The state of a thread that CUPTI says it held up."""
    if name.startswith("Command Buffer Full"):
        return State.NOTHING  # The device has enough to do; nobody waits.
    return State.START_UP if name.startswith(_LOADING_OVERHEADS) else State.PROFILER


# Operators by which programs ask for a value, in the words of whoever wrote the program.
ASKING = {
    "aten::item": ".item()",
    "aten::is_nonzero": "a tensor as a condition (bool())",
    "aten::_local_scalar_dense": ".item(), or a tensor as a number or condition",
    "aten::nonzero": "nonzero() or a mask as an index",
    "aten::masked_select": "masked_select()",
    "aten::unique_consecutive": "unique()",
    "aten::_unique2": "unique()",
    "aten::repeat_interleave": "repeat_interleave() without output_size",
    "aten::to": ".to(), .cpu() or .cuda() without non_blocking",
    "aten::copy_": "a copy without non_blocking",
    "aten::equal": "torch.equal()",
}
# Of these, the ones that move data because that was wanted.
BULK = (ASKING["aten::to"], ASKING["aten::copy_"])
