"""What verbs print for people: measurements and several models, in windows as they are."""

import re

import pandas as pd
import pytest
from made_up import CALL

import loopwright as lw
from loopwright.cli import run
from loopwright.measuring.readings import RESULT_COLUMNS

WHY = "the samples of a process lie 4.1 % apart (at most 1 %)"


def _row(variant: str, **more: object) -> dict[str, object]:
    usual = CALL | {
        "kernel": "x86_64/clear_user", "variant": variant, "size_bytes": 4096, "dst_align": 1,
        "src_align": 0, "skew_bytes": None, "offset": 48, "cycles": 530.87, "p10": 525.0,
        "p90": 541.0, "uncertainty": 1.593, "samples": 300, "processes": 3, "microarch": "zen4",
        "machine": "Some 96-Core Processor (guest)", "milliseconds": 1.0, "against": "",
        "self_test": "add chain 1.0000, imul chain 2.9999 to 3.0000", "verdict": "",
        "note": "trust differences from 3 % on",
    }  # fmt: skip
    return dict.fromkeys(RESULT_COLUMNS) | usual | more


@pytest.fixture
def measured(monkeypatch):
    """Have measure find what a machine with a clock of its own would."""
    base = {"against": "unrolled64"}
    rows = pd.DataFrame(
        [
            _row("unrolled64"),
            _row(
                "plain", **base, ratio=0.8712, ratio_low=0.8611, ratio_high=0.8801, verdict="slower"
            ),
            _row(
                "negative_index_fused",
                **base,
                cycles=None,
                uncertainty=None,
                status="refused",
                reason=WHY,
            ),
        ],
        columns=RESULT_COLUMNS,
    )
    monkeypatch.setattr(lw, "measure", lambda *_, **__: rows)
    return rows


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [re.sub("\x1b\\[[0-9;]*m", "", line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("columns", [80, 100, 120, 200])
def test_measurements_fit_any_window_and_are_a_line_a_point(columns, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["measure", "x86_64/clear_user"]) == 0
    lines = _lines(capsys)
    rule = next(n for n, line in enumerate(lines) if set(line.strip()) == {"─"})
    end = next(n for n, line in enumerate(lines) if line.startswith("speed: "))
    table, points = lines[:end], lines[rule + 1 : end]
    assert max(map(len, table)) <= columns
    assert len(points) == 3 if columns > 80 else len(points) <= 4
    assert "530.87" in points[0]
    assert "1.593" in points[0]
    assert "0.861 to 0.880" in points[1]
    assert re.match(r" ?negative_index_fused .*refused", points[-1])
    rest = lines[end:]
    assert f"refused (negative_index_fused): {WHY}" in " ".join(map(str.strip, rest))
    assert "measured on Some 96-Core Processor (guest), clock tsc-calibrated" in rest
    assert "note: trust differences from 3 % on" in rest
    assert any(line.startswith("self-test, cycles an instruction: add chain") for line in rest)


def test_in_a_pipe_measurements_have_all_their_columns(measured, capsys):
    assert run(["measure", "x86_64/clear_user", "--csv"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split(",") == [name for name in RESULT_COLUMNS if name != "raw"]
    assert len(rows) == len(measured)


def test_several_models_stand_side_by_side(capsys):
    what = ["predict", "x86_64/clear_user", "--microarch", "zen2"]
    assert run([*what, "--model", "pipeline,llvm-mca,uica"]) == 0
    lines = _lines(capsys)
    assert lines[0].split()[-3:] == ["pipeline", "llvm-mca", "uica"]
    rows = {line.split()[0]: line.split() for line in lines[2:9]}
    found = lw.predict("x86_64/clear_user", microarch="zen2", model="pipeline,llvm-mca")
    for variant in ("plain", "immediates", "unrolled64"):
        cycles = found[found["variant"] == variant]["cycles"]
        assert rows[variant][-3:] == [*(f"{value:.2f}" for value in cycles), "-"]
    assert "- uica on zen2: uiCA has no model of zen2" in lines
    assert any("rep stosq" in line and "(rep_stosq)" in line for line in lines)
    assert any(line.startswith("+N: cycles once") for line in lines)


def test_rows_of_several_models_stay_rows_where_a_program_reads_them(capsys):
    command = "predict --hex 4801d8 --microarch zen2,haswell --model pipeline,osaca"
    assert run([*command.split(), "--csv"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 4
    assert head.startswith("id,microarch,model,")
