"""Whole calls held to what was measured and to what threads published."""

import importlib
from dataclasses import replace

import pandas as pd
import pytest
from checkout import ROOT

from loopwright import paths
from loopwright.judging import unmeasured
from loopwright.predicting.calls import CallCost

_FOLDER = ROOT / "validation"

with pytest.MonkeyPatch.context() as _patch:
    _patch.syspath_prepend(_FOLDER)
    host_calls, threads = map(importlib.import_module, ("host_calls", "threads"))


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "build_dir", lambda: tmp_path_factory.getbasetemp() / "build")
        yield


def _kept(**more):
    variant = host_calls._variant("x86_64/copy_user", "unrolled64")
    row = {
        "kernel": "x86_64/copy_user", "variant": "unrolled64",
        "sha256": host_calls._sha256(variant), "count": 64, "dst_align": 0, "src_align": 0,
        "cycles": 10.0, "uncertainty": 0.1, "status": "ok", "clock": "perf", "date": "2026-01-01",
    }  # fmt: skip
    return row | more


def test_measured_rows_are_beside_what_is_predicted_of_the_same_call():
    rows = pd.DataFrame([_kept(), _kept(count=640, cycles=80.0)])
    found = host_calls.compare(rows, "goldencove")
    assert len(found) == 2
    assert found["predicted_cycles"].is_monotonic_increasing
    ratios = found["predicted_cycles"] / found["measured_cycles"]
    assert list(found["error_percent"]) == pytest.approx(list(100 * (ratios - 1)))


def test_a_call_between_predicted_and_mispredicted_lies_inside(monkeypatch):
    monkeypatch.setattr(
        unmeasured, "of_variants", lambda q: [[CallCost(*p, 8.0, 20.0, 30.0) for p in q[0].points]]
    )
    rows = pd.DataFrame([_kept(cycles=c) for c in (4.0, 8.0, 15.0, 25.0)])
    found = host_calls.compare(rows, "goldencove")
    assert list(found["outside_percent"]) == pytest.approx([100, 0, 0, -20])
    assert list(found["error_percent"] > 0) == [True, False, False, False]


def test_rows_of_code_that_changed_are_left_out():
    rows = pd.DataFrame([_kept(), _kept(variant="loop32", sha256="0" * 16)])
    assert set(host_calls.compare(rows, "goldencove")["variant"]) == {"unrolled64"}


def test_records_are_counted_as_the_contract_does():
    rows = pd.DataFrame(
        [
            {"kernel": "x86_64/put_event", "variant": "masked", "quantity": "call", "status": "ok",
             "size_bytes": 36, "offset": 0, "dst_align": 0, "src_align": 0, "cycles": 1.0,
             "uncertainty": 0.1, "clock": "perf"},
        ]
    )  # fmt: skip
    [row] = host_calls.keep(rows, "2026-01-01").to_dict("records")
    assert row["count"] == 3


def test_kept_rows_are_those_of_the_code_that_is_here():
    for path in (_FOLDER / "calls").glob("*.csv"):
        rows = pd.read_csv(path)
        of_today = [
            host_calls._sha256(host_calls._variant(*key)) == group["sha256"].iloc[0]
            for key, group in rows.groupby(["kernel", "variant"])
        ]
        assert sum(of_today) >= len(of_today) / 2, f"{path.name} is of older code: measure again"


@pytest.fixture(scope="module")
def module_rows():
    return threads.module_rows()


def _sized(*sizes):
    return [f for f in threads.module_figures() if f.size_bytes in sizes]


def test_cycles_around_calls_bring_speedups_down():
    [figure] = [f for f in _sized(1024) if f.variant == "to_user_nopan"]
    plain = threads.speedup(figure, threads.Unknowns())
    assert 0 < threads.speedup(figure, threads.Unknowns(around=100)) < plain


def test_lines_from_beyond_the_l1_cache_fill_the_reorder_buffer():
    near, far = _sized(32768), _sized(131072)
    assert [threads.far_share(f) for f in near + far] == [0, 0, 0.75, 0.75]
    given = threads.Unknowns(line="0.6", far=40)
    to_user, from_user = (threads.speedup(f, given) for f in far)
    at_l1 = [threads.speedup(f, threads.Unknowns(line="0.6")) for f in far]
    assert to_user < at_l1[0]
    assert from_user > at_l1[1] + 20, "half as many loads keep twice the lines in flight"


def test_unknowns_are_found_from_the_figures_given():
    true = threads.Unknowns(40, "0.6", 38)
    known = [
        replace(f, percent=threads.speedup(f, true))
        for f in _sized(256, 512, 1024, 131072, 262144)
        if f.variant == "from_user_nopan"
    ]
    assert threads.best(known) == true


def test_no_row_is_predicted_by_what_its_own_routine_shows(monkeypatch):
    asked = []

    def best(known):
        asked.append({f.variant for f in known})
        return threads.Unknowns()

    monkeypatch.setattr(threads, "best", best)
    threads.module_rows()
    assert asked == [{"from_user_nopan"}, {"to_user_nopan"}]


def test_calls_of_the_test_module_are_predicted_by_the_other_routine(module_rows):
    assert len(module_rows) == 24
    assert not any(row.figure.fitted for row in module_rows)
    misses = [abs(row.miss) for row in module_rows]
    assert sum(misses) / 24 < 8, misses
    assert sum(miss <= 10 for miss in misses) >= 19, misses


def test_system_calls_are_compared_by_differences():
    rows = threads.system_calls()
    assert len(rows) == 12
    assert {row.figure.microarch for row in rows} == {"zen1"}
    for row in rows:
        assert 3.2 < row.clock_ghz < 3.5, row
        assert row.predicted == pytest.approx(row.figure.percent, abs=1), row


def test_the_clock_of_a_row_is_not_its_own(monkeypatch):
    kept = threads.table()
    moved = [
        replace(f, before=2 * f.before) if f.unit == "us" and f.size_bytes == 1024 else f
        for f in kept
    ]
    before = {(r.figure.variant, r.figure.quantity): r for r in threads.system_calls()}
    monkeypatch.setattr(threads, "table", lambda: moved)
    for row in threads.system_calls():
        if row.figure.size_bytes == 1024:
            old = before[row.figure.variant, row.figure.quantity]
            assert row.predicted == old.predicted
            assert row.clock_ghz < old.clock_ghz / 2


def test_a_share_says_from_where_on_stac_decides():
    [pair] = [f for f in threads.workloads() if f.share_before == 5.17]
    found = threads.needed(pair)
    assert found.parameter == "serial.stac_clac"
    assert found.least < found.value < 50 < found.most
    assert not threads._meets(pair, found.parameter, found.value - 1)
