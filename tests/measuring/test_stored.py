"""Results from elsewhere land in the column of the core that their machine is, and count there."""

import json
from dataclasses import replace

import pytest
from few_variants import few
from made_up import predictions, study
from test_store import BANNER

from loopwright import kernels, paths
from loopwright.code import assemble
from loopwright.judging.call_costs import ALIGNMENTS
from loopwright.judging.recommend import conclude
from loopwright.judging.study import MEASURED, compare, stored_measurements
from loopwright.kernels import contract_of
from loopwright.machine import harness
from loopwright.measuring import readings
from loopwright.measuring.readings import Sweep
from loopwright.measuring.results import import_results, results
from loopwright.measuring.store import Record, Run, Store
from loopwright.reporting.text import by_core

KERNEL = "x86_64/copy_user"
PROTOCOL = harness.protocol()
FAST = "overlapped"  # in the made-up results
ROME = {**BANNER, "fingerprint": "00000000000050fe"}


def records(cost, clock="tsc-calibrated", variants=(), code="", offset=0):
    """Made-up answers of three processes: cost maps variant and bytes to cycles a call."""
    kernel = kernels.load(KERNEL)
    for variant in kernel.variants.values():
        if variants and variant.name not in variants:
            continue
        object_ = code or assemble.user_code(variant).sha256
        sweep = Sweep(alignments=[*ALIGNMENTS])
        goals = readings.goals(variant, assemble.user_code(variant), contract_of(variant), sweep)
        for point in {p for goal in goals for p in goal.points}:
            cycles = cost(variant.name, point.count)
            answer = {
                "count": point.count,
                "dst_align": point.dst_align,
                "src_align": point.src_align,
                "skew": point.skew,
                "cache": "hot",
                "offset": offset,
                "cycles": cycles,
                "p10": 0.999 * cycles,
                "p90": 1.001 * cycles,
                "samples": [0.999 * cycles] * 4 + [cycles] * 12 + [1.001 * cycles] * 4,
                "taken": 24,
                "accepted": 20,
                "slow": 0,
                "slow_from": 0.0,
                "slow_to": 0.0,
                "two_speeds": "",
                "core_hz": 0 if clock == "perf-rdpmc" else 3_300_000_000,
                "clock": clock,
                "cpu": 3,
                "refused": "",
            }
            for process in (1, 2, 3):
                taken = {**answer, "milliseconds": 5.0 + process}
                yield Record(process, KERNEL, variant.name, object_, taken)


def cost(variant, size):
    return 10 + size / (32 if variant == FAST else 8)


def add(uid="u", started=1_700_000_000, banner=ROME, protocol=PROTOCOL, **made_up):
    run = Run(uid, banner["fingerprint"], started, protocol, "kit", banner)
    made_up = {"cost": cost, **made_up}
    Store.open().add(run, list(records(**made_up)))


@pytest.fixture
def three_variants(monkeypatch, tmp_path):
    """Have three variants of the kernel alone."""
    few(monkeypatch, tmp_path / "kernels", KERNEL, "movsq_aligned", "loop32", FAST)


def measured():
    """Return the loops that the store has of Zen 2, by variant."""
    rows, sources = stored_measurements(kernels.load(KERNEL), Store.open())
    assert [s.core for s in sources] == (["zen2"] if len(rows) else [])
    loops = rows[(rows["quantity"] == "loop") & (rows["microarch"] == "zen2")]
    return loops.set_index("variant")


@pytest.mark.slow
@pytest.mark.usefixtures("three_variants")
def test_a_zen2_machine_lands_in_the_zen2_column(monkeypatch, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for path in paths.models_root().iterdir():
        if path.is_file() or path.name in ("zen2", "sandybridge"):
            (models / path.name).symlink_to(path)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(models))
    add()
    rows = compare(KERNEL, quick=True, stored=True)
    loops = rows[(rows["source"] == MEASURED) & (rows["microarch"] == "zen2")].set_index("variant")
    assert loops.loc["loop32", "cycles"] == pytest.approx(32 / 8)
    assert loops.loc[FAST, "cycles"] == pytest.approx(loops.loc[FAST, "bytes_per_iteration"] / 32)
    assert set(loops["clock"]) == {"tsc-calibrated"}
    models = rows[(rows["source"] != MEASURED) & rows["cycles"].notna()].set_index("microarch")
    assert models.loc["zen2", "error_percent"].notna().any()
    assert models.loc["sandybridge", "error_percent"].isna().all()
    assert "clock tsc-calibrated" in by_core(rows)


