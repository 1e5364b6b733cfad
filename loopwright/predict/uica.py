"""uiCA: the front-end-aware model of Intel cores, run from the user's own checkout.

uiCA is AGPL-3.0 and not on PyPI: UICA_HOME names a checkout of andreas-abel/uiCA that has been
set up as its README says. One process answers for one block; several run side by side.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loopwright.code import Flow
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predict.model import Answer, Block, unfit

_SECONDS = 60


class Uica:
    """uiCA's command line, with the code offset passed on."""

    id = "uica"

    def version(self) -> str:
        """Return the commit of the checkout; InputError where there is none."""
        home = _home()
        done = subprocess.run(
            ["git", "-C", str(home), "describe", "--always"],
            capture_output=True,
            text=True,
            check=False,
        )
        return f"uiCA {done.stdout.strip() or '(commit unknown)'}"

    def lacks(self, core: Microarch) -> str:
        """Say that uiCA has no model of a core."""
        return "" if "uica" in core.called else f"uiCA has no model of {core.id}"

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer with uiCA's throughput: of a loop where the block ends in a branch."""
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        program = _home() / "uiCA.py"
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda b: _one(program, b, core.called["uica"]), blocks))


def _home() -> Path:
    named = os.environ.get("UICA_HOME")
    if not named:
        raise InputError("uiCA is not set up: point UICA_HOME at a checkout of andreas-abel/uiCA")
    if not (Path(named) / "uiCA.py").is_file():
        raise InputError(f"UICA_HOME={named} holds no uiCA.py; point it at a checkout of uiCA")
    return Path(named)


def _python(home: Path) -> str:
    """Return the interpreter that uiCA was set up for: its own environment's, else python3."""
    for name in ("venv", ".venv"):
        if (home / name / "bin" / "python").exists():
            return str(home / name / "bin" / "python")
    return shutil.which("python3") or sys.executable


def _one(program: Path, block: Block, arch: str) -> Answer:
    why = unfit(block)
    if why:
        return Answer.none(why)
    branch = block.instructions[-1].flow in (Flow.JUMP, Flow.BRANCH)
    if branch and block.notion == "unrolled":
        return Answer.none("uiCA takes a block that ends in a branch for a loop")
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(block.code)
        file.flush()
        # Warnings of Python about uiCA's own text say nothing of the block.
        command = [
            _python(program.parent),
            "-W",
            "ignore",
            str(program),
            file.name,
            "-raw",
            "-arch",
            arch,
            "-TPonly",
            "-alignmentOffset",
            str(block.offset),
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                cwd=program.parent,
            )
        except subprocess.TimeoutExpired:
            return Answer.none(f"uiCA gave no answer in {_SECONDS} s")
    said = done.stderr.strip()
    if done.returncode or said:
        return Answer.none(f"uiCA: {said.splitlines()[-1] if said else f'exit {done.returncode}'}")
    try:
        return Answer(float(done.stdout.strip()))
    except ValueError:
        return Answer.none(f"uiCA printed no number: {done.stdout.strip()[:60]!r}")
