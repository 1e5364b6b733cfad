"""Two builds compared: which loops are the same, and what became of them."""

import csv
import io
import json
from pathlib import Path

import pytest
from scanned import built, by_name, linked

import loopwright as lw
from loopwright.cli import run
from loopwright.scanning import builds

HEAD = """\
	.p2align 6
	.globl {name}
	.type {name}, @function
{name}:	.skip {skip}, 0x90
1:	{loop}
	ret
	.size {name}, .-{name}
"""
SUM = "addq (%rdi), %rax; addq $8, %rdi; decq %rsi; jne 1b"
XOR = "xorq (%rdi), %rax; addq $8, %rdi; decq %rsi; jne 1b"
HURTS, FINE = 56, 0  # bytes behind the start of a routine, for 12 bytes of loop


def routine(name: str, skip: int = FINE, loop: str = SUM) -> str:
    return HEAD.format(name=name, skip=skip, loop=loop)


def changes(a: Path, b: Path) -> dict[str, str]:
    rows = lw.compare_builds(a, b, microarch="zen2")
    return {r["function"].partition("+")[0]: r["change"] for r in rows.to_dict("records")}


def _pair(tmp_path: Path, a: list[str], b: list[str]) -> tuple[Path, Path]:
    return built(tmp_path, "".join(a), name="a.o"), built(tmp_path, "".join(b), name="b.o")


def test_each_loop_is_what_became_of_it(tmp_path: Path) -> None:
    a, b = _pair(
        tmp_path,
        [routine("was_hurt", HURTS), routine("was_fine"), routine("stays"), routine("goes")],
        [routine("comes"), routine("was_hurt"), routine("was_fine", HURTS), routine("stays")],
    )
    assert changes(a, b) == {
        "was_fine": "hurt",
        "comes": "new",
        "goes": "gone",
        "was_hurt": "fixed",
        "stays": "same",
    }
    rows = lw.compare_builds(a, b, microarch="zen2")
    assert list(rows["change"]) == ["hurt", "new", "gone", "fixed", "same"]
    first = rows.iloc[0]
    assert (first["offset_a"], first["offset_b"]) == (FINE, HURTS)
    assert (first["cycles_a"], first["cycles_b"], first["percent"]) == (1.0, 2.0, 100.0)


def test_a_loop_is_known_by_its_instructions_wherever_others_went(tmp_path: Path) -> None:
    """Two loops of one routine: the first goes, the second is still itself."""
    two = routine("both", FINE, f"{SUM}\n2: {XOR.replace('1b', '2b')}")
    a, b = _pair(tmp_path, [two], [routine("both", FINE, XOR)])
    rows = lw.compare_builds(a, b, microarch="zen2").set_index("change")
    assert rows.loc["gone", "address_a"] == "0x0"
    assert rows.loc["same", "address_a"] == "0xc"


def test_other_registers_and_other_addresses_make_no_other_loop(tmp_path: Path) -> None:
    named = "addq {data}(%rip), %rax; addq $8, %rdi; decq %rsi; jne 1b"
    a, b = _pair(
        tmp_path,
        [routine("regs"), routine("data", FINE, named.format(data="here"))],
        [
            routine("regs", FINE, SUM.replace("rax", "rcx").replace("rsi", "rdx")),
            routine("data", FINE, named.format(data="elsewhere+400")),
        ],
    )
    assert changes(a, b) == {"regs": "same", "data": "same"}


def test_other_numbers_make_another_loop_only_where_one_is_left_to_pair(tmp_path: Path) -> None:
    """Of two loops with other strides each is paired with its own, not with the first."""
    wide = SUM.replace("$8", "$16")
    a, b = _pair(
        tmp_path,
        [routine("f", FINE, f"{SUM}\n2: {wide.replace('1b', '2b')}")],
        [routine("f", FINE, f"{wide}\n2: {SUM.replace('1b', '2b')}")],
    )
    loops = [list(by_name(path).values()) for path in (a, b)]
    pairs = {(p.a, p.b) for p in builds.match(*loops)}
    assert pairs == {(0, 1), (1, 0)}


