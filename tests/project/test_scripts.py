"""Scripts beside the package: what they import is there."""

import os
import re
import subprocess
import sys

from loopwright import paths

ROOT = paths.HARNESS.parent
_WITH_OPTIONS = [
    str(script.relative_to(ROOT))
    for folder in ("validation", "benchmarks", "models/derive", "notebooks", "scripts")
    for script in sorted((ROOT / folder).rglob("*.py"))
    if "parse_args(" in script.read_text() and "__main__" in script.read_text()
]


# Imports once what scripts have in common, and runs each in a process of its own, which ends
# without freeing what it shares.
_EACH = """
import gc, os, runpy, sys
import loopwright.judging.study
import loopwright.reporting.plots

gc.freeze()
for script in sys.argv[1:]:
    if os.fork() == 0:
        sys.argv, sys.path[0] = [script, "--help"], os.path.dirname(script)
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code or 0)
        os._exit(1)
    elif os.wait()[1]:
        sys.exit(f"{script} fails")
"""


def test_each_script_says_what_it_takes():
    done = subprocess.run(
        [sys.executable, "-c", _EACH, *(ROOT / script for script in _WITH_OPTIONS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^usage: ", done.stdout, re.MULTILINE)) == len(_WITH_OPTIONS) > 10
