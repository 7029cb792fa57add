"""Reading traces: in small pieces, damaged, cut, and not traces at all."""

import gzip
import json
import tracemalloc

import pytest
import synthetic_trace as synthetic

from pymicro.analysis.profile import reader
from pymicro.analysis.profile.reader import Reader
from pymicro.errors import UsageError

EVENTS = [
    {"ph": "X", "name": "a \"quoted\" } ] , {", "ts": 1.5, "args": {"x": [1, [2]]}},
    {"ph": "M", "name": "naïve × ünïcode", "ts": 2},
    {"ph": "X", "name": "c", "ts": 3e15, "dur": 0.25},
]  # fmt: skip
DOCUMENT = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": EVENTS}


def write(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 22])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "gzipped-but-unnamed"])
@pytest.mark.parametrize("indent", [None, 2])
def test_events_do_not_depend_on_the_pieces_they_are_read_in(
    tmp_path, monkeypatch, piece, name, indent
):
    monkeypatch.setattr(reader, "_PIECE", piece)
    text = json.dumps(DOCUMENT | {"traceName": "x"}, indent=indent, ensure_ascii=False)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if "gz" in name else text.encode())
    found = Reader(path)
    assert list(found) == EVENTS
    assert found.head == {"schemaVersion": 1, "deviceProperties": [{"id": 0}]}


def test_a_bare_array_is_a_trace_too(tmp_path):
    assert list(Reader(write(tmp_path / "t.json", json.dumps(EVENTS)))) == EVENTS


def test_a_damaged_event_is_passed_over_and_counted(tmp_path):
    bad = '{"ph": "X", "name": "C:\\x", "ts": 1}'
    text = f'{{"traceEvents": [{json.dumps(EVENTS[0])},\n {bad},\n {json.dumps(EVENTS[2])}]}}'
    found = Reader(write(tmp_path / "t.json", text))
    assert list(found) == [EVENTS[0], EVENTS[2]]
    assert found.damaged == 1


@pytest.mark.parametrize("piece", [16, 1 << 22])
@pytest.mark.parametrize("left", [30, 120, 170, 205])
def test_a_cut_file_is_said_to_be_truncated(tmp_path, monkeypatch, left, piece):
    monkeypatch.setattr(reader, "_PIECE", piece)
    text = json.dumps(DOCUMENT)
    start = text.index('"traceEvents": [') + 16
    assert start + left < len(text) - 1
    with pytest.raises(UsageError, match=r"t\.json is truncated after \d events"):
        list(Reader(write(tmp_path / "t.json", text[: start + left])))


def test_a_cut_gzip_is_said_to_be_truncated(tmp_path):
    job = synthetic.Job()
    for _ in range(500):
        job.op()
    path = synthetic.write(tmp_path / "t.json.gz", job.document())
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(UsageError, match=r"truncated after .* compressed data break off"):
        list(Reader(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("not json", "no JSON"),
        (b"SQLite format 3\x00\xff\xfe", "no JSON"),
        ('{"a": 1}', "no list of traceEvents"),
        ('{"traceEvents": 5}', "no list of traceEvents"),
        ('{"a" 1}', "no list of traceEvents"),
        ('{"a": [1, 2', "no list of traceEvents"),
        ("{", "no list of traceEvents"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path, text, says):
    with pytest.raises(UsageError, match=says):
        list(Reader(write(tmp_path / "t.json", text)))


def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        list(Reader(tmp_path))


def test_memory_does_not_grow_with_the_file(tmp_path):
    event = json.dumps(EVENTS[0] | {"args": {"pad": "x" * 2000}})
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + ",\n".join([event] * 20_000) + "]}")
    assert path.stat().st_size > 40e6
    tracemalloc.start()
    count = sum(1 for _ in Reader(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 30e6
