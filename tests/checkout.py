"""Where the checkout lies that the tests are of, its program, and data that it does not hold."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", ROOT.parent / "shared"))
LOOPWRIGHT = str(Path(sys.executable).parent / "loopwright")


def run_program(
    *arguments: object, check: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run loopwright in a process of its own; return what it said and its exit code."""
    return subprocess.run(
        [LOOPWRIGHT, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=check,
        env={**os.environ, **environment},
    )
