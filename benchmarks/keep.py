"""Keep the output of `make bench` with date, versions and machine.

usage: python benchmarks/keep.py   (make bench-record)
Writes benchmarks/record/DAY.txt. Figures of different machines, or of different load, are not to be
compared; those that stand side by side in one record are, for they were measured in turns.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.paths import VERSION
from loopwright.predicting.models import MODELS

HERE = Path(__file__).resolve().parent


def heading() -> list[str]:
    """Return what a record says of its circumstances, a line each."""
    said = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    commit = subprocess.run(said, capture_output=True, text=True, check=False).stdout.strip()
    lines = [
        f"loopwright {VERSION} ({commit or 'no repository'})",
        f"machine: {hosts.machine()}, {len(os.sched_getaffinity(0))} CPUs",
        f"load when it began: {os.getloadavg()[0]:.1f} processes",
    ]
    for model in MODELS:
        try:
            lines.append(f"{model.id}: {model.version()}")
        except InputError:
            lines.append(f"{model.id}: not here")
    return lines


def main() -> None:
    """Run the benchmark, show it, and keep it."""
    now = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [now, *heading(), ""]
    command = [sys.executable, str(HERE / "models.py"), *sys.argv[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr}benchmarks/models.py failed: nothing is recorded")
    text = "\n".join(lines) + "\n" + done.stdout
    print(text, end="")
    folder = Path(os.environ.get("LOOPWRIGHT_BENCH_RECORD") or HERE / "record")
    folder.mkdir(exist_ok=True)
    (folder / f"{now}.txt").write_text(text)


if __name__ == "__main__":
    main()
