"""The file of results: JSON lines, one record a line, appended in one write under a lock.

Appending never reads what is there, so a damaged history cannot stop a run. Reading keeps every
record that is whole and says, by file and line, what is not.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymicro.errors import PymicroError, UsageError
from pymicro.results.parsing import Reading, parse, refusal
from pymicro.results.record import Result

_LOCK_TIMEOUT_S = 60.0


def default_path() -> Path:
    """`results.jsonl` in the user's data folder.

    Raises:
        PymicroError: no home folder is known, as under a user number without an entry.
    """
    import platformdirs

    try:
        folder = Path(platformdirs.user_data_dir("pymicro", appauthor=False))
    except (RuntimeError, KeyError) as error:
        raise PymicroError("no home folder is known to keep results in.") from error
    return folder / "results.jsonl"


class Store:
    """A file of results; without a path it is `default_path`, whose folder is made on writing."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._is_default = path is None
        try:
            self.path = default_path() if path is None else Path(path).expanduser()
        except RuntimeError as error:  # `~` of somebody whom this system does not know.
            raise UsageError(f"no such home folder: {path}.") from error

    def check_writable(self) -> None:
        """Find out before anything is measured whether results can be kept.

        Raises:
            UsageError: a folder, no such folder, no permission, or somebody else's file.
        """
        try:
            self._check_folder()
            if self.path.exists():
                self._check_content()
            with self._locked(), self._opened():
                pass
        except OSError as error:
            raise UsageError(f"results cannot be kept in {self.path}: {_why(error)}.") from error

    def append(self, result: Result) -> None:
        """Add one record. It is on the disk when this returns.

        Raises:
            PymicroError: it could not be written; the records before it are untouched.
        """
        line = json.dumps(result.to_json(), allow_nan=False) + "\n"
        try:
            self._check_folder()
            with self._locked(), self._opened() as file:
                _append_line(file, line.encode("ascii"))
        except OSError as error:
            raise PymicroError(
                f"the result could not be kept in {self.path} ({_why(error)}); "
                "the earlier ones are untouched."
            ) from error

    def read(self) -> Reading:
        """All whole records in order, and findings on what is damaged.

        Raises:
            UsageError: no such file, no permission, another tool's file, or a newer schema.
        """
        if self._is_default and not self.path.exists():
            return Reading()
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise UsageError(f"{self.path} cannot be read: {_why(error)}.") from error
        return parse(data, self.path.name)

    def _check_folder(self) -> None:
        # Only our own folder is made; the lock would make any, also that of a mistyped path.
        if self._is_default:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        elif not self.path.parent.is_dir():
            code = errno.ENOTDIR if self.path.parent.exists() else errno.ENOENT
            raise OSError(code, os.strerror(code))

    def _check_content(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise UsageError(f"{self.path} is not a regular file; use --no-store to keep nothing.")
        with self.path.open("rb") as file:
            why_not = refusal(file.read(1 << 16), str(self.path))
        if why_not:
            raise UsageError(why_not)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        # Where the file cannot be made, waiting for its lock would take until the time is out.
        os.close(os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644))
        lock = FileLock(f"{self.path}.lock", timeout=_LOCK_TIMEOUT_S)
        try:
            lock.acquire()
        except Timeout as error:
            why = f"another process has held its lock for {_LOCK_TIMEOUT_S:g} s"
            raise OSError(errno.EAGAIN, why) from error
        except NotImplementedError as error:
            raise OSError(errno.ENOLCK, "its file system cannot lock files") from error
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _opened(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        file = os.open(self.path, flags, 0o644)
        try:
            yield file
        finally:
            os.close(file)


def _append_line(file: int, line: bytes) -> None:
    size = os.lseek(file, 0, os.SEEK_END)
    if size:
        # A run that was killed may have left half a line: it must not swallow this one.
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":
            line = b"\n" + line
    written = os.write(file, line)
    if written != len(line):
        os.ftruncate(file, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)


def _why(error: OSError) -> str:
    words: dict[Any, str] = {
        errno.EACCES: "no permission",
        errno.ENOENT: "no such file or folder",
        errno.ENOTDIR: "part of the path is a file, not a folder",
        errno.EISDIR: "it is a folder",
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the file system is read-only",
        errno.ENAMETOOLONG: "the name is too long",
    }
    return words.get(error.errno, error.strerror or type(error).__name__)
