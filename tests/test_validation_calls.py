"""Whole calls held to what was measured and to what threads published."""

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from loopwright import paths
from loopwright.predicting import calls
from loopwright.predicting.calls import CallCost

_FOLDER = Path(__file__).resolve().parent.parent / "validation"


def _script(name):
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


host_calls, threads = _script("host_calls"), _script("threads")


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
        calls, "of_variants", lambda q: [[CallCost(*p, 8.0, 20.0, 30.0) for p in q[0].places]]
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
             "size_bytes": 36, "dst_align": 0, "src_align": 0, "cycles": 1.0, "uncertainty": 0.1,
             "clock": "perf"},
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


def _figure(**more):
    known = {
        "kernel": "arm64/copy_user", "variant": "to_user_nopan", "baseline": "to_user_pairs",
        "core": "tsv110", "size": 1024, "scope": "call", "published": 40.0,
    }  # fmt: skip
    return threads.Figure(**(known | more))


def test_cycles_around_calls_bring_speedups_down():
    plain = threads.speedup(_figure(), threads.NOTHING)
    around = threads.speedup(_figure(), threads.Around(100, 0, ""))
    assert 0 < around < plain


def test_a_system_call_clears_page_by_page():
    figure = _figure(
        kernel="x86_64/clear_user", variant="aligned16", baseline="immediates", core="zen2",
        size=10240, scope="system call",
    )  # fmt: skip
    free = threads._cost(figure, "aligned16", threads.NOTHING)
    assert threads._cost(figure, "aligned16", threads.Around(7, 100, "")) == free + 7 + 2 * 100


def test_what_is_around_is_found_from_the_figures_given():
    true = threads.Around(40, 0, "")
    known = [
        _figure(size=n, published=threads.speedup(_figure(size=n), true)) for n in (256, 512, 1024)
    ]
    assert threads.best(known) == threads.Around(40, 0, "0")


def test_no_row_is_asked_what_is_around_itself(monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "best", lambda known: asked.append(known) or threads.NOTHING)
    monkeypatch.setattr(threads, "speedup", lambda *_: 0.0)
    rows = list(threads.rows())
    every = threads.figures()
    assert len(rows) == len(every)
    firsts = iter(asked)
    for figure in every:
        others = next(firsts)
        assert all((o.variant, o.size) != (figure.variant, figure.size) for o in others)
        if any(o.variant != figure.variant for o in others):
            assert all(o.variant != figure.variant for o in next(firsts))
