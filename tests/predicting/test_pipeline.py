"""The pipeline simulator behind the interface of all models."""

import csv
import os
import signal
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from loopwright import microarchs, paths
from loopwright.cli import cli
from loopwright.code import binding
from loopwright.code.binding import parameters
from loopwright.errors import InputError
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.predict import predict

CLEAR = "48c707000000004883c708ffc975f2"  # 15 bytes: movq $0,(%rdi); add $8,%rdi; dec %ecx; jne


def _row(code: str, core: str, **more: Any) -> pd.Series:
    return predict(hex=code, microarch=core, **more).iloc[0]


@pytest.mark.parametrize(
    ("code", "core", "cycles"),
    [
        ("488b07488b4f08488b5710", "zen2", 1.5),  # two loads a cycle
        ("48890748894f0848895710", "zen2", 3.0),  # one store a cycle
        ("90" * 6, "zen2", 1.2),  # five nops a cycle from the op cache
        ("1f2003d5" * 8, "neoverse-n1", 2.0),
    ],
)
def test_it_knows_what_hardware_does_where_other_models_do_not(code, core, cycles):
    assert _row(code, core)["cycles"] == pytest.approx(cycles, rel=0.01)


def test_a_fork_predicts_on_all_cpus_as_its_parent_does():
    folder = paths.models_root() / "zen2"
    core = binding.Core(
        *[(folder / name).read_text() for name in ("core.toml", "instructions.csv")]
    )
    blocks = [(bytes.fromhex("90" * n + CLEAR), 0) for n in range(8)]
    expected = core.predict(blocks)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # where it waits for threads that only its parent has
        os._exit(core.predict(blocks) != expected)
    assert os.waitpid(child, 0)[1] == 0


def test_a_loop_that_straddles_a_line_is_half_as_fast_on_zen_2_alone():
    zen2 = predict(hex=CLEAR, microarch="zen2", offset="all").set_index("offset")["cycles"]
    # An instruction starts in the next line from 64 - 13 on; what fits whole does up to 64 - 15.
    assert (zen2[51:] / zen2[0]).between(1.8, 2.2).all()
    assert (zen2[:50] == zen2[0]).all()
    snb = predict(hex=CLEAR, microarch="sandybridge", offset="all")["cycles"]
    assert (snb.drop(51) == snb[0]).all()
    # There jne starts a line and does not fuse: a uop more for three full ports; uiCA says 1.28.
    assert snb[51] == pytest.approx(1.28, rel=0.02)


def test_zen_2_makes_two_accesses_of_32_bytes_a_cycle_stores_among_them():
    # Four loads and two stores by three registers, three additions, dec and jne.
    narrow, wide = (
        predict(
            asm=f"1: vmovaps (%rsi),%{r}mm0; vmovaps (%rdx),%{r}mm1; vmovaps %{r}mm0,(%rdi);"
            f"vmovaps 32(%rsi),%{r}mm2; vmovaps 32(%rdx),%{r}mm3; vmovaps %{r}mm2,32(%rdi);"
            "add $64,%rsi; add $64,%rdx; add $64,%rdi; dec %ecx; jne 1b",
            microarch="zen2",
        )["cycles"].item()
        for r in "xy"
    )
    assert narrow < wide == pytest.approx(3.0)


def test_chains_of_vectors_overlap_as_far_as_their_scheduler_goes_on_zen_2():
    chain = "1: vmovaps (%rsi),%xmm0;" + "vaddps %xmm1,%xmm0,%xmm0;" * 40 + "dec %ecx; jne 1b"
    small, large = (
        predict(asm=chain, microarch="zen2", parameters=parameters)["cycles"].item()
        for parameters in ({}, {"scheduler.pool_entries": "100"})
    )
    assert small > 1.5 * large


def test_an_ideal_front_end_takes_the_difference_away():
    ideal = predict(hex=CLEAR, microarch="zen2", offset=59, parameters={"front_end": "ideal"})
    assert ideal["cycles"].item() == pytest.approx(_row(CLEAR, "zen2", offset=0)["cycles"])


