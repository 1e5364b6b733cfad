"""Scripts beside the package: what they import is there."""

import os
import subprocess
import sys

import pytest

from loopwright import paths

ROOT = paths.HARNESS.parent
_WITH_OPTIONS = [
    str(script.relative_to(ROOT))
    for folder in ("validation", "benchmarks", "models/derive", "notebooks", "scripts")
    for script in sorted((ROOT / folder).rglob("*.py"))
    if "parse_args(" in script.read_text() and "__main__" in script.read_text()
]


@pytest.mark.parametrize("script", _WITH_OPTIONS)
def test_a_script_says_what_it_takes(script):
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, ROOT / script, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
