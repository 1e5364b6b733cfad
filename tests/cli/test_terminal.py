"""The command line on a terminal and in a pipe: help, completion, tables that fit, no colour."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from pathlib import Path
from types import SimpleNamespace

import click
import pandas as pd
import pytest
from checkout import LOOPWRIGHT, run_here, run_program
from click.shell_completion import BashComplete
from few_variants import few
from made_up import predictions, study
from quick import some

import loopwright as lw
from loopwright import toolchain
from loopwright.calibrating import calibrate
from loopwright.cli import cli, output, prediction_views, run
from loopwright.judging import recommend
from loopwright.judging.study import comparison
from loopwright.linux import baseline as tree_baseline
from loopwright.linux import patch
from loopwright.machine import hosts
from loopwright.measuring import measure, measure_blocks, readings, results
from loopwright.portable import kit
from loopwright.reporting import report
from loopwright.rows import Rows

TABLE = ("predict", "x86_64/clear_user")


def on_terminal(width: int, *arguments: str, **environment: str) -> str:
    """Return what the command writes to a terminal of so many columns."""
    process, terminal = pty.fork()
    if process == 0:
        size = struct.pack("HHHH", 40, width, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # bars
        inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        os.execve(
            LOOPWRIGHT, [LOOPWRIGHT, *arguments], {**inherited, "TERM": "xterm"} | environment
        )
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return b"".join(parts).decode().replace("\r", "")


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_every_verb_shows_an_example(verb):
    command = cli.commands[verb]
    groups = isinstance(command, click.Group)
    for one in command.commands.values() if groups else [command]:
        text = one.get_help(click.Context(one, info_name=verb, max_content_width=200))
        assert re.search(rf"^ +loopwright {verb}\b", text, re.M), one.name


WIDTHS = (80, 100, 120, 200)
WIDE = pytest.param(200, marks=pytest.mark.slow)
LOOP = """\
.Lsum:
	addq (%rdi,%rax), %rdx
	movq %rdx, (%rsi,%rax)
	addq $8, %rax
	cmpq %rcx, %rax
	jne .Lsum
"""
CORES = "sandybridge,zen2"


def shown(width: int, *arguments: str) -> str:
    """Return what a terminal shows, without colours and bars."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_terminal(width, *arguments))
    assert max(map(len, text.splitlines())) <= width, text
    return text


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    path = tmp_path_factory.mktemp("terminal") / "loop.s"
    path.write_text(LOOP)
    routine = path.with_name("routine.s")
    routine.write_text(f".globl sum\n.type sum, @function\nsum:\n{LOOP}\tret\n")
    gcc = toolchain.find("x86_64").gcc
    subprocess.run([gcc, "-c", routine, "-o", path.with_suffix(".o")], check=True)
    return str(path)


@pytest.mark.parametrize("width", [80, WIDE])
def test_cycles_and_cores_are_columns_however_alike_they_are(loop, width):
    one = shown(width, "predict", "--asm", loop, "--microarch", "zen2")
    head = next(line for line in one.splitlines() if "microarch" in line)
    assert re.search(r"microarch +cycles +bottleneck", head)
    row = next(line for line in one.splitlines() if line.startswith(".Lsum"))
    assert row.split()[:3] == [".Lsum", "zen2", "1.00"]
    assert "loop-carried dependency: addq $8, %rax" in " ".join(one.split())
    for limit, figure in (("ports", "1.00"), ("dispatch", "0.80"), ("branches", "1.00")):
        assert re.search(rf"^{limit} +{figure}$", one, re.M), one


@pytest.mark.parametrize("width", [pytest.param(80, marks=pytest.mark.slow), 200])
def test_a_sweep_is_a_line_and_a_strip_of_64_offsets(loop, width, capsys, monkeypatch):
    asked = ("predict", "--asm", loop, "--microarch", CORES, "--offset", "all")
    text = rendered(capsys, monkeypatch, width, *asked)
    rows = lw.predict(asm=LOOP, microarch="zen2", offset="all")
    slow = rows.loc[rows["cycles"] > rows["cycles"].min(), "offset"]
    assert 0 < len(slow) < 64
    strips = [
        [n for n, mark in enumerate(line[-64:]) if mark != "\N{MIDDLE DOT}"]
        for line in text.splitlines()
        if "\N{FULL BLOCK}" in line[-64:] and "fastest" not in line
    ]
    assert list(slow) in strips
    if width >= 100:
        assert re.search(rf"1\.00 at [\d -]+, 2\.00 at {slow.min()}-{slow.max()}\b", text), text
    assert len(text.splitlines()) < 20


