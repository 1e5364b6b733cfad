"""What is looked at again: figures of a disturbed moment, chains without one speed, bounds."""

import random
from dataclasses import dataclass, field, replace

import pytest
from calibrations import FORMS

from loopwright.calibrating import cross_check, memory_rules, port_classes
from loopwright.calibrating.ports import PortClass, Uops, index_subsets
from loopwright.microbench import chains, latency, throughput
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated, Timing, Trial

WRONG = 1.5  # times as long


class Disturbed:
    """A core of the simulator on which a neighbour was loud while some trials were looked at."""

    def __init__(self, core, loud):
        self._known, self._loud = Simulated(core, noise=0), loud
        self.asked = []
        for name in ("isa", "name", "fingerprint", "features", "host"):
            setattr(self, name, getattr(self._known, name))

    def measure(self, trials):
        self.asked += trials
        return [
            replace(one, cycles=WRONG * one.cycles) if one.cycles and self._loud(trial) else one
            for trial, one in zip(trials, self._known.measure(trials), strict=True)
        ]


@pytest.mark.parametrize(("loud", "times"), [((0,), 1), ((1, 2), 1), ((0, 1, 2), WRONG)])
def test_one_quiet_look_of_three_is_enough(loud, times):
    kernels = [[FORMS["imul r64,r64"].encode({"0": 1, "1": 2})]]
    (true,) = Laboratory(Simulated("skylake", noise=0)).time(kernels)
    machine = Disturbed("skylake", lambda trial: trial.look in loud)
    (found,) = Laboratory(machine).time_least(kernels)
    assert found.cycles == pytest.approx(times * true.cycles)
    assert len({trial.key for trial in machine.asked}) == 3


@pytest.mark.parametrize(("refused", "known"), [((2,), True), ((0, 1), False), ((0, 2), False)])
def test_what_most_looks_have_no_figure_for_has_none(refused, known, monkeypatch):
    machine = Disturbed("skylake", lambda _: False)
    measure = machine.measure

    def unsteady(trials):
        none = Timing(None, refused="of no one speed")
        pairs = zip(trials, measure(trials), strict=True)
        return [none if trial.look in refused else one for trial, one in pairs]

    monkeypatch.setattr(machine, "measure", unsteady)
    (found,) = Laboratory(machine).time_least([[b"\x48\xff\xc8"]])
    assert bool(found) is known
    assert found.refused == ("" if known else "of no one speed")


def test_a_further_look_is_another_trial_and_the_first_is_as_it_always_was():
    first, again = Trial(b"\x90"), Trial(b"\x90", look=1)
    assert first.key != again.key
    assert first.key == Trial(b"\x90", look=0).key


def test_ports_are_found_beside_a_figure_that_contradicts_all_others():
    # Zen 2: four ALUs, two of which shift; multiplications have one of the others.
    names = {"mov r32,i32": 4, "shl r32,i8": 2, "imul r32,r32": 1, "paddd x,x": 3}
    found = [PortClass(FORMS[name], size, (name,)) for name, size in names.items()]
    pairs = index_subsets(len(found), 2)
    some = [port_classes.mixture(port_classes.together([found[n] for n in pair])) for pair in pairs]
    body = b"".join(some[0])
    machine = Disturbed("zen2", lambda t: t.look == 0 and t.code.startswith(body))
    ports, _ = port_classes.find_ports(Laboratory(machine), found, 5)
    true, _ = port_classes.find_ports(Laboratory(Simulated("zen2", noise=0)), found, 5)
    sizes = [
        len(frozenset().union(*(one[n] for n in pair))) for one in (ports, true) for pair in pairs
    ]
    assert sizes[: len(pairs)] == sizes[len(pairs) :]
    disturbed = Laboratory(machine).time(some[:1])[0]
    assert disturbed.cycles > 1.2 * Laboratory(Simulated("zen2", noise=0)).time(some[:1])[0].cycles


def test_partners_of_a_form_can_stand_beside_it_and_each_other():
    names = [
        "addps x,x",
        "vaddps y,y,y",
        "add r32,r32",
        "paddd x,x",
        "vpaddd y,y,y",
        "imul r32,r32",
    ]
    forms, draw = [FORMS[name] for name in names], random.Random(1)
    for form in forms * 20:
        one, other = cross_check.partners(draw, form, forms)
        assert form.beside(one)
        assert form.beside(other)
        assert one.beside(other)
        assert form not in (one, other)


