"""Runs uiCA's command line many times in one process.

uiCA is AGPL-3.0: it is read from the user's checkout and runs as a program of its own, by the
interpreter that it was set up for, which need not know loopwright: python uica_worker.py HOME.

Requests and answers are JSON objects, one a line. A request is {"code": hex, "arch": uiCA's name of
a core, "offset": bytes mod 64}; the answer {"printed": text, "exit": code, "stderr": what came on
standard error, "instructions": [[assembly, known], ...]}, or {"missing": module} where uiCA does
not find a module that its setup makes. An instruction is not known where uiCA has no data for it,
and counts it as free.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


def main() -> None:
    """Answer until standard input ends."""
    home = Path(sys.argv[1])
    path = home / "uiCA.py"
    program = compile(path.read_text("utf-8"), str(path), "exec")
    sys.path.insert(0, str(home))
    os.chdir(home)
    # uiCA may print, and its exit closes standard input: answers use descriptors of their own.
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    files = {name: os.memfd_create(name) for name in ("code", "json", "out", "err")}
    os.dup2(files["out"], 1)
    os.dup2(files["err"], 2)
    for line in requests:
        answers.write(json.dumps(_answer(program, path, json.loads(line), files)) + "\n")
        answers.flush()


def _answer(
    program: CodeType, path: Path, request: dict[str, Any], files: dict[str, int]
) -> dict[str, Any]:
    for file in files.values():
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
    os.write(files["code"], bytes.fromhex(request["code"]))
    sys.argv = [str(path), str(_path(files["code"])), "-raw", "-arch", request["arch"]]
    sys.argv += ["-alignmentOffset", str(request["offset"])]
    sys.argv += ["-TPonly", "-json", str(_path(files["json"]))]
    own, module = sys.modules["__main__"], ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    code = 0
    try:
        exec(program, module.__dict__)
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
        if isinstance(done.code, str):
            sys.stderr.write(f"{done.code}\n")
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except Exception as error:
        code = 1
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.modules["__main__"] = own
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)  # the output of its decoder, written in C
    return {
        "printed": _read(files["out"]),
        "exit": code,
        "stderr": _read(files["err"]),
        "instructions": _instructions(_read(files["json"])),
    }


def _instructions(written: str) -> list[list[object]]:
    """Return the instructions of uiCA's JSON file, each with whether uiCA has data for it."""
    try:
        listed = json.loads(written)["instructions"]
    except (ValueError, KeyError):
        return []
    # The page of an instruction is named after the form of its data.
    return [[i.get("asm", ""), Path(i.get("url") or "").stem not in ("", ".html")] for i in listed]


def _read(file: int) -> str:
    return _path(file).read_text("utf-8", "replace")


def _path(file: int) -> Path:
    return Path(f"/proc/self/fd/{file}")


if __name__ == "__main__":
    main()
