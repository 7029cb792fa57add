"""Copies between host and device: by the copy engines, by a kernel or staged, one way, both at
once, or one way while the other is busy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pymicro import driver, paths
from pymicro.backends.base import Call, Place, Prepared
from pymicro.backends.cuda import copies, peers
from pymicro.backends.cuda.copies import Copy
from pymicro.backends.cuda.host_memory import HostMemory
from pymicro.backends.cuda.near import near, node_of, on_node
from pymicro.benchmark import Case
from pymicro.devices.cpu import describe_cpu
from pymicro.errors import WrongResult

# Path -> the way that is measured and the one that goes on meanwhile.
_TWO_WAYS = {"both": ("h2d", "d2h"), "h2d-busy": ("h2d", "d2h"), "d2h-busy": ("d2h", "h2d")}

# What is to be overwritten: far from any number that drawn words have in common.
_POISON = 0x7F7F7F7F


def variants(dtype: str, place: Place) -> tuple[str, ...]:
    return tuple(row.variant for row in paths.ROWS)


def prepare(case: Case, place: Place, arrays: Mapping[str, Any]) -> Prepared:
    """Memory of the host, filled, and the copy; what two ways bring to the host is compared here.

    Raises:
        Unavailable: so much cannot be pinned, or the size is none for the SMs.
        WrongResult: what arrived at the host differs.
    """
    path = case.params["path"]
    if paths.is_peer(path):
        return peers.prepare(case, place, arrays)
    notes: dict[str, Any] = {"device_index": place.index, **paths.notes(case.variant, path)}
    closing: list[Call] = []
    try:
        if path == "d2d":
            copy = _copy(case, place, closing)
            return Prepared(copy("d2d", arrays["c"].ptr, arrays["a"].ptr), notes)
        bus_id, wanted = driver.open_gpu(place.index).pci_bus_id, case.params.get("node", "near")
        with near(bus_id) if wanted == "near" else on_node(wanted) as node:
            hosts = _hosts(case, closing)
            copy = _copy(case, place, closing)
            call = _call(case, place, copy, hosts, arrays, closing)
            _filled(case, call, hosts, arrays["a"].ptr)
        notes |= {"host_memory": case.params["host"], "host_numa_node": node}
        notes["gpu_numa_node"] = node_of(bus_id)
    except BaseException:
        _all(closing)
        raise
    output = (lambda: hosts[0].words) if path in ("d2h", "d2h-busy") else None
    return Prepared(call, notes, lambda: _all(closing), output)


def _all(closing: list[Call]) -> None:
    for close in reversed(closing):
        close()


def _hosts(case: Case, closing: list[Call]) -> list[HostMemory]:
    """One place for each way."""
    hosts = []
    for _ in range(2 if case.params["path"] in _TWO_WAYS else 1):
        hosts.append(HostMemory(case.params["host"], case.params["size"]))
        closing.append(hosts[-1].free)
    return hosts


def _copy(case: Case, place: Place, closing: list[Call]) -> Copy:
    size = case.params["size"]
    if case.variant == "sm":
        return copies.sm(place, size)
    if case.variant == "engine":
        return copies.engine(place, size, case.params.get("host") != "pageable")
    context = driver.open_gpu(place.index).context
    staging = copies.Staging(context, size, *copies.stages(size, _cores()))
    closing.append(staging.close)
    return staging.copy


def _cores() -> int:
    """Cores that this process may use."""
    cpu = describe_cpu()
    return max(1, int(min(cpu.logical_cores, cpu.quota_cores or cpu.logical_cores)))


def _call(
    case: Case,
    place: Place,
    copy: Copy,
    hosts: list[HostMemory],
    arrays: Mapping[str, Any],
    closing: list[Call],
) -> Call:
    def there(host: HostMemory) -> int:
        return host.device if case.variant == "sm" else host.address

    def one_way(way: str, host: HostMemory, stream: Any = None) -> Call:
        ends = {"h2d": (arrays["c"].ptr, there(host)), "d2h": (there(host), arrays["a"].ptr)}
        return copy(way, *ends[way], stream)

    path = case.params["path"]
    if path not in _TWO_WAYS:
        return one_way(path, hosts[0])
    other = driver.check(driver.cuda().cuStreamCreate(copies.NON_BLOCKING))
    closing.append(lambda: driver.check(driver.cuda().cuStreamDestroy(other)))
    measured, against = _TWO_WAYS[path]
    first, second = one_way(measured, hosts[0]), one_way(against, hosts[1], other)
    begin, end = (driver.check(driver.cuda().cuEventCreate(copies.NO_TIME)) for _ in range(2))
    closing += [partial(copies.destroy, event) for event in (begin, end)]
    return together(place, first, second, other, (begin, end), is_joint=path == "both")


def together(
    place: Place, first: Call, second: Call, other: Any, events: tuple[Any, Any], is_joint: bool
) -> Call:
    """`first` on the measured stream and `second` on another, which starts with it; the events
    belong to the one and the other.

    Joint, the time is that of the slower. Else `second` runs twice, so that there is traffic
    against the measured copies until the last of them ends, and nobody waits for it.
    """
    cuda, check = driver.cuda(), driver.check
    ours = cuda.CUstream(place.stream)
    begin, end = events

    def start() -> None:
        check(cuda.cuEventRecord(begin, ours))
        check(cuda.cuStreamWaitEvent(other, begin, 0))

    def joint() -> None:
        start()
        first()
        second()
        check(cuda.cuEventRecord(end, other))
        check(cuda.cuStreamWaitEvent(ours, end, 0))

    def busy() -> None:
        start()
        second()
        first()
        second()

    return joint if is_joint else busy


def _filled(case: Case, call: Call, hosts: list[HostMemory], source: int) -> None:
    """Fill the host's memory from the device's at `source`; where two ways are used, copy once
    onto memory that holds something else, and compare.

    All in the memory that is there: fresh pages for half a GiB take longer than many copies of it.

    Raises:
        WrongResult: what came to the host is not what was sent.
    """
    path = case.params["path"]
    ways = _TWO_WAYS.get(path, (path,))
    for way, host in zip(ways, hosts, strict=True):
        if way == "h2d":
            driver.check(driver.cuda().cuMemcpyDtoH(host.address, source, case.params["size"]))
        else:
            host.words.fill(_POISON)
    if path not in _TWO_WAYS:
        return
    call()
    driver.check(driver.cuda().cuCtxSynchronize())
    sent, came = (hosts[ways.index(way)].words for way in ("h2d", "d2h"))
    wrong = int((came != sent).sum())
    came.fill(_POISON)
    if wrong:
        raise WrongResult(f"wrong result: {wrong} of {came.size} words differ on the host.")
