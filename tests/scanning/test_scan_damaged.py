"""Damaged files end in an answer or in one line; validation/damaged.py tries many more."""

import random
import subprocess
import sys

import pytest
from checkout import ROOT
from scanned import built, found

from loopwright.cli import run


def test_damaged_files_end_in_an_answer_or_one_line() -> None:
    script = ROOT / "validation" / "damaged.py"
    command = [sys.executable, str(script), "--tries", "120", "--seed", "tests"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "120 damaged files" in done.stdout
    assert ", 0 wrong" in done.stdout
    assert " 0 loops" not in done.stdout  # some damage is harmless


def test_noise_is_scanned_like_any_code(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = random.Random(5).randbytes(20_000)
    text = "\t.globl f\nf:\n" + "".join(f"\t.byte {byte}\n" for byte in noise)
    everything = found(built(tmp_path, text))
    assert everything.lost
    assert run(["scan", str(tmp_path / "code.o"), "--csv"]) == 0
    assert "bytes of code are no instructions" in capsys.readouterr().err
