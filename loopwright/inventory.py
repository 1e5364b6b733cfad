"""Say what this machine has for loopwright's work, and how to get what it lacks."""

import platform
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd

from loopwright import kernels, toolchain
from loopwright.errors import InputError
from loopwright.machine import readiness
from loopwright.measuring.store import Store
from loopwright.predicting.model import Model
from loopwright.predicting.models import MODELS

COLUMNS = ["part", "state", "detail", "fix"]
_BUILDING = (("make", "make"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc"))
_BOOTING = (
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-system-aarch64", "qemu-system-arm"),
)
_BROWSING = (("chromium", "chromium"), ("chromedriver", "chromium-driver"))


def doctor() -> pd.DataFrame:
    """Return one row a part: state is "ok", "missing" or "limited"; fix how to get it."""
    rows = [_row(f"model {m.id}", m.version) for m in MODELS]
    rows += [_row(f"compiler {isa}", partial(_compiler, isa)) for isa in kernels.ISAS]
    rows += [_row(f"run {isa}", partial(_runner, isa)) for isa in kernels.ISAS]
    rows += [
        _row("git", partial(_version, "git", "apt install git")),
        _row("perl (checkpatch)", partial(_version, "perl", "apt install perl")),
        *(_row(f"kernel build: {p}", partial(_here, p, package)) for p, package in _BUILDING),
        _row("kernel module: headers", _headers),
        *(_row(f"patch --verify boot: {p}", partial(_here, p, k)) for p, k in _BOOTING),
        *(_row(f"browser test: {p}", partial(_here, p, package)) for p, package in _BROWSING),
        _row("results store", _results),
    ]
    return pd.DataFrame([*rows, *readiness.rows()], columns=COLUMNS)


def model_state(model: Model) -> dict[str, str]:
    """Return whether a model is here (its version), or how to get it."""
    row = _row(model.id, model.version)
    return {key: row[key] for key in ("state", "detail", "fix")}


def _row(part: str, find: Callable[[], str]) -> dict[str, str]:
    try:
        return {"part": part, "state": "ok", "detail": find(), "fix": ""}
    except InputError as error:
        detail, _, fix = str(error).partition(": ")
        return {"part": part, "state": "missing", "detail": detail, "fix": fix}


def _compiler(isa: str) -> str:
    return _first_line(toolchain.find(isa).gcc)


def _runner(isa: str) -> str:
    tools = toolchain.find(isa)
    if tools.native:
        return "this machine"
    if not shutil.which(tools.run[0]):
        raise InputError(f"no emulator for {isa}: install it with `apt install qemu-user`")
    return f"{_first_line(tools.run[0])} (correctness only, no timing)"


def _here(program: str, package: str) -> str:
    found = shutil.which(program)
    if not found:
        raise InputError(f"no {program}: install it with `apt install {package}`")
    return found


def _headers() -> str:
    """Find what the kernel module is built against: the headers of the kernel that runs."""
    release = platform.release()
    build = Path("/lib/modules") / release / "build"
    if not build.exists():
        package = "linux-headers-" + release
        raise InputError(f"no headers of {release}: install them with `apt install {package}`")
    return str(build)


def _results() -> str:
    with closing(Store.open()) as store:
        return f"{store.path}: {len(store.runs())} runs"


def _version(program: str, fix: str) -> str:
    if not shutil.which(program):
        raise InputError(f"no {program}: install it with `{fix}`")
    return _first_line(program)


def _first_line(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[0].strip() if lines else program
