"""Say what this machine has for loopwright's work, and how to get what it lacks."""

import shutil
import subprocess
from collections.abc import Callable
from functools import partial

import pandas as pd

from loopwright import hosts, kernels, toolchain
from loopwright.errors import InputError
from loopwright.predict import MODELS
from loopwright.predict.model import Model

COLUMNS = ["part", "state", "detail", "mend"]
UNKNOWN = "not known here"


def doctor() -> pd.DataFrame:
    """Return one row a part: state is "ok", "missing" or "limited"; mend how to get it."""
    rows = [_row(f"model {m.id}", m.version) for m in MODELS]
    rows += [_row(f"compiler {isa}", partial(_compiler, isa)) for isa in kernels.ISAS]
    rows += [_row(f"run {isa}", partial(_runner, isa)) for isa in kernels.ISAS]
    rows += [
        _row("git", partial(_version, "git", "apt install git")),
        _row("perl (checkpatch)", partial(_version, "perl", "apt install perl")),
    ]
    return pd.DataFrame([*rows, *_host()], columns=COLUMNS)


def model_state(model: Model) -> dict[str, str]:
    """Return whether a model is here (its version), or how to get it."""
    row = _row(model.id, model.version)
    return {key: row[key] for key in ("state", "detail", "mend")}


def _row(part: str, find: Callable[[], str]) -> dict[str, str]:
    try:
        return {"part": part, "state": "ok", "detail": find(), "mend": ""}
    except InputError as error:
        detail, _, mend = str(error).partition(": ")
        return {"part": part, "state": "missing", "detail": detail, "mend": mend}


def _compiler(isa: str) -> str:
    return _first_line(toolchain.find(isa).gcc)


def _runner(isa: str) -> str:
    tools = toolchain.find(isa)
    if tools.native:
        return "this machine"
    if not shutil.which(tools.run[0]):
        raise InputError(f"no emulator for {isa}: install it with `apt install qemu-user`")
    return f"{_first_line(tools.run[0])} (correctness only, no timing)"


def _version(program: str, mend: str) -> str:
    if not shutil.which(program):
        raise InputError(f"no {program}: install it with `{mend}`")
    return _first_line(program)


def _first_line(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[0].strip() if lines else program


def _host() -> list[dict[str, str]]:
    facts = hosts.describe()
    rows = [
        {
            "part": "host microarch",
            "state": "ok",
            "detail": hosts.microarch() or UNKNOWN,
            "mend": "",
        }
    ]
    for key, value in facts.items():
        if not isinstance(value, dict | list) and value != "":
            detail = UNKNOWN if value is None else str(value)
            rows.append(
                {
                    "part": f"host {key.replace('_', ' ')}",
                    "state": "ok",
                    "detail": detail,
                    "mend": "",
                }
            )
    if not facts.get("pmu"):
        rows.append(
            {
                "part": "cycle counter",
                "state": "limited",
                "detail": "no PMU here: cycles come from a calibrated clock, or are refused",
                "mend": "run on bare metal, or give the guest a virtual PMU",
            }
        )
    return rows
