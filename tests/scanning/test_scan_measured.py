"""Loops of a binary measured: at their own code offset and at others, or why not."""

import json

import pytest
from scanned import built

from loopwright import toolchain
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.scanning.binary_loops import ScannedLoop
from loopwright.scanning.suspects import OFFSET_COLUMNS, measure_loops

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 loops")


def _loop(code, path=(), isa="x86_64", exits=()):
    code = bytes.fromhex(code)
    return ScannedLoop(
        file="",
        section=".text",
        isa=isa,
        address=0x81000035,
        text=code,
        path=path or ((0, len(code)),),
        function="find",
        into=5,
        exits=exits,
    )


# imul %rbx,%rbx; cmp %rdi,%rsi; je out; add $8,%rax; cmp %rdx,%rax; jne
SEARCH = "480fafdb4839fe740f4883c0084839d075ee"


@X86_ONLY
@pytest.mark.measures
def test_a_loop_has_a_row_for_each_place_and_one_that_cannot_run_says_why():
    loops = [_loop(SEARCH, exits=(0x8100003C,)), _loop("e8fbffffff48ffca75f6")]
    table = measure_loops(loops, [[loops[0].offset, 0], [loops[1].offset]])
    assert list(table.columns) == OFFSET_COLUMNS
    assert list(table["loop"]) == [0, 0, 1]
    assert list(table["offset"]) == [53, 0, 53]
    assert set(table["function"]) == {"find+0x5"}
    refused = table.iloc[2]
    assert refused["status"] == "refused"
    assert refused["reason"].startswith("it calls: ")
    measured = table[table["cycles"].notna()]
    if measured.empty:
        pytest.skip(f"nothing was measured: {table['reason'].iloc[0]}")
    for row in measured.itertuples():
        assert abs(row.cycles - 3.0) <= max(row.uncertainty, 0.06), row  # the multiplication's


def test_a_loop_of_another_machine_is_refused():
    other = "arm64" if toolchain.host_isa() == "x86_64" else "x86_64"
    table = measure_loops([_loop("480fafdb48ffc979f7", isa=other)], [[0]])
    assert table["reason"].iloc[0].startswith(f"it is code of {other}, and this machine runs")


@pytest.mark.parametrize(
    ("offsets", "said"), [([], "1 loops have 0 lists"), ([[64]], "code offset 64 is not in 0..63")]
)
def test_offsets_that_make_no_sense_are_named(offsets, said):
    with pytest.raises(InputError, match=said):
        measure_loops([_loop(SEARCH)], offsets)


# mov %rcx,(%rsi); add $8,%rsi; cmp %rsi,%r9; jne: at 53 its branch lies across a line.
CUT = """\
	.p2align 6
	.skip 53
	.type	cut, @function
cut:	mov %rcx, (%rsi)
	add $8, %rsi
	cmp %rsi, %r9
	jne cut
	ret
	.size	cut, .-cut
"""


@X86_ONLY
@pytest.mark.measures
def test_a_scan_measures_what_it_suspects(tmp_path, capsys):
    path = built(tmp_path, CUT)
    if hosts.microarch() != "goldencove":
        pytest.skip("what this machine's core makes of a cut branch is not known")
    code = run(["scan", str(path), "--measure", "3", "--json"])
    out, err = capsys.readouterr()
    [row] = json.loads(out)
    assert (row["function"], row["offset"], row["times"]) == ("cut", 53, 2.0)
    if row["measured_times"] is None:
        pytest.skip(f"one offset or both were not measured: {row['reason']}")
    assert code == 0
    assert row["measured_times"] == pytest.approx(2.0, rel=0.05)
    assert "measured here: 1 of 1 suspect, of which 1 takes 1.2 times" in err


def test_a_scan_of_another_machines_code_is_not_measured(tmp_path, capsys):
    other = "arm64" if toolchain.host_isa() == "x86_64" else "x86_64"
    path = built(tmp_path, "f:\n\tret\n", isa=other)
    assert run(["scan", str(path), "--measure", "3"]) == 2
    assert "measure it there" in capsys.readouterr().err
