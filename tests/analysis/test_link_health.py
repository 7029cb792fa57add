"""Links of made-up machines of one to eight devices: what is said of them, and what is not."""

import pytest

from pymicro.analysis import link_health
from pymicro.analysis.link_health import Link, Peer

COUNTS = (1, 2, 4, 8)


def link(generation=5, width=16, loaded=True, **changes):
    facts = {"index": 0, "max_generation": 5, "max_width": 16} | changes
    return Link(generation=generation, width=width, loaded=loaded, **facts)


def codes(found):
    return [(f.code, f.severity) for f in found]


@pytest.mark.parametrize(
    ("generation", "width", "wire"),
    [(1, 16, 4e9), (3, 16, 15.75e9), (4, 8, 15.75e9), (5, 16, 63.0e9), (6, 16, 118e9)],
)
def test_bytes_a_second_on_the_wire(generation, width, wire):
    assert link_health.wire_bytes_per_s(generation, width) == pytest.approx(wire, rel=1e-3)
    assert link_health.reachable_bytes_per_s(generation, width) < wire


def test_a_generation_of_the_future_is_not_judged():
    assert link_health.wire_bytes_per_s(9, 16) is None
    assert link_health.achieved(link(9), 1e9) == []


def test_an_idle_link_accuses_nobody():
    assert link_health.narrower(link(1, loaded=False)) == []
    assert link_health.achieved(link(1, loaded=False), 55e9) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (link(), []),
        (link(3), [("link-generation", "warning")]),
        (link(5, 8), [("link-width", "warning")]),
        (link(3, 4), [("link-generation", "warning"), ("link-width", "warning")]),
        (link(4, slot_generation=4), [("link-generation", "info")]),
        (link(3, slot_generation=4), [("link-generation", "warning")]),
        (link(None, None), []),
        (link(3, max_generation=None), []),
    ],
)
def test_links_below_what_card_and_slot_offer(facts, expected):
    assert codes(link_health.narrower(facts)) == expected


@pytest.mark.parametrize(
    ("rate", "code"),
    [(55.4e9, None), (30e9, "link-slow"), (80e9, "link-impossible"), (63.5e9, None)],
)
def test_rates_against_the_link_as_it_is(rate, code):
    assert [f.code for f in link_health.achieved(link(), rate)] == ([code] if code else [])


def test_replays_count_from_the_copies_on():
    assert link_health.replayed(link(replays=7), link(replays=7)) == []
    assert link_health.replayed(link(), link(replays=7)) == []
    (found,) = link_health.replayed(link(replays=7), link(replays=9))
    assert "2 packets" in found.seen


def test_a_far_node_is_named_with_the_command():
    assert link_health.far_node(link(numa_node=1, cpu_node=1)) == []
    assert link_health.far_node(link(numa_node=None, cpu_node=1)) == []
    (found,) = link_health.far_node(link(numa_node=1, cpu_node=0))
    assert found.do == "numactl --cpunodebind=1 --membind=1"


def test_one_of_four_that_is_slow_stands_out():
    rates, names = {0: 57e9, 1: 57e9, 2: 14e9, 3: 56e9}, dict.fromkeys(range(4), "card")
    (found,) = link_health.outliers(rates, names)
    assert found.seen.startswith("cuda:2: 14.0 GB/s")
    assert "57" in found.seen or "56.5" in found.seen


@pytest.mark.parametrize("count", COUNTS)
def test_equal_or_different_cards_do_not_stand_out(count):
    assert link_health.outliers(dict.fromkeys(range(count), 5e10), {i: "x" for i in range(8)}) == []
    different = {i: 1e10 * (1 + i) for i in range(count)}
    assert link_health.outliers(different, {i: f"card {i}" for i in range(8)}) == []


def topology(count, offered):
    return [
        Peer(a, b, offered(a, b), "" if offered(a, b) else "the chipset does not support it")
        for a in range(count)
        for b in range(count)
        if a != b
    ]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ["on", "off", "half"])
def test_directions_without_access_are_counted_with_their_reason(count, kind):
    offered = {
        "on": lambda a, b: True,
        "off": lambda a, b: False,
        "half": lambda a, b: a // 2 == b // 2,  # Pairs under one switch.
    }[kind]
    said, every = link_health.untold(topology(count, offered)), count * (count - 1)
    without = {"on": 0, "off": every, "half": every - count if count > 1 else 0}[kind]
    if without == 0:
        assert said is None
    else:
        assert said.startswith(f"{without} of {every} directions have no peer access")
        assert said.count("chipset") == 1


def test_a_direction_that_was_tried_twice_counts_once():
    assert link_health.untold([Peer(0, 1, False), Peer(0, 1, False)]) == (
        "1 of 1 directions have no peer access; copies go through the host: Nobody tells why."
    )


@pytest.mark.parametrize(
    ("nvlinks", "found"), [(None, False), ((18, 18), False), ((0, 18), False), ((17, 18), True)]
)
def test_nvlinks_that_are_partly_down(nvlinks, found):
    assert [f.code for f in link_health.dark(link(nvlinks=nvlinks))] == (
        ["link-nvlink-down"] if found else []
    )


def test_the_state_of_a_link_in_one_line():
    full = link(replays=3, numa_node=1, nvlinks=(18, 18))
    (said,) = link_health.state(full, {"h2d": 55.4e9, "d2h": 55.3e9})
    assert said.seen == (
        "cuda:0: PCIe gen 5 x16 under load (the card offers gen 5 x16); h2d 55.4, d2h 55.3 of "
        "57.6 GB/s that it can reach; 3 packets sent again since the driver was loaded; 18 of 18 "
        "NVLinks up; NUMA node 1."
    )
    assert link_health.state(link(loaded=False), {}) == []
    assert link_health.state(link(None, None), {}) == []
