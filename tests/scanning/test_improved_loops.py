"""The option scan --improve: which loops it looks at, what it shows of each, and wrong input."""

import csv
import io
import subprocess
from pathlib import Path

import pytest
from scanned import built

from loopwright import toolchain
from loopwright.cli import run
from loopwright.improving import equality
from loopwright.scanning import suspects
from loopwright.scanning.scan import Question, scanned
from loopwright.scanning.suspects import improve_suspects

SOURCE = """\
	.text
	.globl	hot
	.type	hot, @function
	.p2align 6
hot:	movzbl (%rdi), %ecx
	mov %cl, (%rsi)
	add $1, %rdi
	add $1, %rsi
	cmp %rdx, %rdi
	jne hot
	xor %eax, %eax
	xor %r8d, %r8d
	ret
	.size	hot, .-hot
	.globl	cold
	.type	cold, @function
	.p2align 6
	.skip 58
cold:	add %rax, (%rdi)
	dec %rsi
	jne cold
	ret
	.size	cold, .-cold
	.globl	chain
	.type	chain, @function
	.p2align 6
chain:	imul %rax, %rax
	dec %rsi
	jne chain
	ret
	.size	chain, .-chain
"""
PROFILE = """\
    60.00%  x        [.] hot
    30.00%  x        [.] chain
"""


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(equality, "_RANDOM_CASES", 64)
    monkeypatch.setattr(suspects, "_SEARCH", suspects.Settings(depth=1, tried=16))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a library with lines of its assembly."""
    source, made = tmp_path / "x.s", tmp_path / "x.so"
    source.write_text(SOURCE)
    gcc = toolchain.find("x86_64").gcc
    subprocess.run([gcc, "-g", "-shared", "-nostdlib", source, "-o", made], check=True)
    return made


def test_a_profile_says_which_loops_are_improved_and_lines_make_a_diff(program, tmp_path):
    profile = tmp_path / "profile.txt"
    profile.write_text(PROFILE)
    scan = scanned(Question(program, microarch="zen2,zen3", profile=profile))
    improved = improve_suspects(scan, 5, measured=False)
    assert improved.looked_at == 2  # nothing of the profile lies in the third
    rows = improved.rows.records()
    assert {row["function"] for row in rows} == {"hot"}
    assert {row["candidate"] for row in rows} <= {1, 2}
    for row in rows:
        share = 60 / 90
        assert row["share"] == pytest.approx(100 * share, abs=0.01)
        assert row["gain"] == pytest.approx(row["cycles"] / row["improved"], abs=0.01)
        saved = row["share"] * (1 - row["improved"] / row["cycles"])
        assert row["saved"] == pytest.approx(saved, abs=0.1)
        assert row["status"] == "proven"
    first = rows[0]
    assert max(row["gain"] for row in rows) > 1.2
    removed = [line for line in first["diff"].splitlines() if "# x.s:" in line]
    assert [line.rsplit(":", 1)[1] for line in removed] == [str(n) for n in range(5, 11)]
    assert first["diff"].splitlines()[0] == "--- a/x.s:5 hot"
    assert any("chain: nothing better found" in line for line in improved.summary())


@pytest.mark.slow
def test_without_lines_the_assembly_is_shown_and_it_assembles(program, capsys, tmp_path):
    subprocess.run(["strip", "-g", program], check=True)
    command = ["scan", str(program), "--microarch", "zen3", "--improve", "3", "--no-measure"]
    assert run(command) == 0
    output = capsys.readouterr().out
    assert "3 loops looked at" in output
    assert " of all cycles" not in output
    assert run([*command, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    text = next(row["diff"] for row in rows if row["function"] == "hot")
    assert "in the place of hot" in text
    source = tmp_path / "new.s"
    source.write_text(text)
    gcc = toolchain.find("x86_64").gcc
    subprocess.run([gcc, "-c", source, "-o", tmp_path / "new.o"], check=True)


def test_no_faster_loop_is_exit_code_1(tmp_path, capsys):
    chain = built(tmp_path, f".text\n{SOURCE[SOURCE.index('	.globl	chain') :]}")
    assert run(["scan", str(chain), "--microarch", "zen2", "--no-measure", "--improve", "1"]) == 1
    output = capsys.readouterr().out
    assert "1 loop looked at, 0 with a faster candidate" in output
    assert "bound by loop-carried dependency" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--improve", "2", "--measure", "3"], "--improve takes one FILE"),
        (["--improve", "2", "--html", "x.html"], "--improve takes one FILE"),
        (["--no-measure"], "--no-measure is for --improve"),
        (["--improve", "0"], "0"),
    ],
)
def test_wrong_input_is_one_line(program, options, message, capsys):
    assert run(["scan", str(program), *options]) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert message in line
