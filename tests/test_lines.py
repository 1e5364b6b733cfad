"""A file holds one idea, and fits a reader's head: no source file is longer than 300 lines."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

MOST = 300
KINDS = (".py", ".rs", ".c", ".h", ".js", ".css", ".S")


def tracked() -> Iterator[Path]:
    """Yield the source files that git knows of."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this is no checkout that git knows of: {done.stderr.strip()}")
    for name in done.stdout.split("\0"):
        if name.endswith(KINDS) and (ROOT / name).is_file():
            yield ROOT / name


def test_no_source_file_is_too_long():
    lines = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in tracked()}
    assert len(lines) > 500
    assert {str(path): count for path, count in lines.items() if count > MOST} == {}
