"""Which machine a result is from, without saying which: a salted hash, or the user's label.

The salt stays in the user's data folder. Without it nobody can find a name by hashing guesses.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from pathlib import Path

from pymicro.errors import UsageError

_LABEL = re.compile(r"[\w.+ -]{1,64}")


def node_name(label: str | None = None) -> str:
    """The label, else twelve digits that are the same for every run of this user on this machine.

    Where the data folder cannot be written they are new for every process.

    Raises:
        UsageError: the label is empty, longer than 64 characters or holds signs other than
            letters, digits, space and `._+-`.
    """
    if label is not None:
        if not _LABEL.fullmatch(label) or not label.strip():
            raise UsageError(
                f"label '{label[:64]}' must be 1 to 64 letters, digits, spaces or any of ._+-"
            )
        return label
    # Clusters share home folders, hence the salt: only together with the machine is it a node.
    identity = _salt() + b"\0" + socket.gethostname().encode() + b"\0" + _machine_id()
    return hashlib.sha256(identity).hexdigest()[:12]


def _machine_id() -> bytes:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return Path(path).read_bytes().strip()
        except OSError:
            continue
    return b""


_process_salt = secrets.token_bytes(16)


def _salt() -> bytes:
    import platformdirs
    from filelock import FileLock, Timeout

    try:
        path = Path(platformdirs.user_data_dir("pymicro", appauthor=False)) / "salt"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=5):
            return _read(path) or _make(path)
    except (OSError, Timeout, NotImplementedError, RuntimeError, KeyError):
        return _process_salt  # RuntimeError and KeyError: no home folder can be told.


def _read(path: Path) -> bytes | None:
    """None where there is none or a torn one."""
    try:
        salt = path.read_bytes()
    except FileNotFoundError:
        return None
    return salt if len(salt) == 32 else None


def _make(path: Path) -> bytes:
    salt = secrets.token_hex(16).encode()
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, salt)
    finally:
        os.close(file)
    return salt
