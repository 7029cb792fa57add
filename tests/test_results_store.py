"""The store: what is written is whole, and what is damaged costs only itself."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pymicro.errors import PymicroError, UsageError
from pymicro.results import Result, Store, default_path, device_lock, store

RESULT = Result("gemm", "cuda", "tiled", "fp16", times_s=(1e-3, 2e-3), run_id="r")
LINE = json.dumps(RESULT.to_json()).encode()


def named(run_id):
    return replace(RESULT, run_id=run_id)


def reading(tmp_path, data):
    path = tmp_path / "results.jsonl"
    path.write_bytes(data)
    return Store(path).read()


def codes(got):
    return [f.code for f in got.findings]


def test_append_and_read_in_order(tmp_path):
    kept = Store(tmp_path / "s.jsonl")
    kept.check_writable()
    for i in range(3):
        kept.append(named(str(i)))
    got = kept.read()
    assert got.results == tuple(named(str(i)) for i in range(3))
    assert got.findings == ()


# Each kind of damage: bytes, how many results stay, which findings are given.
DAMAGE = {
    "empty": (b"", 0, ["store-empty"]),
    "blank lines": (b"\n \r\n\n", 0, ["store-empty"]),
    "whole": (LINE + b"\n" + LINE + b"\n", 2, []),
    "no newline at the end": (LINE + b"\n" + LINE, 2, []),
    "torn last line": (LINE + b"\n" + LINE[:40], 1, ["store-torn-line"]),
    "torn only line": (LINE[:40], 0, ["store-torn-line"]),
    "a brace": (b"{", 0, ["store-torn-line"]),
    "a brace and a newline": (b"{\n", 0, ["store-damaged-line"]),
    "BOM": (b"\xef\xbb\xbf" + LINE + b"\n", 1, []),
    "BOM inside": (LINE + b"\n\xef\xbb\xbf" + LINE + b"\n", 2, []),
    "CRLF": (LINE + b"\r\n" + LINE + b"\r\n", 2, []),
    "NUL before a record": (b"\0" * 64 + LINE + b"\n", 1, ["store-nul-bytes"]),
    "NUL after the end": (LINE + b"\n" + b"\0" * 4096, 1, ["store-nul-bytes"]),
    "NUL only": (b"\0" * 64, 0, ["store-nul-bytes", "store-empty"]),
    "NUL in a record": (
        LINE[:50] + b"\0\0" + LINE[50:] + b"\n" + LINE + b"\n",
        1,
        ["store-damaged-line", "store-nul-bytes"],
    ),
    "damage in the middle": (LINE + b"\n{]\n" + LINE + b"\n", 2, ["store-damaged-line"]),
    "two on a line": (LINE + LINE + b"\n" + LINE + b"\n", 1, ["store-damaged-line"]),
    "not UTF-8": (b"\xff\xfe\n" + LINE + b"\n", 1, ["store-damaged-line"]),
    "UTF-16": (
        LINE.decode().encode("utf-16-le"),
        0,
        ["store-torn-line", "store-nul-bytes"],
    ),
    "NaN": (LINE.replace(b"0.002", b"NaN") + b"\n" + LINE + b"\n", 1, ["store-damaged-line"]),
    "deep": (b"[" * 100_000 + b"\n" + LINE + b"\n", 1, ["store-damaged-line"]),
    "a number": (b"17\n" + LINE + b"\n", 1, ["store-damaged-line"]),
    "times gone": (LINE.replace(b"0.001", b"-1") + b"\n" + LINE, 1, ["store-damaged-line"]),
    "schema that never was": (
        LINE.replace(b'"schema": 1', b'"schema": 0') + b"\n" + LINE,
        1,
        ["store-damaged-line"],
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_costs_only_the_damaged_line(tmp_path, kind):
    data, kept, expected = DAMAGE[kind]
    got = reading(tmp_path, data)
    assert got.results == (RESULT,) * kept
    assert codes(got) == expected


def test_findings_name_file_line_and_what_was_kept(tmp_path):
    got = reading(tmp_path, LINE + b"\n{]\n" + LINE + b"\n" + LINE[:9])
    torn, damaged = got.findings
    assert "line 4 of results.jsonl" in torn.seen
    assert "line 2 of results.jsonl" in damaged.seen
    assert "2 whole results were kept" in torn.why
    assert (torn.severity, damaged.severity) == ("warning", "error")
    assert str(tmp_path) not in "".join(f.seen + f.why + f.do for f in got.findings)


FOREIGN = {
    "pytest-benchmark": {"machine_info": {}, "commit_info": {}, "benchmarks": [], "version": "5"},
    "Google Benchmark": {"context": {}, "benchmarks": []},
    "nvbandwidth": {"nvbandwidth": {"testcases": []}},
    "hyperfine": {"results": []},
    "another kind": {"a": 1},
}


@pytest.mark.parametrize("text", ['{"schema": 1}', '{"schema": 1, "task": "t5", "seconds": 2.0}'])
def test_a_document_of_another_command_holds_no_results(tmp_path, text):
    file = tmp_path / "d.json"
    file.write_text(json.dumps(json.loads(text), indent=1))
    with pytest.raises(UsageError, match="no results of measuring"):
        Store(file).read()


def test_a_lock_that_cannot_be_made_is_refused_at_once(tmp_path):
    (tmp_path / "s.jsonl.lock").mkdir()
    with pytest.raises(UsageError, match="cannot be kept"):
        Store(tmp_path / "s.jsonl").check_writable()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_json_is_recognised_and_never_written_to(tmp_path, kind, indent):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(FOREIGN[kind], indent=indent))
    before = path.read_bytes()
    with pytest.raises(UsageError, match=kind):
        Store(path).read()
    with pytest.raises(UsageError, match="something other than pymicro's results"):
        Store(path).check_writable()
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["# Notes\n", "a,b\n1,2\n", "[1, 2]", "null", "17"])
def test_somebody_elses_file_is_not_appended_to(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match="something other"):
        Store(path).check_writable()


@pytest.mark.parametrize("wrap", [lambda r: r, lambda r: {"schema": 99, "results": [r]}])
@pytest.mark.parametrize("indent", [None, 2])
def test_newer_schema_is_refused_with_both_numbers(tmp_path, wrap, indent):
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(wrap(RESULT.to_json() | {"schema": 99}), indent=indent))
    with pytest.raises(UsageError, match=r"schema 99.* up to 1"):
        Store(path).read()


def test_newer_store_is_not_appended_to(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(RESULT.to_json() | {"schema": 99}) + "\n")
    with pytest.raises(UsageError, match=r"schema 99.* up to 1"):
        Store(path).check_writable()


@pytest.mark.parametrize("indent", [None, 2])
def test_our_own_json_document_is_read(tmp_path, indent):
    path = tmp_path / "out.json"
    records = [RESULT.to_json() | {"summary": {"median_s": 1}}, RESULT.to_json()]
    document = {"schema": 1, "results": records, "findings": []}
    path.write_text(json.dumps(document, indent=indent))
    assert Store(path).read().results == (RESULT, RESULT)


@pytest.mark.parametrize("torn", [LINE[:40], b'{"schema"', b"\0" * 100, LINE])
def test_a_torn_line_does_not_swallow_the_next_record(tmp_path, torn):
    path = tmp_path / "s.jsonl"
    path.write_bytes(torn)
    kept = Store(path)
    kept.check_writable()
    kept.append(named("next"))
    assert kept.read().results[-1] == named("next")


BAD_PATHS = {
    "it is a folder": ".",
    "no such file or folder": "absent/s.jsonl",
    "part of the path is a file": "file/s.jsonl",
    "the name is too long": "x" * 300,
    "not a regular file": "/dev/null",
}


@pytest.mark.parametrize("words", BAD_PATHS)
def test_a_path_that_cannot_hold_results_is_one_sentence(tmp_path, words):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=words) as caught:
        Store(tmp_path / BAD_PATHS[words]).check_writable()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("code", "words"), [(errno.EACCES, "no permission"), (errno.EROFS, "read-only")]
)
def test_a_refusing_file_system_is_found_before_measuring(tmp_path, monkeypatch, code, words):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(store.os, "open", refuse)
    with pytest.raises(UsageError, match=words):
        Store(tmp_path / "s.jsonl").check_writable()


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_reading_what_is_not_there(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be read"):
        Store(tmp_path / name).read()


def test_the_default_store_is_made_on_writing_and_may_be_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data/p"))
    assert Store().read().results == ()
    assert not default_path().parent.exists()
    Store().append(RESULT)
    assert Store().read().results == (RESULT,)


def test_disk_full_keeps_the_earlier_ones(tmp_path, monkeypatch):
    kept = Store(tmp_path / "s.jsonl")
    kept.append(RESULT)
    before = kept.path.read_bytes()

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(store.os, "write", refuse)
        with pytest.raises(PymicroError, match="the disk is full"):
            kept.append(RESULT)
    assert kept.path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are a Unix matter")
def test_a_disk_that_fills_up_within_a_record_leaves_no_half_line(tmp_path):
    # The real thing: the kernel takes the part that still fits and reports a short write.
    script = f"""