@dataclass(frozen=True)
class Known:
    """The part of what was learned that narrow stores are looked up in."""

    uops: dict[str, Uops]
    rules: dict[str, tuple[int, str]] = field(default_factory=dict)


def test_narrow_stores_have_the_uops_of_wide_ones_where_the_cache_merges():
    wide, narrow = frozenset({0, 1}), frozenset({2})
    uops = {
        "shl m32,i8": Uops(1, (wide,), why="by blockers"),
        "shl m8,i8": Uops(1, (wide, narrow)),
        "add m64,i32": Uops(1, (wide,)),
        "add m16,i16": Uops(1, (narrow,)),
        "setb m8": Uops(1, (narrow,)),
        "shl r8,i8": Uops(1, (narrow,)),
    }
    forms = [FORMS[name] for name in uops]
    assert memory_rules.merged_store_uops(Known(uops), forms) == Known(uops)
    found = memory_rules.merged_store_uops(
        Known(uops, {"memory.commit_narrow_cycles": (5, "")}), forms
    ).uops
    assert found["shl m8,i8"].ports == (wide,)
    assert found["shl m8,i8"].why == "as shl m32,i8; by blockers"
    assert found["add m16,i16"].ports == (narrow,)  # only 64 bits by 32 are known
    for name in ("setb m8", "shl r8,i8", "shl m32,i8"):
        assert found[name] == uops[name]


class Unsteady(Disturbed):
    """A core of the simulator on which chains of a form have no one speed in a loop."""

    def __init__(self, core, form):
        super().__init__(core, lambda _: False)
        every = [chains.chain(form, *pair) for pair in chains.pairs(form)]
        self._chains = [b"".join(one.waiting) for one in every]

    def measure(self, trials):
        found = super().measure(trials)
        none = Timing(None, refused="of no one speed")
        return [
            none if trial.notion == "loop" and any(c in trial.code for c in self._chains) else one
            for trial, one in zip(trials, found, strict=True)
        ]


def told(machine, *names):
    laboratory, forms = Laboratory(machine), [FORMS[name] for name in names]
    rates = throughput.cycles(throughput.measure(laboratory, forms))
    found = latency.measure(laboratory, forms, rates)[names[0]]
    return {(one.source, one.target): one for one in found}


def test_a_chain_without_one_speed_in_a_loop_is_timed_without_one():
    name = "vperm2f128 y,y,y,i8"
    true = told(Simulated("zen4", noise=0), name)
    machine = Unsteady("zen4", FORMS[name])
    found = told(machine, name)
    assert any(trial.notion == "unrolled" for trial in machine.asked)
    assert {pair: one.cycles for pair, one in found.items()} == {
        pair: one.cycles for pair, one in true.items()
    }


def test_what_is_stored_waits_for_no_flags_that_a_count_only_keeps():
    found = told(
        Simulated("zen3", noise=0), "shl m32,cl", "shl r32,cl", "mov r64,m64", "add m32,r32"
    )
    assert found["f", "m"].cycles == 0
    assert found["f", "m"].twin == "shl r32,cl"
    carried = told(
        Simulated("zen3", noise=0), "adc m32,r32", "adc r32,r32", "mov r64,m64", "add m32,r32"
    )
    assert ("f", "m") not in carried


def test_what_its_own_uops_hide_of_an_implied_register_longer_chains_tell():
    # A switch to microcode and its uops take five cycles, from rax to rax it takes two.
    found = told(Simulated("skylake", noise=0), "cmpxchg m64,r64", "mov r64,m64", "add m64,r64")
    assert found["rax", "rax"].cycles == 2
    assert found["1", "rax"].bound


def test_cycles_of_a_chain_that_are_no_whole_number_say_so():
    half = latency.Latency("1", "0", 3, 3.36, 0.02, bound=True)
    least = replace(half, measured=3.0, twin="paddd x,x")
    assert half.note == "no whole number of cycles"
    assert least.note == "at most: the chain does not bind; measured of paddd x,x"
    assert replace(half, bound=False).note == ""
    assert replace(half, refused="does not end").note == "does not end"