def test_a_string_instruction_gets_cycles_per_64_bytes():
    # 32 B a cycle on Zen 2 in L1, by either width.
    for code in ("f3a4", "f348a5"):
        assert _row(code, "zen2")["cycles"] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("0f01cb", "stac"),
        ("e800000000", "does not follow"),
        ("c3", "does not follow"),
        ("f348a5ffc9", "count"),
        ("0f0b", "ud2"),
    ],
)
def test_what_it_would_have_to_guess_is_an_error(code, words):
    row = _row(code, "zen2")
    assert pd.isna(row["cycles"])
    assert words in row["error"]


def test_a_cost_that_nobody_measured_is_named_with_the_parameter_that_sets_it():
    pair = "0f01cb" + "0f01ca"  # stac; clac
    assert _row(pair, "zen2")["error"] == "no figures for stac; serial.stac_clac=N sets its cycles"
    cycles = [
        _row(pair, "zen2", parameters={"serial.stac_clac": cost})["cycles"] for cost in ("10", "30")
    ]
    assert cycles[1] - cycles[0] == pytest.approx(40, abs=0.1)


def test_a_core_without_figures_has_no_answer():
    core = replace(microarchs.load("zen2"), id="new")
    (answer,) = Pipeline().predict([Block("x86_64", b"\x90", "unrolled", 0)], core)
    assert answer.cycles is None
    assert "no figures for new" in answer.error


def test_what_nobody_has_measured_gives_a_range():
    pair = "0f01cb" + "0f01ca"  # stac; clac
    row = _row(pair, "zen2")
    assert pd.isna(row["cycles"])
    assert 0 < row["cheap"] < row["dear"]
    given = _row(pair, "zen2", parameters={"serial.stac_clac": "20"})
    assert row["cheap"] < given["cycles"] < row["dear"]
    assert pd.isna(given["cheap"])
    assert pd.isna(_row("4801c8", "zen2")["cheap"])  # add rax, rcx rests on nothing of the kind


def test_a_range_has_the_cycles_inside():
    rows = predict("arm64/copy_user", microarch="tsv110")
    assert (rows["cheap"] <= rows["cycles"]).all()
    assert (rows["cycles"] <= rows["dear"]).all()
    assert (rows["cheap"] < rows["dear"]).all()
    assert (rows["low"] < rows["cheap"]).all()
    assert (rows["dear"] < rows["high"]).all()


def test_parameters_are_known_by_name():
    assert "uop_cache.lines" in parameters()
    with pytest.raises(InputError, match=r"uop_cache\.lines"):
        predict(hex="90", microarch="zen2", parameters={"uop_cache.line": "3"})
    with pytest.raises(InputError, match="real or ideal"):
        predict(hex="90", microarch="zen2", parameters={"front_end": "perfect"})


MOVNTI = "480fc307"  # movnti %rax, (%rdi)


def test_what_a_prediction_leaves_out_stands_beside_it():
    assert "write-combining" in _row(MOVNTI, "zen2")["note"]
    assert _row("48890f", "zen2")["note"] == ""
    assert _row("0f01cb", "zen2")["note"] == ""  # no number, nothing to say of it


def test_what_a_prediction_leaves_out_is_shown_under_the_table_and_in_csv():
    asked = ["predict", "--hex", MOVNTI, "--microarch", "zen2,skylake"]
    shown = CliRunner().invoke(cli, asked).output
    assert shown.count("note: movnti: write-combining") == 1
    both = CliRunner().invoke(cli, [*asked, "--model", "pipeline,llvm-mca"]).output
    assert "note: pipeline: movnti: write-combining" in both
    rows = list(csv.DictReader(CliRunner().invoke(cli, [*asked, "--csv"]).output.splitlines()))
    assert len(rows) == 2
    assert all("write-combining" in row["note"] for row in rows)


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (41, "several limits together, first op cache (the branch touches a 32-byte boundary"),
        (34, "several limits together, first op cache (1.50 by itself)"),
    ],
)
def test_limits_that_explain_no_cycles_alone_are_named_together(offset, said):
    # mov; imul; mov; shl; xor; add; cmp with jne: the branch ends behind 64 bytes at offset 41.
    loop = "8b0769c095e9d15b89c2c1ea1831d04883c7044839f775e8"
    assert _row(loop, "skylake", offset=offset)["bottleneck"].startswith(said)
