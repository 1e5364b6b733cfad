"""What takes longer than its ports ask for, or is renamed by few addresses alone, is found."""

import calibrations
import pytest

from loopwright.calibrating import branches, port_usage, port_usage_search
from loopwright.calibrating.port_usage_search import Candidates, Case, UopBounds
from loopwright.calibrating.ports import Core, PortClass
from loopwright.microbench import kits, memory_timing
from loopwright.microbench.blockers import Surplus
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated


def laboratory(core, settings=None):
    machine = Simulated(core, settings or {}, noise=0)
    return Laboratory(machine), {f.name: f for f in kits.forms("x86_64", machine.features)[0]}


@pytest.mark.parametrize(
    ("core", "settings", "by", "predicted"),
    [
        ("zen3", {}, memory_timing.BY_STACK, (24, 25)),
        ("zen3", {"memory.renamed_in_loops": "7"}, memory_timing.BY_STACK, (7, 8)),
        ("zen3", {"memory.renamed_in_loops": "0"}, memory_timing.BY_STACK, None),
        ("zen2", {}, "", None),
        ("skylake", {}, "", None),
    ],
)
def test_what_is_renamed_by_the_stack_pointer_or_predicted_is_found(core, settings, by, predicted):
    known, forms = laboratory(core, settings)
    found = memory_timing.measure(known, forms, {})
    assert (found.by, found.predicted) == (by, predicted)
    assert bool(found.renamed("forwarded")) is (core != "skylake")


def branching(forms):
    named = {"mov r64,i64": {0, 1, 2, 3}, "bt r32,i8": {0, 3}, "imul r64,r64": {1}}
    classes = [PortClass(forms[n], len(p), (n,)) for n, p in named.items()]
    return Core(classes, [frozenset(p) for p in named.values()], 4)


@pytest.mark.parametrize(("longer", "found"), [(1.3, True), (0.7, False)])
def test_branches_may_take_longer_beside_a_class_and_never_less(longer, found):
    known, forms = laboratory("skylake")
    branch = known.kit.BRANCHES[0]
    product = forms["imul r64,r64"].mnemonic

    def times(kernel):
        slow = branch.code in kernel and any(code[1:3] == b"\x0f\xaf" for code in kernel)
        return longer if slow else 1

    seen = branches.measure(calibrations.Slower(known, times), branching(forms), ())
    assert (seen.ports.get(branch.name) == frozenset({0, 3})) is found
    assert (product in seen.longer.get(branch.name, "")) is found


@pytest.mark.parametrize(("core", "width", "found"), [("zen3", 6, True), ("skylake", 4, False)])
def test_a_branch_of_two_places_is_left_out(core, width, found):
    known, forms = laboratory(core)
    one = Core(branching(forms).classes, branching(forms).ports, width)
    (name,) = (branch.name for branch in known.kit.UNFUSED)
    seen = branches.measure(known, one, ())
    assert (name in seen.ports) is found
    assert ("show 2 slots" in seen.left.get(name, "")) is not found


def test_pushes_and_pops_are_told_alone_where_both_take_longer():
    known, forms = laboratory("skylake")
    names = ("mov r64,m64", "mov m64,r64")
    classes = [PortClass(forms[name], 2 - n, (name,)) for n, name in enumerate(names)]
    core = Core(classes, [frozenset({2, 3}), frozenset({4})], 4, *names)
    pool = known.kit.POOLS["gpr"]
    push, _ = known.kit.push_and_pop(pool.constant[0], pool.others[0])
    pops = {known.kit.push_and_pop(0, register)[1] for register in pool.others}

    def pushes(kernel):
        return 1.5 if push in kernel else 1

    def both(kernel):
        return 1 if pops.isdisjoint(kernel) else pushes(kernel)

    for longer, told in ((both, True), (pushes, False)):
        found = port_usage.stack_uops(calibrations.Slower(known, longer), core)
        assert (found[known.kit.PUSH].ports is not None) is told
        assert found[known.kit.POP].ports is not None
        assert "3 pushes and pops take" in found[known.kit.POP].why


@pytest.mark.parametrize(
    ("measured", "slots", "found"),
    [
        ((4.7, 3.0, 0.0), 1, (frozenset({2, 3}),)),
        ((4.7, 3.0, 2.0), 2, (frozenset({2, 3}), frozenset({0, 1}))),
        ((9.9, 3.0, 0.0), 1, None),  # nothing that ports do takes so long
        ((4.7, 3.0, 0.0), 5, None),
    ],
)
def test_the_fewest_uops_explain_blockers_that_are_longer(measured, slots, found):
    _, forms = laboratory("skylake")
    named = {"mov r64,i64": {0, 1, 2, 3}, "bt r32,i8": {2, 3}, "cmovb r64,r64": {0, 1}}
    classes = [PortClass(forms[n], len(p), (n,)) for n, p in named.items()]
    core = Core(classes, [frozenset(p) for p in named.values()], 6, early_binding=True)
    seen = {n: Surplus(None, one, 0.02) for n, one in enumerate(measured)}
    case = Case(forms["imul r64,r64"], 4, slots, UopBounds(1), 1.0, surpluses=seen)
    chosen = port_usage_search.bound_late(Candidates(core), core, case)
    assert (None if chosen is None else set(chosen)) == (None if found is None else set(found))


@pytest.mark.parametrize(
    ("measured", "uops", "found"),
    [
        ((4.75, 1.0, 0.0), (5, 1, 0), {2}),
        ((1.38, 1.0, 0.0), (None, 1, 0), {2}),
        ((3.83, 0.0, 0.0), (4, 0, 0), {0, 1, 2, 3}),
        ((2.0, 1.0, 0.0), (2, 1, 0), None),  # two uops
        ((0.5, 1.0, 0.0), (None, 1, 0), None),  # those of more ports show it, too
    ],
)
def test_late_results_of_one_uop_prolong_blocking_instructions_of_more_ports(measured, uops, found):
    _, forms = laboratory("skylake")
    named = {"mov r64,i64": {0, 1, 2, 3}, "bt r32,i8": {2, 3}, "cmovb r64,r64": {0, 1}}
    classes = [PortClass(forms[n], len(p), (n,)) for n, p in named.items()]
    core = Core(classes, [frozenset(p) for p in named.values()], 6)
    seen = {n: Surplus(uops[n], one, 0.02) for n, one in enumerate(measured)}
    case = Case(forms["imul r64,r64"], 4, 1, UopBounds(1), 1.0, late=True, surpluses=seen)
    chosen = port_usage_search.single_uop(Candidates(core), core, case)
    assert chosen == (None if found is None else (frozenset(found),))


def test_what_leaves_upper_halves_stands_beside_none_that_writes_them():
    _, forms = laboratory("skylake")
    old, new, wide, none = (
        forms[name] for name in ("paddd x,x", "vpaddd x,x,x", "vpaddd y,y,y", "add r64,r64")
    )
    assert old.beside(new)
    assert old.beside(none)
    assert none.beside(old)
    assert new.beside(wide)
    assert wide.beside(none)
    assert not old.beside(wide)
    assert not wide.beside(old)
