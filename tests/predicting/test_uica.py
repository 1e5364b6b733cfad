"""uiCA behind its adapter, held to what uiCA does by a stand-in that does the same.

Like uiCA the stand-in counts an instruction without data as free and says so only in the table that
-TPonly leaves out and by the empty name of its page in -json; leaves by exit(), which closes
standard input; needs the modules xed and instrData, which its setup makes; and keeps state in
globals that a second run in the same process would find.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import loopwright as lw
from loopwright.errors import InputError
from loopwright.inventory import model_state
from loopwright.predicting import uica
from loopwright.predicting.uica import Uica

UICA = """\
#!/usr/bin/env python3
import argparse
import importlib
import json
import os
import sys
import time

import xed

clock = 0  # a second run that finds it moved would be off


def page(name):
    return "https://www.uops.info/html-instr/" + name + ".html"


def simulate(args, instructions, data):
    global clock
    for name in instructions:
        clock += data.get(name, 0.0)
    return clock


def main():
    parser = argparse.ArgumentParser(description="Disassembler")
    parser.add_argument("filename")
    parser.add_argument("-raw", action="store_true")
    parser.add_argument("-arch", default="all")
    parser.add_argument("-TPonly", nargs="?", const="graph.html")
    parser.add_argument("-alignmentOffset", default="0")
    parser.add_argument("-json", nargs="?", const="result.json")
    args = parser.parse_args()
    if args.arch not in ("SNB", "IVB", "HSW", "SKL"):
        print("Unsupported microarchitecture")
        exit(1)
    data = importlib.import_module("instrData." + args.arch + "_data").cycles
    instructions = xed.disas(args.filename)
    if not instructions:
        print("no instructions found")
        exit(1)
    if "warns" in instructions:
        print("something odd\\nin two lines, the second of which is longer than sixty characters, "
              "as those of uiCA are", file=sys.stderr)
    if "prints" in instructions:
        os.write(1, b"xed says something\\n")
    if "dies" in instructions:
        os.abort()
    if "hangs" in instructions:
        time.sleep(600)
    if "fails" in instructions:
        raise KeyError("no such operand")
    cycles = simulate(args, instructions, data) + int(args.alignmentOffset) / 100
    if args.json:
        listed = [
            {"asm": name, "opcode": "", "url": page(name if name in data else ""), "instrID": n}
            for n, name in enumerate(instructions)
        ]
        with open(args.json, "w") as f:
            f.write(json.dumps({"parameters": {}, "instructions": listed, "cycles": []}))
    if args.TPonly:
        print("{:.2f}".format(cycles))
        return
    print("Throughput (in cycles per iteration): {:.2f}".format(cycles))
    if any(name not in data for name in instructions):
        print("X - Instruction not supported")


if __name__ == "__main__":
    main()
"""

XED = '''\
"""Takes known code apart."""

NAMES = {
    "4801d8": "ADD_R64_R64", "480fafc3": "IMUL_R64_R64", "90": "NOP", "48ffc9": "DEC_R64",
    "75f8": "JNZ_REL8", "75fb": "JNZ_REL8",
    "0f01cb": "stac", "0f01f8": "swapgs", "f30f1efa": "endbr64", "660fae30": "clwb", "f4": "hlt",
    "0f22c0": "mov_cr", "9b": "warns", "f8": "prints", "f9": "dies", "fc": "hangs", "fd": "fails",
}


def disas(path):
    with open(path, "rb") as f:
        rest = f.read().hex()
    out = []
    while rest:
        code = max((c for c in NAMES if rest.startswith(c)), key=len, default=None)
        if code is None:
            break
        out.append(NAMES[code])
        rest = rest[len(code):]
    return out
'''

DATA = """\
cycles = {"ADD_R64_R64": 1.0, "IMUL_R64_R64": 3.0, "NOP": 0.25, "DEC_R64": 1.0, "JNZ_REL8": 0.0,
          "warns": 0.0, "prints": 0.0, "dies": 0.0, "hangs": 0.0, "fails": 0.0}