def test_cores_that_say_the_same_are_one_line(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    rows = Rows.of_frame(lw.predict(asm=LOOP, microarch="zen2", offset=0))
    core = rows.columns.index("microarch")
    again = tuple("zen9" if n == core else value for n, value in enumerate(rows.values[0]))
    prediction_views.show_predictions(Rows(rows.columns, [*rows.values, again]))
    assert "zen2, zen9" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, WIDE])
def test_this_machine_is_in_the_default_table(loop, width, capsys, monkeypatch):
    if toolchain.host_isa() != "x86_64" or hosts.microarch() is None:
        pytest.skip("no core.toml describes this machine")
    asked = ("predict", "--asm", loop)
    text = " ".join(rendered(capsys, monkeypatch, width, *asked).split())
    assert f"{hosts.microarch()} (this machine)" in text
    named = rendered(capsys, monkeypatch, width, *asked, "--microarch", "host")
    assert "(this machine)" in " ".join(named.split())


# What a user of each verb asks, and the heads of the columns that answer it.
ANSWERS = {
    "several models": (("predict", "LOOP", "--model", "all"), ("pipeline", "llvm-mca")),
    "a kernel": (("predict", "x86_64/clear_user", "--microarch", CORES), ("variant", "cycles")),
    "whole calls": (
        ("predict", "x86_64/clear_user/plain", "--sizes", "64", "--microarch", "zen2"),
        ("bytes", "cycles", "one call"),
    ),
    "a listing": (
        ("predict", "LOOP", "--microarch", "zen2", "--ports", "--offset", "60"),
        ("AGU0", "STD", "end of a line"),
    ),
    "sources": (("predict", "LOOP", "--microarch", "zen2", "--sources"), ("uops-info",)),
    "a timeline": (
        ("predict", "LOOP", "--microarch", "zen2", "--timeline", "2"),
        ("1.2", " store address ", " compute "),
    ),
    "trace": (("trace", "x86_64/clear_user/plain", "--size", "16"), ("text", "store")),
    "list": (("list",), ("kernel", "variants")),
    "list of cores": (("list", "microarchs"), ("role", "zen2")),
    "core": (("core", "zen2"), ("figure", "value", "confidence", "0 ALU0", "column source")),
    "doctor": (("doctor",), ("part", "state", "detail")),
    "check": (
        ("check", "x86_64/put_event/write_begin"),
        ("passed", "\nwrite_begin: not proven: +0x53 branch never passed"),
    ),
    "compare": (("compare", "x86_64/clear_user", "--no-measure"), ("pipeline",)),
    "trace of a loop": (("trace", "LOOP"), ("text", "rdi+0, 8 B", "rsi+8, 8 B")),
    "kmod": (("kmod", "source", "x86_64/put_event/masked", "-o", "kmod"), ("variant", "next")),
    "scan": (("scan", "OBJECT", "--microarch", "zen2"), ("sum", "cycles", "best")),
}


