"""Measurements: known answers hold within their uncertainty, or there is no number."""

import math
import os
import re
import shutil
import statistics
import subprocess
import sys

import pytest
from checkout import DATA
from few_variants import changed
from seen import answered, measured

from loopwright import kernels, toolchain
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import contract_of
from loopwright.machine import harness, hosts
from loopwright.machine.harness import Point
from loopwright.measuring.measure import measure, run
from loopwright.measuring.readings import RESULT_COLUMNS, self_test_span

FIXTURES = DATA / "kernels"
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")
STEPS = 16  # dependent instructions an iteration of the chains
_SPIN = "import time\nend = time.monotonic() + 100\nwhile time.monotonic() < end: pass"
KNOWN = {"register_add": 1.0, "imul": 3.0, "xor": 1.0}


@pytest.fixture(autouse=True)
def _fixtures(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))


@pytest.fixture
def noise():
    """Keep every CPU busy with more than it can do, at the usual priority and not for ever."""
    spin = ["chrt", "--other", "0", sys.executable, "-c", _SPIN]
    busy = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for process in busy:
        process.kill()
        process.wait()


def _assert_known_or_refused(rows):
    """Check loops of known cost; a call costs at least its chain. Skips where all are refused."""
    assert not rows.empty
    refused = rows[rows["status"] == "refused"]
    assert refused["cycles"].isna().all()
    assert refused["uncertainty"].isna().all()
    assert (refused["reason"] != "").all()
    for row in measured(rows).itertuples():
        known = KNOWN[row.variant] * STEPS
        assert row.reason or row.status == "ok"
        if row.quantity == "loop":
            assert abs(row.cycles - known) <= row.uncertainty, row
        else:
            assert row.cycles + row.uncertainty >= known * (row.size_bytes - 8), row


@pytest.mark.measures
@X86_ONLY
def test_known_answers_hold_or_are_refused():
    rows = run(kernels.select("x86_64/chains")[1], sizes=(256,))
    assert list(rows.columns) == RESULT_COLUMNS
    assert set(rows["quantity"]) == {"loop", "call"}
    _assert_known_or_refused(rows)


@pytest.mark.measures
@X86_ONLY
@pytest.mark.usefixtures("noise")
def test_noise_is_refused_or_kept_out():
    # Chains of one cycle and of three.
    variants = [kernels.select(f"x86_64/chains/{name}")[1][0] for name in ("register_add", "imul")]
    _assert_known_or_refused(run(variants, sizes=(256,)))


@pytest.mark.measures
@X86_ONLY
def test_rows_say_how_they_were_measured():
    names = ("copy_words", "clear_string", "put_records")
    variants = [kernels.select(f"x86_64/fixture/{name}")[1][0] for name in names]
    rows = run(variants, sizes=(0, 64), alignments=((0, 0), (9, 2)), offset=13, processes=2)
    assert tuple(dict.fromkeys(rows["variant"])) == names
    assert (rows["offset"] == 13).all()
    assert (rows["machine"] == hosts.machine()).all()
    copies = rows[(rows["variant"] == "copy_words") & (rows["quantity"] == "call")]
    assert sorted(zip(copies["size_bytes"], copies["dst_align"], strict=True)) == [
        (0, 0), (0, 9), (64, 0), (64, 9)
    ]  # fmt: skip
    loops = rows[rows["quantity"] == "loop"].set_index("variant")
    assert loops["unit"].to_dict() == {
        "copy_words": "cycles/iteration",
        "clear_string": "cycles/64 B",
        "put_records": "cycles/iteration",
    }
    assert loops["size_bytes"].to_dict() == {
        "copy_words": 8,
        "clear_string": 64,
        "put_records": 20,
    }
    clears = rows[rows["variant"] == "clear_string"]
    assert clears["skew_bytes"].isna().all()
    assert set(clears["src_align"]) == {0}
    records = rows[(rows["variant"] == "put_records") & (rows["quantity"] == "call")]
    assert set(records["size_bytes"]) == {0, 64 * 20}
    found = measured(copies)
    assert set(found["skew_bytes"]) <= {2048, 2055}
    assert set(found["clock"]) <= {"perf-rdpmc", "tsc-calibrated"}
    assert (found["processes"] == 2).all()
    assert found["dropped"].between(0, 2 / 3).all()