"""


def make_checkout(home: Path, *, xed: bool = True, data: bool = True) -> Path:
    """Write the stand-in, as it is before or after its setup.sh has run, and return home."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "uiCA.py").write_text(UICA)
    (home / "setup.sh").write_text("#!/usr/bin/env bash\n")
    if xed:
        (home / "xed.py").write_text(XED)
    if data:
        folder = home / "instrData"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for arch in ("SNB", "IVB", "HSW", "SKL"):
            (folder / f"{arch}_data.py").write_text(DATA)
    return home


ADD, IMUL, LOOP = "4801d8", "480fafc3", "4801d848ffc975f8"


@pytest.fixture
def home(tmp_path, monkeypatch):
    made = make_checkout(tmp_path / "uiCA")
    monkeypatch.setenv("UICA_HOME", str(made))
    return made


def _row(code: str, **more: Any) -> pd.Series:
    return lw.predict(hex=code, microarch="sandybridge", model="uica", **more).iloc[0]


def _error(code: str, **more: Any) -> str:
    row = _row(code, **more)
    assert pd.isna(row["cycles"])
    return str(row["error"])


@pytest.mark.usefixtures("home")
def test_it_is_given_the_code_the_core_and_the_offset():
    assert _row(ADD)["cycles"] == 1.0
    assert _row(IMUL, offset=37)["cycles"] == 3.37
    assert _row(LOOP)["cycles"] == 2.0
    assert "takes a block that ends in a branch for a loop" in _error(LOOP, notion="unrolled")
    rows = lw.predict(hex=ADD, microarch="sandybridge,zen2", model="uica")
    assert list(rows["error"]) == ["", "uiCA has no model of zen2"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("0f01f8", "swapgs"),
        ("f30f1efa", "endbr64"),
        ("f4", "hlt"),
        ("0f22c0", "mov_cr"),
    ],
)
def test_what_it_counts_as_free_for_want_of_data_has_no_number(code, name):
    for around in (code, ADD + code, code + ADD):
        assert _error(around) == f"uiCA has no data for `{name}`, and would count it as free"


@pytest.mark.usefixtures("home")
def test_what_the_core_lacks_is_not_asked():
    for code in ("0f01cb", "660fae30"):
        assert "which sandybridge lacks" in _error(code)
    rows = lw.predict(hex="0f01cb", microarch="skylake", model="uica")
    assert "no data for `stac`" in rows["error"].item()


@pytest.mark.usefixtures("home")
def test_what_it_says_beside_a_number_is_the_error_in_full():
    odd = "longer than sixty characters, as those of uiCA are"
    assert _error(ADD + "9b").endswith(odd)
    assert "printed no number: 'xed says something" in _error("f8")
    assert _error("fd") == "uiCA: KeyError: 'no such operand'"
    assert _error("48890748894f08") == "uiCA: no instructions found"
    assert _error(ADD + "4889c8") == "uiCA read 1 of 2 instructions"


@pytest.mark.usefixtures("home")
def test_a_worker_that_dies_or_hangs_costs_one_row(monkeypatch, tmp_path):
    monkeypatch.setattr(uica, "_SECONDS", 2)
    blocks = tmp_path / "blocks.csv"
    codes = [ADD, "f9", ADD, "fc", IMUL, "0f01f8", ADD]
    blocks.write_text("id,hex\n" + "".join(f"{n},{code}\n" for n, code in enumerate(codes)))
    rows = lw.predict(blocks=blocks, microarch="sandybridge", model="uica")
    assert list(rows["cycles"].fillna(-1)) == [1, -1, 1, -1, 3, -1, 1]
    errors = dict(enumerate(rows["error"]))
    assert "its worker ended" in errors[1]
    assert errors[3] == "uiCA: no answer in 2 s"


