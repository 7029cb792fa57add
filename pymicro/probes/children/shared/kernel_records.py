"""What a GPU ran, by torch's profiler: the one reading of its records that all children use.

A profiler that gives no records is an error and never a time of zero: another one may hold the
driver's interface, or the system may forbid it. Then events tell the time, and no names.
"""

# What separates pieces of work on the device: a kernel of torch's own that nobody else launches.
_MARK = "spin_kernel"
_NAME_LENGTH = 400
_BATCHES = 5


class NoRecordsError(RuntimeError):
    """The profiler saw nothing of what ran."""


def recorded(torch, work):
    """(name, seconds) of each kernel, copy and fill that `work` ran, in order of their start.

    Raises:
        NoRecordsError: there are none.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    found = [e for e in seen.events() if "CUDA" in str(e.device_type)]
    if not found:
        raise NoRecordsError("no kernel records; another profiler may hold the driver's interface")
    found.sort(key=lambda e: e.time_range.start)
    return [(e.name[:_NAME_LENGTH], e.time_range.elapsed_us() * 1e-6) for e in found]


def mark(torch):
    """End a piece of work on the device; `pieces` cuts there."""
    torch.cuda._sleep(1)


def pieces(records):
    """The records between marks: what ran before the first, between each two, after the last."""
    found = [[]]
    for name, seconds in records:
        if _MARK in name:
            found.append([])
        else:
            found[-1].append((name, seconds))
    return found


def each_call(records, calls):
    """Device seconds of each of `calls` equal calls, and the names of one call's kernels.

    Where the calls did not launch the same number of kernels, their mean stands for all, and the
    names are those of all calls.
    """
    each, rest = divmod(len(records), calls)
    if rest:
        mean_s = sum(seconds for _, seconds in records) / calls
        return [mean_s], list(dict.fromkeys(name for name, _ in records))
    starts = range(0, len(records), each)
    times = [sum(seconds for _, seconds in records[at : at + each]) for at in starts]
    return times, [name for name, _ in records[:each]]


def by_kernel(records, calls):
    """Name, launches a call and median seconds of each kernel, in order of first launch."""
    times = {}
    for name, seconds in records:
        times.setdefault(name, []).append(seconds)
    return [
        {"name": name, "calls": len(found) / calls, "seconds": sorted(found)[len(found) // 2]}
        for name, found in times.items()
    ]


def timed(torch, call, calls, warm_ups=3):
    """Seconds of a call, several times, the names of one call's kernels, and who told.

    The profiler tells of each of `calls` calls; without it events tell of batches of so many, in
    which the time between kernels counts too, and there are no names.
    """
    for _ in range(warm_ups):
        call()
    torch.cuda.synchronize()

    def work():
        for _ in range(calls):
            call()

    try:
        return *each_call(recorded(torch, work), calls), "profiler"
    except NoRecordsError as error:
        seconds = [_between_events(torch, work) / calls for _ in range(_BATCHES)]
        return seconds, [], f"cuda events ({error})"


def _between_events(torch, work):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3