@pytest.mark.measures
@X86_ONLY
def test_loops_stand_at_each_offset_asked_for():
    variants = kernels.select("x86_64/fixture/copy_words")[1]
    rows = run(variants, offset=(60, 3, 3), processes=2)
    assert list(zip(rows["quantity"], rows["offset"], strict=True)) == [("loop", 60), ("loop", 3)]
    with_calls = run(variants, sizes=(8,), alignments=((0, 0),), offset=(60, 3), processes=1)
    assert list(with_calls["quantity"]) == ["call", "loop"] * 2


@pytest.mark.measures
@X86_ONLY
def test_buffers_stand_as_far_apart_as_asked_for():
    variants = kernels.select("x86_64/fixture/copy_words")[1]
    rows = run(variants, sizes=(64,), skews=(0, 3, 4095), processes=1)
    assert list(rows["quantity"]) == ["call"] * 9 + ["loop"] * 3
    assert list(zip(rows["dst_align"], rows["src_align"], strict=True)) == [
        (0, 0), (8, 8), (1, 1), (0, 61), (8, 5), (1, 62), (0, 1), (8, 9), (1, 2),
        (0, 0), (0, 61), (0, 1),
    ]  # fmt: skip
    found = measured(rows)
    asked = (found["dst_align"] - found["src_align"] - found["skew_bytes"]) % 64
    assert (asked == 0).all()
    assert set(found["skew_bytes"]) <= {0, 3, 4095}


@pytest.mark.measures
@X86_ONLY
def test_cold_calls_wait_for_memory():
    variants = kernels.select("x86_64/fixture/copy_words")[1]
    rows = run(variants, sizes=(64,), alignments=((0, 0),), caches=("hot", "cold"), processes=1)
    assert list(rows["cache"]) == ["hot", "cold", "hot"]
    hot, cold, _ = rows["cycles"]
    if math.isnan(hot) or math.isnan(cold):
        pytest.skip(f"not both were measured here: {', '.join(filter(None, rows['reason']))}")
    assert cold > 2 * hot


@X86_ONLY
def test_a_skew_that_contradicts_its_alignments_is_named():
    [chain] = kernels.select("x86_64/fixture/copy_words")[1]
    code, contract = assemble.user_code(chain), contract_of(chain)
    with pytest.raises(InputError) as error:
        list(
            harness.run("x86_64", harness.measure_job("a", code, contract, [Point(8, 1, 0, 0)], 0))
        )
    assert "not understood: point 8 1" in str(error.value)


@pytest.mark.measures
@X86_ONLY
def test_rows_carry_the_self_test_they_rest_on():
    rows = run(kernels.select("x86_64/chains/xor")[1], sizes=(0,), processes=1)
    assert (measured(rows)["milliseconds"] > 0).all()
    read = {
        name: [] if spans == "refused" else [float(cycles) for cycles in spans.split(" to ")]
        for name, spans in re.findall(
            r"([a-z ]+) ([\d.]+(?: to [\d.]+)?|refused)(?:, |$)", rows["self_test"].iloc[0]
        )
    }
    assert list(read) == ["add chain", "imul chain", "load stream", "taken branches", "nop stream"]
    # On a busy machine a try that failed is in the range of those that the row rests on.
    for chain, known in (("add chain", 1), ("imul chain", 3)):
        nearest = min(read[chain], key=lambda cycles, known=known: abs(cycles - known))
        assert nearest == pytest.approx(known, rel=1e-2)


