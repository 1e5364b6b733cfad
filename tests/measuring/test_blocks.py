"""Blocks measured: known answers, refusals with a reason, rows that say which."""

import json
import math
from pathlib import Path

import pytest

from loopwright import toolchain
from loopwright.cli import run as run_cli
from loopwright.measuring.measure_blocks import TURN_COLUMNS, measure_blocks

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 blocks")
LOADS = "488b06488b07498b00498b01"
# Why a quiet block may have no figure: others had the machine.
NOISE = ("disturbed", "self-test failed", "slopes", "something shares the core", "of no one speed")
KNOWN = {"4801c8": 1.0, "480fafc0": 3.0, "4811c8": 1.0}  # add, imul, adc: chains


def _file(path, rows):
    path.write_text("id,hex,offset\n" + "".join(f"{i},{h},{o}\n" for i, h, o in rows))
    return path


@pytest.mark.measures
@X86_ONLY
def test_chains_of_known_cost_hold_or_are_refused(tmp_path):
    rows = [(code, code, n * 7) for n, code in enumerate(KNOWN)]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="all")
    assert list(table.columns) == TURN_COLUMNS
    assert list(table["notion"]) == ["loop", "unrolled"] * len(KNOWN)
    for row in table.itertuples():
        if row.status == "refused":
            assert math.isnan(row.cycles)
            assert row.reason.startswith(NOISE)
        else:
            assert abs(row.cycles - KNOWN[row.id]) <= max(row.uncertainty, 0.02 * KNOWN[row.id])
            assert row.processes >= 2


@X86_ONLY
def test_rows_that_are_no_code_stay_with_the_reason(tmp_path):
    rows = [
        ("odd", "4", 0),
        ("cut", "48", 0),
        ("call", "e800000000", 0),
        ("ret", "c3", 0),
        ("out", "eb7f", 0),
        ("long", "90" * 1025, 0),
        ("back", "ebfe", 0),
        ("syscall", "0f05", 0),
    ]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="unrolled")
    assert (table["status"] == "refused").all()
    assert table["cycles"].isna().all()
    said = dict(zip(table["id"], table["reason"], strict=True))
    assert "a byte needs two" in said["odd"]
    assert "starts no whole x86-64 instruction" in said["cut"]
    assert "leaves the block" in said["call"]
    assert "leaves the block" in said["ret"]
    assert "branches out of the block" in said["out"]
    assert "1025 bytes are too long" in said["long"]
    assert "branches out of the block, or back" in said["back"]
    assert "leaves the block" in said["syscall"]


@pytest.mark.measures
@X86_ONLY
def test_loads_of_several_registers_do_not_meet_in_a_bank(tmp_path):
    table = measure_blocks(_file(tmp_path / "blocks.csv", [("loads", LOADS, 0)]), notion="all")
    for row in table[table["status"] != "refused"].itertuples():
        loads = 4 / row.cycles
        assert abs(loads - round(loads)) <= 0.05, row


TWO_SPEEDS = "0f31" + "0fbae0{:02x}" + "7378" + 30 * "480fafdb"  # rdtsc; bt; over 30 imuls or not


@pytest.mark.measures
@X86_ONLY
@pytest.mark.parametrize("bit", [20, 22, 24])
def test_a_block_of_two_speeds_makes_no_plain_figure(tmp_path, bit):
    path = _file(tmp_path / "blocks.csv", [("two", TWO_SPEEDS.format(bit), 0)])
    [row] = measure_blocks(path, notion="unrolled").to_dict("records")
    if "self-test failed" in row["reason"]:
        pytest.skip(f"nothing can be measured here: {row['reason']}")
    assert row["status"] in ("bimodal", "refused"), row
    assert row["reason"]


@pytest.mark.measures
@X86_ONLY
def test_streams_of_known_cost_are_covered_by_their_uncertainty(tmp_path):
    known = {  # cycles of a copy: latencies, which are the same on every core
        "480fafc0": 3.0,
        "480fafc04801c8": 4.0,
        "480fafc0480fafdb": 3.0,
        "4801c8": 1.0,
    }
    rows = [(code, code, 0) for code in known]
    table = measure_blocks(_file(tmp_path / "blocks.csv", rows), notion="all")
    found = table[table["status"] != "refused"]
    if found.empty:
        pytest.skip(f"nothing was measured: {table['reason'].iloc[0]}")
    covered = [abs(r.cycles - known[r.id]) <= r.uncertainty for r in found.itertuples()]
    assert sum(covered) >= len(covered) - 1, found[["id", "cycles", "uncertainty"]]


def test_arm64_rows_say_that_they_were_emulated(tmp_path):
    if toolchain.host_isa() == "arm64":
        pytest.skip("arm64 blocks are measured here")
    path = _file(tmp_path / "blocks.csv", [("add", "0000018b", 4)])
    table = measure_blocks(path, notion="all", isa="arm64")
    assert set(table["reason"]) == {"emulated: no timing (qemu-aarch64 runs its code here)"}
    assert set(table["microarch"]) == {""}
    with_loop = table.set_index("notion")["code"]["loop"]
    assert with_loop == "0000018b9c0700d1dcffffb5"  # sub x28, x28, #1; cbnz x28


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--blocks", "{}/absent.csv"], "absent.csv: No such file"),
        (["--blocks", "{}/binary.csv"], "binary.csv is no UTF-8 text"),
        (["--blocks", "{}/blocks.csv", "--notion", "lop"], "notion"),
        (["--blocks", "{}/blocks.csv", "--offset", "64"], "offset 64 is not in 0..63"),
        (["--blocks", "{}/blocks.csv", "--isa", "mips"], "unknown ISA"),
        (["--blocks", "{}/blocks.csv", "--sizes", "8"], "of your own take"),
        (["x86_64/copy_user", "--blocks", "{}/blocks.csv"], "exclude each other"),
        (["x86_64/copy_user", "--notion", "loop"], "are for --asm"),
        ([], "give KERNEL[/VARIANT], --asm FILE"),
    ],
)
def test_settings_that_make_no_sense_are_named(arguments, said, tmp_path, capsys):
    _file(tmp_path / "blocks.csv", [("add", "4801c8", 0)])
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    assert run_cli(["measure", *(a.format(tmp_path) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@X86_ONLY
def test_the_verb_prints_rows_as_json(tmp_path, capsys):
    path = _file(tmp_path / "blocks.csv", [("hlt", "f4", 0), ("none", "zz", 5)])
    assert run_cli(["measure", "--blocks", str(path), "--json"]) == 1  # no figure at all
    rows = json.loads(capsys.readouterr().out)
    assert [(r["id"], r["status"], r["cycles"]) for r in rows] == [
        ("hlt", "refused", None),
        ("none", "refused", None),
    ]
    assert Path(path).exists()
