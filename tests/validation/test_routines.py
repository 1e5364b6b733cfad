"""The instructions that a published routine executes, of its source."""

import pandas as pd
import pytest

import loopwright as lw

SOURCE = """
routine:
\tmov x3, #2
loop:
\tldr x1, [x0], #8
\tbl other
\tsubs x3, x3, #1
\tb.ne loop
\tret
other:
\tadd x1, x1, #1
\tret
""".replace("\t", "        ")


@pytest.fixture
def listed():
    row = {"id": "it", "core": "neoverse-n1", "cycles": 9, "file": "it.S", "prints": ""}
    return pd.DataFrame([{**row, "start": "routine", "loops": "loop:2", "source": "made up"}])


def test_inner_loops_are_repeated_and_calls_stand_in_place(validation, tmp_path, listed):
    (tmp_path / "it.S").write_text(SOURCE)
    (row,) = validation("routines").rows([tmp_path], listed).to_dict("records")
    straight = "mov x3, #2;" + "ldr x1, [x0], #8; add x1, x1, #1; subs x3, x3, #1;" * 2
    (code,) = lw.read_assembly(straight, isa="arm64")["hex"]
    assert (row["hex"], row["cycles"]) == (code, 9)


def test_a_routine_whose_file_is_not_here_is_named(validation, tmp_path, listed, capsys):
    assert validation("routines").rows([tmp_path], listed).empty
    assert "not here: it.S (it)" in capsys.readouterr().err