@pytest.mark.measures
@X86_ONLY
def test_raw_samples_are_those_that_the_figures_are_of():
    [chain] = kernels.select("x86_64/chains/xor")[1]
    code, contract = assemble.user_code(chain), contract_of(chain)
    text = harness.measure_job("a", code, contract, [Point(64, 0, 0, 0)], 0)
    [record] = harness.run("x86_64", text)
    assert record["milliseconds"] > 0
    samples = answered(record)["samples"]
    assert record["cycles"] == pytest.approx(statistics.median(samples), rel=1e-6)
    assert 12 <= len(samples) == record["accepted"] - record["slow"]
    assert record["accepted"] <= record["taken"] <= 288
    assert max(samples) <= 1.03 * record["p10"] * (1 + 1e-3)


def test_code_of_another_isa_is_one_line():
    other = "arm64" if toolchain.host_isa() == "x86_64" else "x86_64"
    with pytest.raises(InputError, match=f"is {other} code.*loopwright kit"):
        measure(f"{other}/fixture/copy_words")


def test_emulated_code_is_never_timed():
    other = "arm64" if toolchain.host_isa() == "x86_64" else "x86_64"
    rows = run(kernels.select(f"{other}/fixture/copy_words")[1])
    assert set(rows["status"]) == {"refused"}
    assert rows["cycles"].isna().all()
    assert rows["reason"].str.startswith("emulated: no timing").all()
    assert set(rows["microarch"]) == {""}


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
@pytest.mark.skipif(toolchain.host_isa() == "arm64", reason="arm64 is not emulated here")
def test_the_harness_itself_refuses_to_time_under_an_emulator():
    [record] = harness.run("arm64", "job clock\nid clock\nend\n")
    assert record["clock"] == ""
    assert "emulated: no timing" in record["refused"]


@X86_ONLY
def test_what_breaks_its_contract_is_not_measured(tmp_path, monkeypatch):
    wrong = "copy_words.S", ".Ldone:\n", ".Ldone:\n\txorl\t%ebx, %ebx\n"
    changed(monkeypatch, tmp_path, "x86_64/fixture", wrong)
    rows = run(kernels.select("x86_64/fixture/copy_words")[1], sizes=(64,))
    assert set(rows["status"]) == {"refused"}
    assert rows["reason"].str.contains("breaks its contract: register rbx changed").all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"offset": 64}, "offset 64"),
        ({"offset": -1}, "offset -1"),
        ({"offset": (0, 64)}, "offset 64"),
        ({"offset": ()}, "no offset"),
        ({"offset": "every"}, "offset 'every'"),
        ({"sizes": (-5,)}, "size -5"),
        ({"sizes": (1 << 40,)}, "size 1099511627776"),
        ({"alignments": ()}, "no alignment"),
        ({"alignments": ((0, 4096),)}, "(0, 4096)"),
        ({"skews": (4096,)}, "skew 4096"),
        ({"skews": (3,), "alignments": ((0, 0),)}, "alignment 0:0 and skew 3"),
        ({"caches": ("warm",)}, "cache 'warm'"),
        ({"processes": 0}, "0 processes"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, said):
    variants = kernels.select(f"{toolchain.host_isa()}/fixture/copy_words")[1]
    with pytest.raises(InputError) as error:
        run(variants, **settings)
    assert said in str(error.value)


def test_a_skew_needs_two_sides():
    variants = kernels.select("x86_64/chains/xor")[1]
    with pytest.raises(InputError) as error:
        run(variants, skews=(0,))
    assert "leave the skew out" in str(error.value)


def test_arm64_code_stands_at_multiples_of_four():
    with pytest.raises(InputError) as error:
        run(kernels.select("arm64/fixture/copy_words")[1], offset=6)
    assert "multiples of 4" in str(error.value)


def test_a_stream_that_was_refused_says_so_in_the_line():
    def one(name, cycles):
        return {"name": name, "cycles": cycles}

    processes = [[one("add chain", 1.0), one("taken branches", None)], [one("add chain", 1.001)]]
    assert self_test_span(processes) == "add chain 1.0000 to 1.0010, taken branches refused"
