"""The verb scan: rows, ranking, what is said of what was left out, and bad input."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from scanned import built, linked
from test_boundary import CLEAR

import loopwright as lw
from loopwright import toolchain
from loopwright.cli import run
from loopwright.machine import hosts
from loopwright.scanning.costs import HURT

MORE = """\
	.p2align 6
	.type	sums, @function
	.globl	sums
sums:	addq (%rdi), %rax
	addq $8, %rdi
	decq %rsi
	jne sums
	ret
	.size	sums, .-sums
	.type	halts, @function
	.globl	halts
halts:	hlt
	decq %rsi
	jne halts
	ret
	.size	halts, .-halts
	.type	shifts, @function
	.globl	shifts
shifts:	shlxq %rcx, %rax, %rax
	decq %rsi
	jne shifts
	ret
	.size	shifts, .-shifts
	.type	calls, @function
	.globl	calls
calls:	call sums
	decl %ebx
	jne calls
	ret
	.size	calls, .-calls
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return linked(tmp_path, CLEAR.format(skip=56) + MORE)


def test_rows_are_ranked_by_cycles_lost(program: Path) -> None:
    rows = lw.scan(program, microarch="zen2,sandybridge")
    assert len(rows) == 2 * 4
    first = rows.iloc[0]
    assert (first["function"], first["microarch"], first["offset"]) == ("clears", "zen2", 56)
    assert (first["cycles"], first["best"], first["worst"]) == (2.0, 1.0, 2.0)
    assert (first["lost"], first["times"]) == (1.0, 2.0)
    assert (first["boundary"], first["crossed"]) == (64, "loop")
    assert first["limit"]
    losses = rows["lost"].dropna().tolist()
    assert losses == sorted(losses, reverse=True)
    assert (rows["cycles"].isna() == (rows["error"] != "")).all()


def test_a_figure_is_what_predict_says_of_the_same_code(program: Path) -> None:
    rows = lw.scan(program, microarch="zen2").set_index("function")
    predicted = lw.predict(obj=program, microarch="zen2").set_index("id")
    for name in ("clears", "sums"):
        assert rows["cycles"][name] == predicted["cycles"][name]
        everywhere = lw.predict(obj=f"{program}:{name}", microarch="zen2", offset="all")["cycles"]
        assert rows.loc[name, "best"] == everywhere.min()
        assert rows.loc[name, "worst"] == everywhere.max()


def test_what_limits_a_loop_with_jumps_in_its_path_is_named(tmp_path: Path) -> None:
    """Three multiplications by each other's result, with a jump over bytes between them."""
    far = """\
	.p2align 6
	.type	chain, @function
	.globl	chain
chain:	imulq %rbx, %rax
	imulq %rbx, %rax
	jmp 1f
	.skip 40, 0x90
1:	imulq %rbx, %rax
	decq %rsi
	jne chain
	ret
	.size	chain, .-chain
"""
    (row,) = lw.scan(linked(tmp_path, far), microarch="zen2", top=1).to_dict("records")
    assert len(row["path"].split()) == 2
    # Instructions are numbered as they are executed: the jump is the third.
    assert row["limit"] == "dependency chain through instructions 0-1 and 3"
    assert row["cycles"] == 9.0


def test_a_port_that_limits_a_loop_has_the_vendors_name(tmp_path: Path) -> None:
    divided = (
        "\t.globl f\nf:\tdivsd %xmm0, %xmm1\n\tmovaps %xmm2, %xmm1\n\tdecq %rsi\n\tjne f\n\tret\n"
    )
    (row,) = lw.scan(linked(tmp_path, divided), microarch="zen2", top=1).to_dict("records")
    assert row["limit"] == "divider on port FP3"


def test_what_a_core_does_not_know_has_a_reason_and_no_figure(program: Path) -> None:
    rows = lw.scan(program, microarch="sandybridge").set_index("function")
    assert rows.loc["halts", "error"] == "no figures for hlt"
    assert "needs bmi2, which sandybridge lacks" in str(rows.loc["shifts", "error"])
    assert rows.loc[["halts", "shifts"], "cycles"].isna().all()
    assert rows["error"].tolist()[:2] == ["", ""]  # they come last


