"""What `pymicro gemm --tune` found: the fastest row by device, format and class of shapes.

Kept in `tuned-gemm.json` in the user's data folder. A product must not fail because of that file:
what cannot be read or no longer fits is as if it were not there, and the reason goes along.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pymicro import compiler, driver
from pymicro.backends.cuda.gemm_kernel import GemmKernel
from pymicro.benchmark import Case
from pymicro.dtypes import DTYPES
from pymicro.errors import PymicroError, UsageError

SCHEMA = 1
_LOCK_TIMEOUT_S = 60.0


def default_path() -> Path:
    """`tuned-gemm.json` in the user's data folder.

    Raises:
        PymicroError: no home folder is known.
    """
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir("pymicro", appauthor=False)) / "tuned-gemm.json"
    except (RuntimeError, KeyError) as error:
        raise PymicroError("no home folder is known to remember tuning in.") from error


def device_key(index: int) -> str:
    """A kind of device, by what decides the fastest kernel; part of a card is another kind."""
    gpu = driver.open_gpu(index)
    major, minor = gpu.capability
    return f"{gpu.name}, sm_{major}{minor}, {gpu.attribute('MULTIPROCESSOR_COUNT')} SMs"


def shape_class(case: Case) -> str:
    """Cases that share a winner: each side to the nearest half octave, rows as well aligned."""
    m, n, k, layout = (case.params[name] for name in ("m", "n", "k", "layout"))
    dtype = DTYPES[case.dtype]
    rows_bytes = [
        (k if layout == "nt" else math.gcd(k, n)) * dtype.itemsize_bytes,
        n * DTYPES[dtype.output].itemsize_bytes,
    ]
    aligned = math.gcd(16, *rows_bytes)
    sides = "x".join(
        str(round(2 ** (round(2 * math.log2(max(side, 1))) / 2))) for side in (m, n, k)
    )
    several = f"{batch} of " if (batch := case.params.get("batch", 1)) > 1 else ""
    return f"{case.dtype} {case.variant} {layout} {several}{sides} aligned{aligned}"


def digest(row: GemmKernel) -> str:
    """Of the source and macros of a row: after a change what was found no longer holds."""
    text = compiler.joined_source(row.source) + repr(row.defines)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Memory:
    """The file of winners, and of rows that took the GPU's context along and are not tried again.

    Layout: `{"schema": 1, "devices": {key: {"winners": {class: entry}, "avoid": {row: entry}}}}`,
    an entry having `digest` and, of a winner, `kernel`, `sizes`, `seconds`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    def winner(self, device: str, case: Case, rows: Sequence[GemmKernel]) -> GemmKernel | None:
        """The row remembered for a case, if it is among those that can serve it, unchanged.

        Raises:
            PymicroError: the file is there but cannot be used; the reason.
        """
        entry = self._device(device)["winners"].get(shape_class(case))
        if not isinstance(entry, Mapping):
            return None
        named = [row for row in rows if row.name == entry.get("kernel")]
        return next((row for row in named if digest(row) == entry.get("digest")), None)

    def avoided(self, device: str, row: GemmKernel) -> str | None:
        """Why a row is not to be tried again on a device; None if nothing is known.

        Raises:
            PymicroError: the file is there but cannot be used.
        """
        entry = self._device(device)["avoid"].get(row.name)
        if isinstance(entry, Mapping) and entry.get("digest") == digest(row):
            return str(entry.get("reason"))
        return None

    def keep(self, device: str, case: Case, row: GemmKernel, seconds: Mapping[str, float]) -> None:
        """Remember the winner of a case, with the seconds of all candidates.

        Raises:
            PymicroError: it cannot be written; what was there is untouched.
        """
        sizes = [case.params[side] for side in "mnk"]
        entry = {"kernel": row.name, "digest": digest(row), "sizes": sizes}
        self._put(device, "winners", shape_class(case), entry | {"seconds": dict(seconds)})

    def avoid(self, device: str, row: GemmKernel, reason: str) -> None:
        """Remember that a row hung or spoiled the context there.

        Raises:
            PymicroError: it cannot be written; what was there is untouched.
        """
        self._put(device, "avoid", row.name, {"digest": digest(row), "reason": reason})

    def _device(self, device: str) -> dict[str, dict[str, Any]]:
        own = self._read().get(device, {})
        own = own if isinstance(own, dict) else {}
        kinds = {kind: own.get(kind, {}) for kind in ("winners", "avoid")}
        return {kind: held if isinstance(held, dict) else {} for kind, held in kinds.items()}

    def _read(self) -> dict[str, Any]:
        try:
            held = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise PymicroError(
                f"{self.path.name} cannot be read; --tune writes it anew."
            ) from error
        if isinstance(held, dict) and isinstance(held.get("schema"), int):
            if held["schema"] > SCHEMA:
                raise UsageError(f"{self.path.name} was written by a newer pymicro.")
            if isinstance(held.get("devices"), dict):
                return held["devices"]
        raise PymicroError(f"{self.path.name} is no tune file of pymicro; --tune writes it anew.")

    def _put(self, device: str, kind: str, name: str, entry: Mapping[str, Any]) -> None:
        from filelock import FileLock, Timeout

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.lock", timeout=_LOCK_TIMEOUT_S):
                try:
                    devices = self._read()
                except UsageError:
                    raise
                except PymicroError:  # Damaged: there is nothing to keep.
                    devices = {}
                own = devices.get(device)
                own = devices[device] = own if isinstance(own, dict) else {}
                own[kind] = {**self._device_kind(own, kind), name: entry}
                _replace(self.path, json.dumps({"schema": SCHEMA, "devices": devices}, indent=1))
        except (OSError, Timeout, NotImplementedError) as error:
            raise PymicroError(f"{self.path.name} cannot be written; tuning is lost.") from error

    @staticmethod
    def _device_kind(own: Mapping[str, Any], kind: str) -> dict[str, Any]:
        held = own.get(kind)
        return held if isinstance(held, dict) else {}


def _replace(path: Path, text: str) -> None:
    """Put a whole file in place of the old one, or leave the old one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
