"""Windows of a simulated core are found again: reorder buffer, scheduler, store queue."""

import re
import tomllib
from itertools import product

import calibrations
import pytest
from quick import some

from loopwright.microbench import (
    blockers,
    dispatch_width,
    kits,
    latency,
    throughput,
    window_corner,
    windows,
)
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated, Timing
from loopwright.microbench.windows import BUFFER, BURST, RETIRED, SCHEDULER, STORES
from loopwright.predicting.core_figures import forms as table

ONE_SCHEDULER = {
    "neoverse-n1": {"scheduler.pools": ""},
    "tsv110": {"scheduler.pools": ""},
}  # the other cores have one


def measured(machine):
    """Return the windows that a machine shows."""
    laboratory = Laboratory(machine)
    memory = machine.isa == "x86_64"  # AArch64 has no experiments with memory
    all_forms = kits.forms(machine.isa, machine.features)[0] if memory else []
    forms = {form.name: form for form in all_forms}
    return windows.measure(laboratory, forms, dispatch_width.measure(laboratory))


def holds(window, true):
    return not window.least and window.low <= true <= window.high


@pytest.mark.parametrize(
    ("core", "buffer", "entries", "whole"),
    [
        ("skylake", 224, 97, True),
        pytest.param("skylake", 301, 61, True, marks=pytest.mark.slow),
        pytest.param("skylake", 149, 114, True, marks=pytest.mark.slow),
        pytest.param("zen2", 224, 128, False, marks=pytest.mark.slow),
        ("zen2", 393, 45, False),
        ("zen4", 320, 160, None),  # its ports in turn hide it
        ("goldencove", 512, 97, True),
        ("neoverse-n1", 171, 71, False),
    ],
)
def test_reorder_buffer_and_scheduler_are_exact(core, buffer, entries, whole):
    settings = {"retire.reorder_buffer": str(buffer), "scheduler.entries": str(entries)}
    shown = measured(Simulated(core, settings | ONE_SCHEDULER.get(core, {})))
    for name, true in ((BUFFER, buffer), (SCHEDULER, entries)):
        window = shown.by_name[name]
        assert holds(window, true), window
        assert window.high - window.low <= 1, window
    assert shown.whole_groups is whole


SHORT = {"sandybridge": (168, 54), "haswell": (192, 60), "tsv110": (131, 50)}


@pytest.mark.parametrize(
    ("core", "seed"), some(product(SHORT, range(3)), {("sandybridge", 0), ("tsv110", 0)})
)
def test_short_chains_leave_a_range_that_says_so(core, seed):
    buffer, entries = SHORT[core]
    settings = {"retire.reorder_buffer": str(buffer), "scheduler.entries": str(entries)}
    shown = measured(Simulated(core, settings | ONE_SCHEDULER.get(core, {}), seed=seed)).by_name
    for name, true in ((BUFFER, buffer), (SCHEDULER, entries)):
        assert holds(shown[name], true), shown[name]
        assert shown[name].high - shown[name].low <= 5
        ranged = shown[name].low < shown[name].high
        assert ranged == (f"{shown[name].low} to {shown[name].high}" in shown[name].note)


def test_rename_that_does_not_wait_for_whole_groups_is_told():
    shown = measured(Simulated("skylake", {"rename.whole_groups": "false"}))
    assert shown.whole_groups is False
    assert holds(shown.by_name[SCHEDULER], 97)


@pytest.mark.parametrize(("core", "buffer"), [("neoverse-n1", 128), ("tsv110", 97)])
def test_what_the_reorder_buffer_hides_is_a_bound(core, buffer):
    shown = measured(Simulated(core, ONE_SCHEDULER[core])).by_name
    assert holds(shown[BUFFER], buffer)
    assert shown[SCHEDULER].least
    assert buffer - 10 <= shown[SCHEDULER].low <= buffer
    assert "reorder buffer first" in shown[SCHEDULER].note


@pytest.mark.parametrize(("core", "entries"), [("neoverse-n1", 40), ("tsv110", 33)])
def test_schedulers_of_integer_and_vector_uops_are_told_apart(core, entries):
    scheduler = measured(Simulated(core, {"scheduler.pool_entries": str(entries)})).by_name[
        SCHEDULER
    ]
    general, vector, both = map(int, re.findall(r"(\d+) that compute", scheduler.note))
    assert "of several schedulers" in scheduler.note
    assert abs(general - entries) <= 1
    assert abs(vector - entries) <= 1
    assert abs(both - 2 * entries) <= 1
    assert scheduler.value == both


def test_what_no_loop_fills_is_a_bound():
    shown = measured(Simulated("neoverse-n1", {"retire.reorder_buffer": "400"})).by_name
    assert shown[BUFFER].least
    assert 200 < shown[BUFFER].low <= 400
    assert "as many as a loop takes" in shown[BUFFER].note


@pytest.mark.parametrize("stores", [64, 37])
def test_the_store_queue_is_found_where_stores_are_written_one_by_one(stores):
    shown = measured(Simulated("zen4", {"memory.store_queue": str(stores)})).by_name
    assert holds(shown[STORES], stores)
    assert measured(Simulated("skylake")).by_name[STORES].least


