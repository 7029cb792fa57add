"""Events of a Chrome trace one by one, in bounded memory. It knows JSON and nothing of profilers.

The standard library's decoder is fast when it is handed one event at a time out of a large piece
of text; a streaming library with a C core took as long (half a GB: 3.3 s here, 3.9 s there).
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pymicro.errors import UsageError

_PIECE = 1 << 22
# An event longer than this is damaged: what follows its beginning is not JSON.
_LONGEST_EVENT = 1 << 23
_LONGEST_HEAD = 1 << 25
_BLANK = re.compile(r"[\s,]*")
_EVENT = re.compile(r"\{\s*\"(?:ph|name|cat)\"\s*:")
_DECODE = json.JSONDecoder(strict=False).raw_decode


class Reader:
    """Iterates over the events of a file; `head` holds what stood before them.

    Attributes:
        damaged: events that were no JSON and were passed over, so far.

    Raises:
        UsageError: no such file, no trace, or one that ends in the middle.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head: dict[str, Any] = {}
        self.damaged = self.count = 0
        self._text, self._at, self._is_end = "", 0, False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            with _open(self.path) as file:
                self._file = file
                yield from self._events()
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise self._truncated("its compressed data break off") from None
        except OSError as error:
            raise UsageError(f"{self.path.name} cannot be read: {error.strerror}.") from None

    def _events(self) -> Iterator[dict[str, Any]]:
        self._read_head()
        while True:
            self._skip_blank()
            if self._at == len(self._text):
                raise self._truncated("its list of events has no end")
            if self._text[self._at] == "]":
                return
            try:
                event, self._at = _DECODE(self._text, self._at)
            except ValueError:
                self._after_failure()
                continue
            if isinstance(event, dict):
                self.count += 1
                yield event

    def _after_failure(self) -> None:
        """Read on if the event may only have been cut by the piece; else pass over it."""
        left = len(self._text) - self._at
        if left < _LONGEST_EVENT and self._more():
            return
        following = _EVENT.search(self._text, self._at + 1)
        if following is None:
            raise self._truncated("its last event is cut")
        self.damaged += 1
        self._at = following.start()

    def _read_head(self) -> None:
        self._more()
        self._skip_blank()
        if self._text[self._at : self._at + 1] == "[":
            self._at += 1
            return
        if self._text[self._at : self._at + 1] != "{":
            raise UsageError(f"{self.path.name} is no JSON, so no trace of PyTorch's profiler.")
        self._at += 1
        while (key := self._key()) != "traceEvents":
            self.head[key] = self._value()
        self._skip_blank()
        if self._text[self._at : self._at + 1] != "[":
            raise self._no_trace()
        self._at += 1

    def _key(self) -> str:
        key = self._value()
        self._skip_blank()
        if not isinstance(key, str) or self._text[self._at : self._at + 1] != ":":
            raise self._no_trace()
        self._at += 1
        return key

    def _value(self) -> Any:
        """The next value of the head, however much text it needs."""
        while True:
            self._skip_blank()
            try:
                value, self._at = _DECODE(self._text, self._at)
            except ValueError:
                if len(self._text) - self._at > _LONGEST_HEAD or not self._more():
                    raise self._no_trace() from None
            else:
                return value

    def _skip_blank(self) -> None:
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more():
                return

    def _more(self) -> bool:
        """Put the next piece behind what is left; False at the end of the file."""
        piece = self._file.read(_PIECE)
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)

    def _truncated(self, how: str) -> UsageError:
        return UsageError(
            f"{self.path.name} is truncated after {self.count:,} events: {how}. What the device "
            "did stands at the end of such a file; copy it again or record it anew."
        )

    def _no_trace(self) -> UsageError:
        return UsageError(
            f"{self.path.name} is no trace of PyTorch's profiler: it has no list of traceEvents."
        )


def _open(path: Path) -> IO[str]:
    raw: Any = path.open("rb")
    is_zipped = raw.peek(2)[:2] == b"\x1f\x8b"
    raw = gzip.GzipFile(fileobj=raw) if is_zipped else raw
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace")