import resource, signal
from pymicro.results import Result, Store
kept = Store({str(tmp_path / "s.jsonl")!r})
result = Result("gemm", "cuda", "tiled", "fp16", times_s=(1e-3,))
kept.append(result)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = kept.path.stat().st_size + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    kept.append(result)
except Exception as error:
    print(type(error).__name__, error)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("PymicroError the result could not be kept")
    got = Store(tmp_path / "s.jsonl").read()
    assert len(got.results) == 1
    assert got.findings == ()


def _append_many(path, writer, count):
    kept = Store(path)
    long = replace(RESULT, times_s=tuple(1e-3 + i * 1e-9 for i in range(2000)))
    for i in range(count):
        kept.append(replace(long, run_id=f"{writer}-{i}"))


def test_ten_writers_at_once_lose_and_mix_nothing(tmp_path):
    path = tmp_path / "s.jsonl"
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    writers = [context.Process(target=_append_many, args=(path, w, 5)) for w in range(10)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    got = Store(path).read()
    assert got.findings == ()
    assert {r.run_id for r in got.results} == {f"{w}-{i}" for w in range(10) for i in range(5)}
    assert len(got.results) == 50


def test_a_killed_writer_leaves_earlier_records_readable(tmp_path):
    path = tmp_path / "s.jsonl"
    script = (
        "import sys; from pymicro.results import Result, Store\n"
        f"kept = Store({str(path)!r})\n"
        "while True:\n"
        "    kept.append(Result('gemm', 'cuda', 'tiled', 'fp16', times_s=(1e-3,) * 500))\n"
        "    print(flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as writer:
        for _ in range(3):
            writer.stdout.readline()
        writer.kill()
    got = Store(path).read()
    assert len(got.results) >= 3
    assert set(codes(got)) <= {"store-torn-line"}
    Store(path).append(RESULT)
    assert Store(path).read().results[-1] == RESULT


HOLDER = """
import sys
from pymicro.results import device_lock
with device_lock("GPU-held", print) as note:
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_second_run_on_a_gpu_waits_says_so_and_is_marked(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    said = []
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"

        def let_go(message):
            said.append(message)
            holder.stdin.write("\n")
            holder.stdin.flush()

        with device_lock("GPU-held", let_go, poll_s=0.01) as note:
            assert "waited" in note
    assert len(said) == 1
    assert "another pymicro" in said[0]


def test_a_gpu_alone_and_another_gpu_do_not_wait(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with device_lock("GPU-a") as first, device_lock("GPU-b") as second:
        assert (first, second) == (None, None)


def test_a_lock_that_cannot_be_had_does_not_stop_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent" / "file"))
    (tmp_path / "absent").write_text("")
    with device_lock("GPU-a") as note:
        assert "could not be locked" in note


def test_nothing_is_written_while_another_process_holds_the_lock(tmp_path, monkeypatch):
    kept = Store(tmp_path / "s.jsonl")
    kept.append(RESULT)
    monkeypatch.setattr(store, "_LOCK_TIMEOUT_S", 0.05)
    script = (
        "import sys; from filelock import FileLock\n"
        f"with FileLock({str(kept.path) + '.lock'!r}):\n"
        "    print('held', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(PymicroError, match="another process has held its lock"):
            kept.append(RESULT)
        with pytest.raises(UsageError, match="another process has held its lock"):
            kept.check_writable()
        holder.communicate("\n")
    assert len(kept.read().results) == 1