def rendered(capsys, monkeypatch, width, *arguments):
    """Return what a verb shows in this process, as a terminal of so many columns has it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(list(arguments)) == 0, arguments
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= width, text
    return text


@pytest.mark.parametrize("width", some(WIDTHS, {80, 200}))
@pytest.mark.parametrize("what", ANSWERS)
def test_each_verb_shows_its_answer_at_any_width(what, width, loop, capsys, monkeypatch, tmp_path):
    arguments, heads = ANSWERS[what]
    stands_for = {"LOOP": ("--asm", loop), "OBJECT": (f"{Path(loop).with_suffix('.o')}",)}
    given = [x for a in arguments for x in stands_for.get(a, (a,))]
    monkeypatch.chdir(tmp_path)
    if what == "compare":
        few(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", "immediates", "unrolled64")
    text = rendered(capsys, monkeypatch, width, *given)
    for head in heads:
        assert head in text, text


def test_whole_calls_are_a_line_each_and_reasons_stand_below(capsys, monkeypatch):
    command = "predict x86_64/copy_user --sizes 64 --microarch zen2"
    text = rendered(capsys, monkeypatch, 80, *command.split())
    assert re.search(
        r"^unrolled64 +zen2 +0 +64 +[\d.]+ \([\d.]+ to [\d.]+\) +[\d.]+$", text, re.M
    ), text
    assert re.search(r"^movsq_aligned +zen2 +\d+ +64 +- \([\d.]+ to ", text, re.M), text
    assert "- no figure on zen2 (movsb): needs erms, which zen2 lacks" in text
    assert "data alignment (destination:source) 0:0" in text


# What would take long to find, or needs another machine, is made up with the columns it has.
LONG = "processes differ: " + ", ".join(["1.02"] * 30) + " cycles"
MADE_UP = {
    "clock": "tsc-calibrated", "machine": "AMD EPYC (guest)", "microarch": "zen4",
    "kernel": "x86_64/csum", "variant": "adc4", "id": "dot_product_of_floats", "notion": "loop",
    "loop": "imul chain", "cycles": 3.01, "known": 3.0, "held": True, "basis": "documented",
    "uncertainty": 0.01, "status": "ok", "note": LONG, "offset": 16, "predicted": 1.0,
    "bottleneck": LONG, "unit": "cycles/call", "size_bytes": 64, "dst_align": 0, "src_align": 0,
    "cache": "hot", "self_test": LONG, "ratio": None, "verdict": "baseline", "points": 1170,
    "records": 90, "refused": 3, "processes": 3, "started": "2026-11-24T14:45:59Z",
    "code": "ab" * 20, "file": "results-or-kit.tar.gz", "new": 90, "there": 0,
    "missing": 0, "damaged": False, "bytes": 1026024, "kit": "44d89846" * 8, "variants": 32,
    "trials": 0, "files": ["0001-x86-uaccess-Clear-user-memory-in-one-loop.patch"],
    "notes": [LONG], "checks": [],
}  # fmt: skip


def frame(columns, *rows):
    return pd.DataFrame(
        [dict.fromkeys(columns, "") | MADE_UP | row for row in rows or [{}]], columns=list(columns)
    )


def judgement():
    return recommend.conclude(study(predictions({"movsq_aligned": 2.0, "loop32": 4.0})), None)


def of_tree():
    rows = comparison(study(predictions({"movsq_aligned": 2.0, "loop32": 4.0})))
    checks = pd.DataFrame({"variant": ["tree:6.12"], "passed": [True], "failure": [""]})
    return SimpleNamespace(rows=rows, notes=[], checks=checks)


UNMEASURED = dict.fromkeys(("measured", "uncertainty", "error_percent"))
MEASURED = {"measured": 1.02, "error_percent": -0.04, "error": LONG}
REFUSED = {"status": "refused", "reason": LONG, "cycles": None, "uncertainty": None}
WIDTH = {"figure": "dispatch width", "value": "6", "uncertainty": ""}
SLOW = [  # command, what answers it, its made-up answer, and what is shown
    ("self-test", (measure, "self_test"),
     lambda: frame(measure.SELF_TEST_COLUMNS, {}, {}), ("cycles", "known", "yes")),
    ("measure --hex 90", (lw, "measure_blocks"),
     lambda: frame(measure_blocks.TURN_COLUMNS, {"reason": LONG}), ("3.01", "0.01")),
    ("compare --hex 90", (lw, "compare_loops"),
     lambda: frame(measure_blocks.COMPARED_COLUMNS, UNMEASURED, MEASURED),
     ("predicted", "measured", "1.02", "+0.0 %")),
    ("measure x86_64/csum", (lw, "measure"),
     lambda: frame(readings.RESULT_COLUMNS, {}, REFUSED), ("3.01", "refused")),
    ("results", (lw, "results"), lambda: frame(results.COLUMNS), ("machine", "adc4", "points")),
    (f"import {__file__}", (lw, "import_results"),
     lambda: frame(results.IMPORT_COLUMNS, {"note": f"{LONG}; {LONG}"}), ("90 new", "3 refused")),
    ("kit", (lw, "kit"), lambda: frame(kit.COLUMNS), ("kit.tar.gz", "1026024", "1170")),
    ("patch x86_64/csum/adc4 --tree t -o o", (lw, "patch"),
     lambda: frame(patch.COLUMNS, {"status": "written"}), ("0001-x86-uaccess",)),
    ("calibrate -o cores", (calibrate, "calibrate"),
     lambda: frame(calibrate.COLUMNS, WIDTH, WIDTH | {"figure": "loads a cycle", "value": "2"}),
     ("dispatch width", "6")),
    ("recommend x86_64/copy_user", (recommend, "concluded"), judgement,
     ("answer", "winner", "loop32")),
    ("report x86_64/copy_user -o out", (report, "report"),
     lambda: [SimpleNamespace(recommendation=judgement().rows)],
     ("x86_64/copy_user copy_user", "loop32")),
    ("baseline x86_64/copy_user --tree t", (tree_baseline, "run"), of_tree,
     ("movsq_aligned", "llvm-mca")),
]  # fmt: skip


@pytest.mark.parametrize(("command", "by", "made", "heads"), SLOW)
@pytest.mark.usefixtures("models_held")
def test_each_verb_that_takes_long_shows_its_answer_at_any_width(
    command, by, made, heads, capsys, monkeypatch
):
    found = made()
    monkeypatch.setattr(*by, lambda *_, **__: found)
    for width in WIDTHS:
        text = rendered(capsys, monkeypatch, width, *command.split())
        for head in heads:
            assert head in text, text


def test_help_names_each_verb_in_a_line_of_80_columns(capsys, monkeypatch):
    text = rendered(capsys, monkeypatch, 80, "--help")
    for verb in cli.commands:
        [line] = [line for line in text.splitlines() if line.startswith(f"  {verb} ")]
        assert line.endswith("."), line
        assert not line.endswith("..."), line


def test_a_terminal_has_colour_unless_it_is_not_wanted():
    assert "\x1b[1m" in on_terminal(80, "list", "models")
    plain = on_terminal(80, "list", "models", NO_COLOR="1")
    assert not re.search(r"\x1b\[(3[0-9]|4[0-9]|9[0-9])", plain)


def test_in_a_pipe_a_row_is_a_line_whatever_the_window():
    narrow, wide = (run_here(*TABLE, COLUMNS=columns).stdout for columns in ("40", "400"))
    assert narrow == wide
    assert "\x1b" not in narrow
    rows = [line for line in narrow.splitlines() if "sandybridge" in line or "zen2" in line]
    assert len(rows) == 14
    assert "(this machine)" not in narrow
    assert all("pipeline" in row for row in rows)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_the_shell_takes(shell, tmp_path):
    script = run_here("completion", shell).stdout
    assert "To install it" in script
    assert "_LOOPWRIGHT_COMPLETE" in script
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here to read the script")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, "-n", tmp_path / "script"], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["rec"], ["recommend"]),
        (["predict", "x86_64/clear_user/pl"], ["x86_64/clear_user/plain"]),
        (["compare", "arm64/co"], ["arm64/copy_user"]),
        (["predict", "--microarch", "zen2,sky"], ["zen2,skylake"]),
        (["predict", "--model", "os"], ["osaca"]),
        (["completion", "z"], ["zsh"]),
    ],
)
def test_the_shell_completes(words, expected):
    *before, begun = words
    found = BashComplete(cli, {}, "loopwright", "_X").get_completions(before, begun)
    assert [item.value for item in found] == expected


def test_the_installed_program_answers_the_shell():
    asked = {"COMP_WORDS": "loopwright rec", "COMP_CWORD": "1"}
    done = run_program(check=True, _LOOPWRIGHT_COMPLETE="bash_complete", **asked)
    assert done.stdout == "plain,recommend\n"


@pytest.mark.parametrize("width", WIDTHS)
def test_statements_of_a_verdict_begin_lines_that_fit(width, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    said = (
        "zen2: +68.7 % to +99.3 % (simulated; off by up to 20 %); haswell: open, +2.0 % to +4.0 %"
    )
    output.paragraph({"kernel": "x86_64/put_event", "said": f"{said}; and more", "reason": ""})
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.endswith(tuple("0123456789")) for line in lines)
    begun = [line[8:].split()[0] for line in lines if line[8] != " "]
    assert begun == ["x86_64/put_event", "zen2:", "haswell:", "and"]
