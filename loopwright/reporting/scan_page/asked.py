"""The command that writes a page again."""

import shlex
from pathlib import Path

from loopwright.scanning.scan import Question


def command(asked: Question, out: Path, other: Path | str | None = None) -> str:
    """Return the command of a page of one scan, or of two builds where there is another file."""
    parts = ["loopwright scan", shlex.quote(str(asked.file))]
    parts += [shlex.quote(str(other))] if other is not None else []
    for option in ("microarch", "symbols", "features", "profile"):
        if (value := getattr(asked, option)) is not None:
            parts.append(f"--{option} {shlex.quote(str(value))}")
    return " ".join([*parts, f"--html {shlex.quote(str(out))}"])