@pytest.mark.usefixtures("home")
def test_one_worker_answers_for_many_and_each_as_if_alone(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("id,hex\n" + "".join(f"{n},{ADD if n % 3 else IMUL}\n" for n in range(90)))
    started = []
    before = uica.Worker
    try:
        uica.Worker = lambda *a: started.append(a) or before(*a)
        rows = lw.predict(blocks=blocks, microarch="sandybridge", model="uica")
    finally:
        uica.Worker = before
    assert list(rows["cycles"]) == [1.0 if n % 3 else 3.0 for n in range(90)]
    assert 1 <= len(started) <= 90 // uica._SHARE + 1


def test_a_relative_path_and_one_below_home_do(home, monkeypatch):
    monkeypatch.chdir(home.parent)
    monkeypatch.setenv("UICA_HOME", "uiCA")
    assert _row(ADD)["cycles"] == 1.0
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("UICA_HOME", "~/uiCA")
    assert _row(ADD)["cycles"] == 1.0
    assert model_state(Uica())["state"] == "ok"


@pytest.mark.parametrize(
    ("lacking", "named"), [({"xed": False}, "xed"), ({"data": False}, "instrData")]
)
def test_a_checkout_that_is_not_set_up_is_missing_with_the_command(
    tmp_path, monkeypatch, lacking, named
):
    home = make_checkout(tmp_path / "uiCA", **lacking)
    monkeypatch.setenv("UICA_HOME", str(home))
    state = model_state(Uica())
    assert state["state"] == "missing"
    assert f"lacks {named}" in state["detail"]
    assert f"cd {home} && PATH=" in state["fix"]
    assert state["fix"].endswith("./setup.sh")
    with pytest.raises(InputError, match=f"uiCA lacks {named}"):
        lw.predict(hex=ADD, microarch="sandybridge", model="uica")
    row = lw.predict(hex=ADD, microarch="sandybridge", model="all").set_index("model").loc["uica"]
    assert "setup.sh" in row["error"]


def test_it_runs_by_the_interpreter_that_it_was_set_up_for(tmp_path, monkeypatch):
    home = make_checkout(tmp_path / "uiCA", xed=False)
    # As an extension module is there for one interpreter: this environment's.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home / "venv"], check=True)
    (site,) = (home / "venv").glob("lib/python*/site-packages")
    (site / "xed.py").write_text(XED)
    monkeypatch.setenv("UICA_HOME", str(home))
    assert _row(ADD)["cycles"] == 1.0


def test_a_uica_that_does_not_start_is_named(tmp_path, monkeypatch):
    home = make_checkout(tmp_path / "uiCA")
    (home / "uiCA.py").write_text("print 'Python 2'\n")
    monkeypatch.setenv("UICA_HOME", str(home))
    with pytest.raises(InputError, match="uiCA does not run by"):
        lw.predict(hex=ADD, microarch="sandybridge", model="uica")


def test_a_uica_without_json_is_too_old(tmp_path, monkeypatch):
    home = make_checkout(tmp_path / "uiCA")
    old = UICA.replace('    parser.add_argument("-json", nargs="?", const="result.json")\n', "")
    (home / "uiCA.py").write_text(old)
    monkeypatch.setenv("UICA_HOME", str(home))
    assert "too old" in _error(ADD)


def _git(*command: str | Path) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *who, *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_its_version_is_the_commit_of_the_checkout_itself(tmp_path, monkeypatch):
    _git("init", "-q", tmp_path)
    home = make_checkout(tmp_path / "uiCA")
    _git("-C", tmp_path, "add", ".")
    _git("-C", tmp_path, "commit", "-qm", "all of another project")
    monkeypatch.setenv("UICA_HOME", str(home))
    assert Uica().version() == "uiCA (commit unknown)"
    _git("init", "-q", home)
    _git("-C", home, "add", "uiCA.py")
    _git("-C", home, "commit", "-qm", "uiCA")
    assert Uica().version() == f"uiCA {_git('-C', home, 'rev-parse', '--short', 'HEAD')}"


def test_one_that_is_not_set_up_is_named_with_the_fix(monkeypatch):
    monkeypatch.delenv("UICA_HOME", raising=False)
    row = lw.predict(hex=ADD, microarch="sandybridge", model="all").set_index("model").loc["uica"]
    assert "UICA_HOME" in row["error"]
    with pytest.raises(InputError, match="UICA_HOME"):
        lw.predict(hex=ADD, microarch="sandybridge", model="uica")
    monkeypatch.setenv("UICA_HOME", "/nonexistent")
    with pytest.raises(InputError, match="/nonexistent"):
        lw.predict(hex=ADD, microarch="sandybridge", model="uica")