def test_what_a_compiler_adds_to_a_name_may_change(tmp_path: Path) -> None:
    a, b = _pair(tmp_path, [routine("f.isra.0.cold")], [routine("f.constprop.3")])
    assert changes(a, b) == {"f.constprop.3": "same"}


def test_a_library_is_itself() -> None:
    name = next(Path("/usr/lib").glob("*/libgcc_s.so.1"), None)
    if name is None:
        pytest.skip("no libgcc_s.so.1 of this machine below /usr/lib")
    rows = lw.compare_builds(name, name)
    assert set(rows["change"]) <= {"same", "unknown"}
    assert (rows["address_a"] == rows["address_b"]).all()


def test_fail_over_fails_only_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = _pair(tmp_path, [routine("f")], [routine("f", HURTS)])
    arguments = ["scan", str(a), str(b), "--microarch", "zen2"]
    assert run(arguments) == 0
    assert run([*arguments, "--fail-over", "99"]) == 1
    assert "1 loop got slower by more than 99 %" in capsys.readouterr().err
    assert run([*arguments, "--fail-over", "100"]) == 0
    assert run(["scan", str(b), str(a), "--microarch", "zen2", "--fail-over", "0"]) == 0


def test_a_rewritten_loop_shows_both_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The percentage of a loop that may do other work is empty, and --fail-over ignores it."""
    chain = "imulq %rax, %rax; decq %rsi; jne 1b"
    a, b = _pair(tmp_path, [routine("f")], [routine("f", FINE, chain)])
    assert run(["scan", str(a), str(b), "--microarch", "zen2", "--fail-over", "0"]) == 0
    assert "1 loop of B with other instructions:" in capsys.readouterr().out
    (row,) = lw.compare_builds(a, b, microarch="zen2").to_dict("records")
    assert (row["change"], row["cycles_a"], row["cycles_b"]) == ("rewritten", 1.0, 3.0)
    assert row["percent"] != row["percent"]


def test_new_loops_are_no_failure(tmp_path: Path) -> None:
    a, b = _pair(tmp_path, [routine("f")], [routine("f"), routine("g", HURTS)])
    assert run(["scan", str(a), str(b), "--microarch", "zen2", "--fail-over", "0"]) == 0


def test_rows_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = _pair(tmp_path, [routine("f"), routine("g")], [routine("f", HURTS), routine("g")])
    arguments = ["scan", str(a), str(b), "--microarch", "zen2"]
    run(arguments)
    table = capsys.readouterr().out
    assert "f+0x38" in table
    assert "+100 %" in table
    assert "g" not in table.splitlines()[2]
    assert "zen2: 1 hurt, 1 same" in table
    run([*arguments, "--json"])
    rows = json.loads(capsys.readouterr().out)
    run([*arguments, "--csv"])
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["change"] for row in rows] == [row["change"] for row in lines] == ["hurt", "same"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{a}", "--fail-over", "3"], "give both"),
        (["{a}", "{arm}"], "builds of one ISA"),
        (["{a}", "--patch", "f"], "--tree and -o"),
        (["{a}", "{a}", "--patch", "f", "--tree", "x", "-o", "y"], "takes one FILE"),
        (["{a}", "-o", "y"], "for --patch"),
        (["{a}", "{missing}"], "No such file"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "a": built(tmp_path, routine("f")),
        "arm": built(tmp_path, "1: subs x0, x0, #1\nb.ne 1b\nret\n", "arm64", "arm.o"),
        "missing": tmp_path / "missing.o",
    }
    assert run(["scan", *(text.format(**files) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_addresses_that_a_linker_chose_are_no_difference(tmp_path: Path) -> None:
    text = routine("f", FINE, "addq $there, %rax; movq there(,%rdi,8), %rcx; decq %rsi; jne 1b")
    data = "\n.data\n.globl there\nthere: .quad 0\n"
    a = linked(tmp_path, text + data, "-Ttext=0x400000", name="a")
    b = linked(tmp_path, text + data, "-Ttext=0x500000", "-Tdata=0x700000", name="b")
    assert changes(a, b) == {"f": "same"}
