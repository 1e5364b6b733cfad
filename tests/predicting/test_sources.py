"""What a prediction rests on: each figure's source, and the assumptions that it would follow."""

import pytest

import loopwright as lw
from loopwright import microarchs
from loopwright.cli import run as run_cli
from loopwright.errors import InputError

STORE = "48890748ffc975f8"  # movq %rax,(%rdi); decq %rcx; jne


def test_each_instruction_names_where_its_figures_come_from():
    rows = lw.sources(hex=STORE, microarch="zen2")
    forms = rows[rows["least_cycles"].isna()]
    assert forms["figure"].tolist() == ["mov m64,r64", "dec r64", "jne rel"]
    assert forms["source"].str.contains("https://").all()
    assert forms["source"].iloc[0].startswith("uops-info")


def test_an_assumption_is_named_where_the_cycles_follow_it_and_not_where_they_do_not():
    rows = lw.sources("arm64/copy_user/to_user_pairs", microarch="tsv110")
    assumed = rows[rows["least_cycles"].notna()].set_index("of")
    line = assumed.loc["memory.stream_line_cycles"]
    entry = microarchs.load("tsv110").parameters["memory"]["stream_line_cycles"]
    shown = [
        lw.predict(
            "arm64/copy_user/to_user_pairs",
            microarch="tsv110",
            parameters={"memory.stream_line_cycles": str(entry[end])},
        )["cycles"][0]
        for end in ("low", "high")
    ]
    assert [line["least_cycles"], line["most_cycles"]] == pytest.approx(shown)
    assert line["confidence"] == "low"
    # Loads alone write no lines.
    loads = lw.sources(hex="010040f9210400f1c1ffff54", microarch="tsv110")
    assert "memory.stream_line_cycles" not in set(loads["of"])


def test_what_is_given_is_no_assumption():
    given = {"memory.stream_line_cycles": "0.9"}
    rows = lw.sources("arm64/copy_user/to_user_pairs", microarch="tsv110", parameters=given)
    assert "memory.stream_line_cycles" not in set(rows["of"])


def test_a_start_up_that_nobody_measured_is_one():
    rows = lw.sources("x86_64/copy_user/movsq_aligned", microarch="zen2").set_index("of")
    line = rows.loc["string.movs_startup"]
    assert line["most_cycles"] - line["least_cycles"] == pytest.approx(40 - 19)


def test_the_terminal_shows_both(capsys):
    spec = ["arm64/copy_user/to_user_pairs", "--microarch", "tsv110"]
    assert run_cli(["predict", *spec, "--sources"]) == 0
    out = capsys.readouterr().out
    assert "assumed: memory.stream_line_cycles = 0: " in out
    assert "llvm-19: LLVM 19" in out
    assert run_cli(["predict", *spec, "--sources", "--ports"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_other_models_name_none():
    with pytest.raises(InputError, match="names no sources"):
        lw.sources(hex=STORE, model="osaca")
