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
    known = machine.isa == "x86_64"  # AArch64 has no experiments with memory
    every = kits.forms(machine.isa, machine.features)[0] if known else []
    forms = {form.name: form for form in every}
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
    found = measured(Simulated(core, settings | ONE_SCHEDULER.get(core, {})))
    for name, true in ((BUFFER, buffer), (SCHEDULER, entries)):
        window = found.found[name]
        assert holds(window, true), window
        assert window.high - window.low <= 1, window
    assert found.whole_groups is whole


SHORT = {"sandybridge": (168, 54), "haswell": (192, 60), "tsv110": (131, 50)}


@pytest.mark.parametrize(
    ("core", "seed"), some(product(SHORT, range(3)), {("sandybridge", 0), ("tsv110", 0)})
)
def test_short_chains_leave_a_range_that_says_so(core, seed):
    buffer, entries = SHORT[core]
    settings = {"retire.reorder_buffer": str(buffer), "scheduler.entries": str(entries)}
    found = measured(Simulated(core, settings | ONE_SCHEDULER.get(core, {}), seed=seed)).found
    for name, true in ((BUFFER, buffer), (SCHEDULER, entries)):
        assert holds(found[name], true), found[name]
        assert found[name].high - found[name].low <= 5
        ranged = found[name].low < found[name].high
        assert ranged == (f"{found[name].low} to {found[name].high}" in found[name].note)


def test_rename_that_does_not_wait_for_whole_groups_is_told():
    found = measured(Simulated("skylake", {"rename.whole_groups": "false"}))
    assert found.whole_groups is False
    assert holds(found.found[SCHEDULER], 97)


@pytest.mark.parametrize(("core", "buffer"), [("neoverse-n1", 128), ("tsv110", 97)])
def test_what_the_reorder_buffer_hides_is_a_bound(core, buffer):
    found = measured(Simulated(core, ONE_SCHEDULER[core])).found
    assert holds(found[BUFFER], buffer)
    assert found[SCHEDULER].least
    assert buffer - 10 <= found[SCHEDULER].low <= buffer
    assert "reorder buffer first" in found[SCHEDULER].note


@pytest.mark.parametrize(("core", "entries"), [("neoverse-n1", 40), ("tsv110", 33)])
def test_schedulers_of_integer_and_vector_uops_are_told_apart(core, entries):
    found = measured(Simulated(core, {"scheduler.pool_entries": str(entries)})).found[SCHEDULER]
    general, vector, both = map(int, re.findall(r"(\d+) that compute", found.note))
    assert "of several schedulers" in found.note
    assert abs(general - entries) <= 1
    assert abs(vector - entries) <= 1
    assert abs(both - 2 * entries) <= 1
    assert found.value == both


def test_what_no_loop_fills_is_a_bound():
    found = measured(Simulated("neoverse-n1", {"retire.reorder_buffer": "400"})).found
    assert found[BUFFER].least
    assert 200 < found[BUFFER].low <= 400
    assert "as many as a loop takes" in found[BUFFER].note


@pytest.mark.parametrize("stores", [64, 37])
def test_the_store_queue_is_found_where_stores_are_written_one_by_one(stores):
    found = measured(Simulated("zen4", {"memory.store_queue": str(stores)})).found
    assert holds(found[STORES], stores)
    assert measured(Simulated("skylake")).found[STORES].least


@pytest.mark.parametrize(("core", "retired"), [("skylake", 4), ("zen4", 7), ("goldencove", 8)])
def test_what_retires_in_a_cycle_is_found_behind_a_fence(core, retired):
    found = measured(Simulated(core, {"retire.width": str(retired)})).found
    assert holds(found[RETIRED], retired)
    assert found[RETIRED].value == retired
    assert RETIRED not in measured(Simulated("neoverse-n1")).found


def test_nops_that_share_places_are_not_counted():
    wide = dispatch_width.measure(Laboratory(Simulated("zen4")))
    assert (wide.instructions, wide.nops) == (6, False)
    wide = dispatch_width.measure(Laboratory(Simulated("zen2")))
    assert (wide.instructions, wide.nops) == (5, True)


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
    wide = dispatch_width.measure(laboratory)
    assert wide.instructions == instructions
    known = {form.name: form for form in kits.forms(machine.isa, machine.features)[0]}
    names = ["add r64,m64", "shl r64,i8", "andps x,x", "cmovo r64,r64", "lea.bd r32", "mov r32,r32"]
    some = [known[name] for name in names]
    rates = throughput.measure(laboratory, some)
    latencies = latency.measure(laboratory, some, throughput.cycles(rates))
    slots = blockers.dispatch_slots(laboratory, some, rates, latencies, wide)
    expected = {name: int(table(core)[name]["slots"]) for name in names}
    assert {name: slots[name].uops for name in names} == expected


class _Deaf(Simulated):
    """A machine that answers some trials and refuses others for good."""

    def __init__(self, share):
        super().__init__("zen2")
        self._share = share

    def measure(self, trials):
        refused = Timing(None, refused="not measured yet")
        known = super().measure(trials)
        return [
            one if int(trial.key, 16) % 100 < self._share else refused
            for trial, one in zip(trials, known, strict=True)
        ]


@pytest.mark.parametrize("share", [0, 60, 97])
def test_what_is_not_answered_is_not_guessed(share):
    machine = _Deaf(share)
    laboratory = Laboratory(machine)
    forms = {form.name: form for form in kits.forms(machine.isa, machine.features)[0]}
    wide = dispatch_width.measure(Laboratory(Simulated("zen2")))
    found = windows.measure(laboratory, forms, wide).found
    for name, true in ((BUFFER, 224), (SCHEDULER, 128)):
        if name in found:
            assert found[name].low <= true
            assert found[name].least or true <= found[name].high
    assert share or not found


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
    assert BURST not in measured(Simulated("neoverse-n1")).found
