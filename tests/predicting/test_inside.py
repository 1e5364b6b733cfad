"""What happens inside a core: the timeline of its uops and the ports they use."""

import csv
import io
import re

import pytest

import loopwright as lw
from loopwright import kernels
from loopwright.cli import run

COPY8 = "488b064889074883c6084883c70848ffc975ed"  # load, store, add, add, dec, jne


@pytest.fixture(scope="module")
def rows():
    return lw.timeline(hex=COPY8, microarch="sandybridge", iterations=3)


def test_every_uop_of_every_iteration_has_a_row_with_its_text(rows):
    assert list(rows["iteration"].unique()) == [0, 1, 2]
    first = rows[rows["iteration"] == 0]
    assert list(first["instruction"]) == [0, 1, 1, 2, 3, 4, 5]
    assert first["text"].iloc[0] == "movq (%rsi), %rax"
    assert list(first["role"].iloc[:3]) == ["load", "store address", "store data"]
    # dec and jne are one uop, which the row of dec holds.
    assert list(first["how"].iloc[5:]) == ["macro-fused", "macro-fused"]
    assert list(first["uop"].isna()) == [False] * 6 + [True]


def test_cycles_are_in_the_order_of_the_pipeline(rows):
    steps = ["decoded", "dispatched", "ready", "issued", "executed", "retired"]
    cycles = rows[rows["uop"].notna()][[f"{step}_cycle" for step in steps]]
    assert (cycles.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)


def test_a_store_waits_for_the_load_and_its_port_is_named(rows):
    data = rows[rows["role"] == "store data"]
    assert set(data["waited_for"]) == {"operand from instruction 0"}
    assert set(data["port"]) == {"4"}


def test_ports_add_up_to_the_uops_of_each_instruction():
    rows = lw.ports(hex=COPY8, microarch="sandybridge,zen2")
    sums = rows.groupby(["microarch", "instruction"])["uops_per_iteration"].sum()
    # On Zen 2 dec does not fuse with the branch.
    assert list(sums["sandybridge"]) == pytest.approx([1, 2, 1, 1, 1, 0], abs=0.01)
    assert list(sums["zen2"]) == pytest.approx([1, 2, 1, 1, 1, 1], abs=0.01)


def test_the_variants_of_a_kernel_have_rows_and_a_rate_alone_is_an_error():
    rows = lw.ports("x86_64/copy_user", microarch="zen2")
    errors = rows.groupby("variant")["error"].first()
    assert errors["unrolled64"] == ""
    assert "rate alone" in errors["movsq"]
    assert set(rows["model"]) == {"pipeline"}


def test_all_means_every_kernel_of_the_cores_isa():
    rows = lw.predict("all", microarch="tsv110", offset=0)
    assert set(rows["kernel"]) == {k.id for k in kernels.every() if k.isa == "arm64"}
    assert rows["cycles"].notna().any()


def test_the_chart_shows_steps_and_says_what_it_cuts(capsys, monkeypatch):
    what = ["predict", "--hex", COPY8, "--microarch", "sandybridge", "--timeline"]
    assert run([*what, "3"]) == 0
    shown = capsys.readouterr().out
    assert "movq %rax, (%rdi)            p4 store data    QD..........IR" in shown
    # A window, which rich takes standard output for if told to.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*what, "3"]) == 0
    assert "are shown" not in capsys.readouterr().out
    assert run([*what, "30"]) == 0
    shown = capsys.readouterr().out
    assert "give fewer iterations" in shown
    assert all(len(re.sub("\x1b\\[[0-9;]*m", "", line)) <= 80 for line in shown.splitlines())


def test_the_chart_is_in_line_on_arm64_too(capsys):
    assert (
        run(
            ["predict", "arm64/copy_user/to_user_pairs", "--microarch", "tsv110", "--timeline", "1"]
        )
        == 0
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("0.")]
    assert len(lines) > 5
    assert not any("\t" in line for line in lines)
    # The role stands in one column, behind the text and the port.
    roles = ("load", "store address", "store data", "compute", "no port", "eliminated")
    columns = {min(at for role in roles if (at := line.find(f" {role}")) > 0) for line in lines}
    assert len(columns) == 1


def test_the_command_line_gives_rows_and_refuses_both_at_once(capsys):
    what = ["predict", "--hex", COPY8, "--microarch", "zen2"]
    assert run([*what, "--timeline", "1", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["instruction"] for row in rows] == ["0", "1", "1", "2", "3", "4", "5"]
    assert run([*what, "--ports"]) == 0
    assert "jne 0" in capsys.readouterr().out
    assert run([*what, "--ports", "--timeline", "1"]) == 2
    assert "exclude each other" in capsys.readouterr().err