@pytest.mark.parametrize(("core", "retired"), [("skylake", 4), ("zen4", 7), ("goldencove", 8)])
def test_what_retires_in_a_cycle_is_found_behind_a_fence(core, retired):
    shown = measured(Simulated(core, {"retire.width": str(retired)})).by_name
    assert holds(shown[RETIRED], retired)
    assert shown[RETIRED].value == retired
    assert RETIRED not in measured(Simulated("neoverse-n1")).by_name


def test_nops_that_share_places_are_not_counted():
    width = dispatch_width.measure(Laboratory(Simulated("zen4")))
    assert (width.instructions, width.nops) == (6, False)
    width = dispatch_width.measure(Laboratory(Simulated("zen2")))
    assert (width.instructions, width.nops) == (5, True)


@pytest.mark.parametrize(
    ("core", "settings", "instructions"),
    [
        ("sandybridge", {}, 4),
        ("haswell", {"rename.width": "3"}, 3),
        ("zen2", {"rename.instructions": "6", "uop_cache.line_uops": "7"}, 6),
        (
            "zen4",
            {"macro_fusion.nops": "false", "rename.width": "5", "uop_cache.line_uops": "6"},
            5,
        ),
    ],
)
def test_forms_take_a_place_each_where_an_op_cache_is_in_the_way_of_some_nops(
    core, settings, instructions
):
    machine = Simulated(core, settings)
    laboratory = Laboratory(machine)
    width = dispatch_width.measure(laboratory)
    assert width.instructions == instructions
    by_name = {form.name: form for form in kits.forms(machine.isa, machine.features)[0]}
    names = ["add r64,m64", "shl r64,i8", "andps x,x", "cmovo r64,r64", "lea.bd r32", "mov r32,r32"]
    forms = [by_name[name] for name in names]
    rates = throughput.measure(laboratory, forms)
    latencies = latency.measure(laboratory, forms, throughput.cycles(rates))
    slots = blockers.dispatch_slots(laboratory, forms, rates, latencies, width)
    expected = {name: int(table(core)[name]["slots"]) for name in names}
    assert {name: slots[name].uops for name in names} == expected


class _Deaf(Simulated):
    """A machine that answers some trials and refuses others for good."""

    def __init__(self, share):
        super().__init__("zen2")
        self._share = share

    def measure(self, trials):
        refused = Timing(None, refused="not measured yet")
        timings = super().measure(trials)
        return [
            timing if int(trial.key, 16) % 100 < self._share else refused
            for trial, timing in zip(trials, timings, strict=True)
        ]


@pytest.mark.parametrize("share", [0, 60, 97])
def test_what_is_not_answered_is_not_guessed(share):
    machine = _Deaf(share)
    laboratory = Laboratory(machine)
    forms = {form.name: form for form in kits.forms(machine.isa, machine.features)[0]}
    width = dispatch_width.measure(Laboratory(Simulated("zen2")))
    shown = windows.measure(laboratory, forms, width).by_name
    for name, true in ((BUFFER, 224), (SCHEDULER, 128)):
        if name in shown:
            assert shown[name].low <= true
            assert shown[name].least or true <= shown[name].high
    assert share or not shown


def test_windows_are_written_with_what_they_rest_on(tmp_path_factory):
    models, rows = calibrations.learned(tmp_path_factory, "skylake")
    figures = rows.set_index("figure")["value"]
    assert (figures[BUFFER], figures[SCHEDULER]) == (187, 75)
    folder = models / "simulated-skylake"
    core = tomllib.loads((folder / "core.toml").read_text())
    assert core["retire"]["reorder_buffer"]["value"] == 187
    assert core["scheduler"]["entries"]["value"] == 75
    assert core["rename"]["whole_groups"]["value"] is True
    for part, name in (("retire", "reorder_buffer"), ("scheduler", "entries")):
        assert core[part][name]["source"].endswith("[calibrated]")
        assert core[part][name]["confidence"] == "high"
    measured_csv = (folder / "measured.csv").read_text()
    assert ",reorder buffer,187," in measured_csv
    assert ",store queue,>= " in measured_csv


@pytest.mark.parametrize(
    ("core", "settings", "dispatched"),
    [
        ("skylake", {}, 4),
        ("skylake", {"rename.width": "6"}, 6),  # four retire
        ("skylake", {"retire.width": "3"}, 4),
        ("zen2", {"uop_cache.line_uops": "4", "uop_cache.width": "4"}, 5),
        ("goldencove", {"rename.width": "8"}, 8),
    ],
)
def test_dispatch_is_told_from_what_feeds_and_drains_it(core, settings, dispatched):
    laboratory = Laboratory(Simulated(core, settings))
    chain = window_corner.chain(laboratory)
    assert dispatch_width.measure_burst(laboratory, chain, laboratory.kit.SHORT).width == dispatched


def test_a_burst_that_makes_no_steps_tells_nothing():
    class Even(Simulated):
        def measure(self, trials):
            return [Timing(50 + 0.1 * len(trial.code), 0.1) for trial in trials]

    laboratory = Laboratory(Simulated("skylake"))
    chain = window_corner.chain(laboratory)
    assert (
        dispatch_width.measure_burst(Laboratory(Even("skylake")), chain, laboratory.kit.SHORT)
        is None
    )
    assert BURST not in measured(Simulated("neoverse-n1")).by_name