@pytest.mark.usefixtures("three_variants")
def test_a_pmu_goes_before_other_clocks_and_the_newest_before_older_ones():
    add("calibrated", 3_000, cost=lambda *_: 3000.0)
    assert set(measured()["clock"]) == {"tsc-calibrated"}
    add("counted", 1_000, clock="perf-rdpmc")
    assert set(measured()["clock"]) == {"perf-rdpmc"}
    add("recounted", 2_000, clock="perf-rdpmc", cost=lambda v, n: 2 * cost(v, n))
    assert measured().loc["loop32", "cycles"] == pytest.approx(8)
    # One variant alone, though newer, does not hide a run of all.
    add("single", 4_000, clock="perf-rdpmc", variants=("loop32",))
    assert measured().loc["loop32", "cycles"] == pytest.approx(8)


@pytest.mark.usefixtures("three_variants")
def test_a_newer_run_of_fewer_points_hides_none_of_more():
    add("whole", 1_000)
    few = [r for r in records(lambda *_: 99.0, clock="perf-rdpmc") if r.answer["count"] != 256]
    run = Run("few", ROME["fingerprint"], 2_000, PROTOCOL, "kit", ROME)
    Store.open().add(run, few)
    assert measured().loc["loop32", "cycles"] == pytest.approx(4)
    assert set(measured()["clock"]) == {"tsc-calibrated"}


def test_other_code_and_other_protocols_count_for_nothing():
    add("other code", code="0" * 64)
    add("other protocol", protocol=0)
    assert measured().empty
    listed = results()
    assert set(listed["code"]) == {"other", "today's"}
    assert len(results(f"{KERNEL}/loop32")) == 2
    assert results("x86_64/csum").empty


@pytest.mark.usefixtures("three_variants")
def test_a_run_at_other_code_offsets_alone_counts_for_nothing():
    add(offset=7)
    assert measured().empty


def test_a_machine_that_no_core_describes_is_listed_and_not_used():
    # AMD family 26, model 68.
    leaves = {**ROME["identity"], "cpuid_00000001_0": "00b40f40 00800800 7ed8320b 178bfbff"}
    add(banner={**ROME, "identity": leaves, "fingerprint": "00000000000050fa"})
    assert measured().empty
    assert set(results()["microarch"]) == {""}


@pytest.mark.usefixtures("three_variants")
def test_points_of_too_few_processes_are_left_out():
    run = Run("cut", ROME["fingerprint"], 1, 1, "kit", ROME)
    Store.open().add(run, [r for r in records(cost) if r.process < 3])
    assert measured().empty
    # A run that was cut off does not hide an older one that is whole.
    add("whole", 0)
    assert measured().loc["loop32", "cycles"] == pytest.approx(4)


def as_file(run_, records, path):
    """Write stored records as a kit would have."""
    out = [{"loopwright_results": 1, "uid": run_.uid, "kit": "0" * 64, "version": "0.1.0"}]
    out[0]["protocol"] = run_.protocol
    out += [{"id": "facts", **run_.banner}]
    out += [{"id": "plan", "points": len(records) // 3, "processes": 3}]
    for process in (1, 2, 3):
        clock = {"clock": "tsc-calibrated", "cpu": 3, "ticks_a_second": 2_500_000_000}
        out += [
            {"id": "clock", "fingerprint": run_.machine, "self_test": [], "refused": "", **clock}
        ]
        for record in (r for r in records if r.process == process):
            name = f"{record.kernel}/{record.variant}"
            out += [{"id": name, "object": record.object, "point": 0, **record.answer}]
    out += [{"end": 1, "readings": len(records), "nothing_measured": ""}]
    path.write_text("".join(json.dumps(line) + "\n" for line in out))


def test_a_file_from_a_zen2_machine_lands_in_the_zen2_column(tmp_path, monkeypatch):
    add(banner=ROME)
    store = Store.open()
    [stored] = store.runs()
    path = tmp_path / "rome.jsonl"
    as_file(stored, list(store.records(stored)), path)
    monkeypatch.setenv("LOOPWRIGHT_RESULTS", str(tmp_path / "fresh.sqlite"))
    [row] = import_results([path]).to_dict("records")
    assert (row["microarch"], row["clock"], row["missing"]) == ("zen2", "tsc-calibrated", 0)
    rows, sources = stored_measurements(kernels.load(KERNEL), Store.open())
    found = study(predictions({"movsq_aligned": 2.0, FAST: 2.0}, cores=("sandybridge",)), rows)
    judged = conclude(replace(found, sources=tuple(sources), unmeasured="left out")).rows.iloc[0]
    assert judged["winner"] == FAST
    assert judged["confidence"].startswith("measured on zen2, models of the main loop on")
    # The mean over basis.SIZES from 64 bytes on.
    assert "zen2: +161.1 % (measured)" in judged["reason"]
    assert "zen2 (x86_64 part 0x31, tsc-calibrated, 2023-11-14)" in judged["stored"]
