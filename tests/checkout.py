"""The tested checkout: its folder, its program, and data from outside."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", ROOT.parent / "shared"))
LOOPWRIGHT = str(Path(sys.executable).parent / "loopwright")


def run_program(
    *arguments: object, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run loopwright in a process of its own; return its output and exit code."""
    return subprocess.run(
        [LOOPWRIGHT, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        env={**os.environ, **environment},
    )


def run_here(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process; return its output and exit code."""
    from loopwright.cli import run

    command = [*map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environment), redirect_stdout(out), redirect_stderr(err):
        code = run(command)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
