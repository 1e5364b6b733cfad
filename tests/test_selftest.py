"""The self-test: documented costs are read right, and wrong ones would be noticed."""

import json
import re
import shutil

import pytest

from loopwright import harness, jobs, paths, toolchain
from loopwright.cli import run as run_cli
from loopwright.selftest import COLUMNS, run

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")
REQUIRED = ["add chain", "imul chain", "load stream", "taken branches"]


@X86_ONLY
def test_known_loops_read_what_is_known():
    rows = run(processes=2)
    assert list(rows.columns) == COLUMNS
    assert list(rows["loop"])[:4] == REQUIRED
    if len(rows) == 4:
        return  # refused: the required ones are shown
    assert set(rows["processes"]) == {2}
    chains = rows.set_index("loop").loc[["xor chain", "lea chain", "imul chain"]]
    assert chains["known"].to_dict() == {"xor chain": 1, "lea chain": 1, "imul chain": 3}
    assert (chains["basis"] == "documented").all()
    held = rows[rows["held"]]
    assert (held["error_percent"] <= held["tolerance_percent"]).all()
    assert (rows["low"].isna() | (rows["low"] <= rows["high"])).all()


@X86_ONLY
def test_a_wrong_chain_refuses_the_run(tmp_path, monkeypatch):
    copy = shutil.copytree(paths.HARNESS, tmp_path / "harness")
    monkeypatch.setattr(paths, "HARNESS", copy)
    chains = copy / "x86_64" / "chains.S"
    text = chains.read_text()
    chains.write_text(text.replace("imul %eax, %eax", "lea (%rax, %rcx), %rax"))
    harness.version.cache_clear()
    try:
        [record] = harness.run("x86_64", jobs.clock("clock"))
    finally:
        harness.version.cache_clear()
    said = r"self-test failed: .*imul chain at (1\.00|0\.99)\d\d cycles an instruction, not 3"
    assert re.match(said, record["refused"])


@X86_ONLY
def test_the_verb_says_whether_all_hold(capsys):
    code = run_cli(["self-test", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == (0 if all(row["held"] for row in rows) else 1)
    assert {row["unit"] for row in rows} == {"cycles/instruction"}
