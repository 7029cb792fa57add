"""Other people's words inside our findings: short, without paths, names and secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pymicro.environment.variables import private_words

_SECRET_NAME = re.compile(r"token|key|secret|passw|credential|auth", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"[\w-]*(?:token|key|secret|passw|credential|auth)[\w-]*\s*[=:]\s*\S+", re.IGNORECASE
)
_URL = re.compile(r"\w+://\S*")
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[/\\][\w.+@%~-]+){2,}")
_LONGEST = 200


def quote(text: str, env: Mapping[str, str]) -> str:
    """The first line of `text` as one may show it: addresses cut, paths shortened to their last
    part, values of variables with secret names and names of host and user hidden."""
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    line = " ".join(lines[0][: 4 * _LONGEST].split())
    for name, value in env.items():
        if _SECRET_NAME.search(name) and len(value) >= 4:
            line = line.replace(value, "(hidden)")
    line = _ASSIGNED.sub("(hidden)", _URL.sub("(address)", line))
    line = _PATH.sub(lambda m: re.split(r"[/\\]", m[0])[-1], line)
    words = "|".join(map(re.escape, sorted(private_words(), key=len, reverse=True)))
    if words:
        line = re.sub(rf"(?<![a-z0-9])({words})(?![a-z0-9])", "(hidden)", line, flags=re.IGNORECASE)
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