def test_the_table_says_what_was_found_and_left_out(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scan", str(program), "--microarch", "zen2,sandybridge", "--top", "2"]) == 0
    output = capsys.readouterr().out
    table, _, summary = output.partition("\n\n")
    assert len(table.splitlines()) == 2 + 2
    assert "64 loop" in table
    assert "5 innermost loops: 4 without calls, 1 that calls (left out)" in summary
    assert f"zen2: 1 of 3 is hurt by its code offset ({HURT} times" in summary
    assert "sandybridge: 0 of 2" in summary
    assert "1 has no figures: 1 no figures for hlt" in summary


def test_csv_and_json_have_all_rows(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", str(program), "--csv"]) == 0
    out, err = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len(hosts.cores(None, "x86_64")) * 4  # the targets and this machine's core
    assert "innermost loops" in err
    assert run(["scan", str(program), "--json", "--top", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert int(row["address"], 16) % 64 == row["offset"] == 56
    assert row["exits"] == ""


def test_lines_come_from_debug_information(tmp_path: Path) -> None:
    source = tmp_path / "work.c"
    source.write_text(
        "long sum(const long *p, long n)\n{\n\tlong s = 0;\n\n\twhile (n--)\n\t\ts += *p++;\n"
        "\treturn s;\n}\n"
    )
    gcc = toolchain.find("x86_64").gcc
    options = ["-O1", "-g", "-ffreestanding", "-c", str(source)]
    for version in ("-gdwarf-4", "-gdwarf-5"):
        obj, linked_ = tmp_path / "work.o", tmp_path / "work"
        subprocess.run([gcc, *options, version, "-o", str(obj)], check=True)
        command = [toolchain.find("x86_64").ld, str(obj), "-o", str(linked_), "-e", "sum"]
        subprocess.run(command, check=True)
        for file in (obj, linked_):
            (row,) = lw.scan(file, microarch="zen2").to_dict("records")
            assert row["line"] in ("work.c:5", "work.c:6")


def test_arm64_is_asked_at_the_places_where_code_can_lie(tmp_path: Path) -> None:
    text = "\t.globl f\nf:\tldr x2, [x0], #8\n\tsubs x1, x1, #1\n\tb.ne f\n\tret\n"
    rows = lw.scan(built(tmp_path, text, "arm64"))
    assert set(rows["microarch"]) == {"neoverse-n1", "tsv110"}
    assert rows["cycles"].notna().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/such/file"], "no/such/file: No such file"),
        (["{file}", "--top", "0"], "--top '0'"),
        (["{file}", "--top", "ten"], "--top 'ten'"),
        (["{file}", "--microarch", "zen9"], "unknown microarch 'zen9'"),
        (["{file}", "--microarch", "tsv110"], "tsv110 is arm64 and the code is x86_64"),
        (["{file}", "--features", "emrs"], "unknown feature 'emrs'; nearest: erms"),
        (["{file}", "--features", ","], "--features names none"),
        (["{file}", "--features", "erms"], "has no alternatives"),
        (["{file}", "--symbols", "no/such/map"], "no/such/map: No such file"),
        (["{folder}"], "is a folder: name the table of its loops"),
        (["{folder}", "--top", "3"], "is a folder: it takes --microarch"),
        (["{file}", "--dask", "local"], "--dask is for a folder of files"),
    ],
)
def test_bad_input_is_one_line(
    program: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [a.format(file=program, folder=program.parent) for a in arguments]
    assert run(["scan", *given]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert not out


def test_a_file_without_loops_is_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scan", str(built(tmp_path, "\t.globl f\nf:\tret\n"))]) == 0
    assert "0 innermost loops" in capsys.readouterr().out
    assert run(["scan", str(built(tmp_path, "\t.globl f\nf:\tret\n")), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("file,section,address,function")
