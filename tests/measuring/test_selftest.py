"""The self-test: documented costs are read right, and wrong ones would be noticed."""

import json
import re
import shutil

import pytest

from loopwright import paths, toolchain
from loopwright.cli import run as run_cli
from loopwright.machine import harness
from loopwright.measuring.measure import SELF_TEST_COLUMNS, self_test

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")
FIRST = ["add chain", "imul chain", "load stream", "taken branches", "nop stream"]


@pytest.mark.measures
@X86_ONLY
def test_known_loops_read_what_is_known():
    rows = self_test(processes=2)
    assert list(rows.columns) == SELF_TEST_COLUMNS
    assert list(rows["loop"])[:5] == FIRST
    # What does not hold has a reason, and what holds has none.
    assert ((rows["reason"] == "") == rows["held"]).all()
    if len(rows) == len(FIRST):  # the others were not measured
        pytest.skip(f"too few of the first loops not hold here: {', '.join(set(rows['reason']))}")
    if not rows["held"].any():
        pytest.skip(f"no loop holds here: {rows['reason'].iloc[0]}")
    chains = rows.set_index("loop").loc[["xor chain", "lea chain", "imul chain"]]
    assert chains["known"].to_dict() == {"xor chain": 1, "lea chain": 1, "imul chain": 3}
    assert (chains["basis"] == "documented").all()
    held = rows[rows["held"]]
    assert (held["error_percent"] <= held["tolerance_percent"]).all()
    assert (rows["low"].isna() | (rows["low"] <= rows["high"])).all()


def _test(cycles, held, refused="", known=1.0):
    return {
        "name": "xor chain", "cycles": cycles, "known": known, "basis": "documented",
        "tolerance": 1e-3, "held": held, "refused": refused,
    }  # fmt: skip


def test_a_loop_that_does_not_hold_has_its_reason(monkeypatch):
    processes = [
        [_test(1.00012, 1)],
        [_test(None, 0, "disturbed: 3 of 48 samples acceptable, 16 needed")],
        [_test(1.0123, 0)],
    ]
    answers = ({"clock": "tsc-calibrated", "refused": "", "self_test": p} for p in processes)
    monkeypatch.setattr(harness, "run", lambda *_: iter([next(answers)]))
    [row] = self_test().to_dict("records")
    assert not row["held"]
    assert row["reason"] == (
        "1.0123 cycles in 1 of 3 processes; refused in 1 of 3 processes: "
        "disturbed: 3 of 48 samples acceptable, 16 needed"
    )
    # The error is the worst of those that read anything, wherever a refusal stands among them.
    assert row["error_percent"] == pytest.approx(1.23)
    assert (row["low"], row["high"]) == (1.00012, 1.0123)


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Return a function that lets a copy of the harness, with text replaced, do the measuring."""

    def change(file, old, new):
        copy = shutil.copytree(paths.HARNESS, tmp_path / "harness")
        text = (copy / file).read_text()
        assert old in text
        (copy / file).write_text(text.replace(old, new))
        monkeypatch.setattr(paths, "HARNESS", copy)
        harness.version.cache_clear()

    yield change
    harness.version.cache_clear()


@pytest.mark.measures
@X86_ONLY
def test_a_wrong_chain_refuses_the_run(changed):
    changed("x86_64/chains.S", "imul %eax, %eax", "lea (%rax, %rcx), %rax")
    [record] = harness.run("x86_64", harness.clock_job("clock"))
    if "imul chain:" in record["refused"]:
        pytest.skip(f"the chain was not measured here: {record['refused']}")
    said = r"self-test failed: .*imul chain at (1\.00|0\.99)\d\d( cycles an instruction)?, not 3"
    assert re.match(said, record["refused"])


@pytest.mark.measures
@X86_ONLY
def test_samples_in_slices_read_what_is_known(changed):
    changed("common/gauge.c", "#define UNSLICED 2", "#define UNSLICED 0")
    block = "job block\nid b\nisa x86_64\nseries\ncode 480fafc0\noffset 0\ntimes 512 1024\nend\n"
    record, chain = harness.run("x86_64", harness.self_test_job("a") + block)
    if record["refused"] or chain["refused"]:
        pytest.skip(f"not measured here: {record['refused'] or chain['refused']}")
    if record["clock"] == "perf-rdpmc":
        pytest.skip("a clock that counts cycles needs no slices")
    chains = [one for one in record["self_test"] if one["name"].endswith("chain") and one["known"]]
    assert [one["name"] for one in chains if not one["held"] and not one["refused"]] == []
    assert chain["series"][-1] == 1
    assert chain["cycles"] == pytest.approx(3, rel=0.01)


@pytest.mark.measures
@X86_ONLY
@pytest.mark.parametrize(("most", "quiet"), [(500, 0), (9000, 1)])
def test_a_core_is_quiet_while_a_stream_is_as_fast_as_alone(changed, most, quiet):
    changed("common/series.c", "#define SHARED 1030", f"#define SHARED {most}")
    session = harness.Session("x86_64")
    clock, answer = session.answers([harness.clock_job("a"), harness.quiet_job("b")])
    session.close()
    if clock["refused"]:
        pytest.skip(f"not measured here: {clock['refused']}")
    assert answer == {"id": "b", "quiet": quiet}


@pytest.mark.measures(loud=True)
@X86_ONLY
def test_the_verb_says_whether_all_hold(capsys):
    code = run_cli(["self-test", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert code == (0 if all(row["held"] for row in rows) else 1)
    assert all(bool(row["reason"]) != row["held"] for row in rows)
    assert {row["unit"] for row in rows} == {"cycles/instruction"}
