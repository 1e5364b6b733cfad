"""Rules that some cores have and others have not are found where they are: banks, constants."""

import pytest

from loopwright.calibrating import branches, calls, mispredictions, port_usage_search
from loopwright.calibrating.port_usage_search import Case, UopBounds
from loopwright.calibrating.ports import Core, PortClass
from loopwright.microbench import arm64_forms, dispatch_width, kits, latency, memory_timing
from loopwright.microbench.blockers import Surplus
from loopwright.microbench.laboratory import Figure, Laboratory, copies
from loopwright.microbench.oracle import Simulated


def laboratory(core, settings):
    machine = Simulated(core, settings)
    forms = {form.name: form for form in kits.forms("x86_64", machine.features)[0]}
    return Laboratory(machine), forms


@pytest.mark.parametrize(
    ("core", "settings", "found"),
    [
        ("goldencove", {}, (2, 4)),
        ("goldencove", {"memory.bank_bytes": "16"}, (2, 16)),
        ("goldencove", {"memory.bank_loads": "1", "memory.bank_bytes": "8"}, (1, 8)),
        ("goldencove", {"memory.bank_loads": "unlimited"}, None),
        ("skylake", {}, None),
    ],
)
def test_banks_are_found_where_loads_meet_in_them(core, settings, found):
    known, forms = laboratory(core, settings)
    banks = memory_timing.measure(known, forms, {}).banks
    assert (banks and (banks.loads, banks.bytes)) == found


@pytest.mark.parametrize(
    ("core", "settings", "limit"),
    [
        ("goldencove", {}, 1024),
        ("goldencove", {"rename.immediate_add_limit": "256"}, 256),
        ("goldencove", {"rename.immediate_add_limit": "0"}, latency.NO_CONSTANT),
        ("skylake", {}, latency.NO_CONSTANT),
    ],
)
def test_constants_that_rename_adds_are_found(core, settings, limit):
    known, forms = laboratory(core, settings)
    assert latency.renamed_constants(known, forms["add r64,i32"]).limit == limit


def test_what_has_no_such_addition_adds_none_at_rename():
    assert (
        latency.renamed_constants(Laboratory(Simulated("neoverse-n1")), None).limit
        == latency.NO_CONSTANT
    )


def _case(form, rows, *, late):
    surpluses = {n: Surplus(uops, float(uops), 0.01) for n, uops in enumerate(rows)}
    return Case(form, 4, 1, UopBounds(1, 1), 1.0, None, late, surpluses)


@pytest.mark.parametrize(
    ("rows", "late", "found"),
    [
        ((1, 1, 0), False, [1]),
        ((2, 2, 0), True, [1]),  # it keeps its port for a cycle more than uops of a cycle do
        ((2, 2, 0), False, None),  # and one of a cycle cannot
        ((3, 2, 0), True, None),
        ((2, 2, 1), True, None),
    ],
)
def test_uops_of_late_results_may_take_a_port_twice(rows, late, found):
    known, forms = laboratory("skylake", {})
    form = forms["imul r64,r64"]
    blockers = [forms[name] for name in ("add r64,r64", "bt r32,i8", "movd x,r32")]
    ports = [frozenset({0, 1, 2}), frozenset({1}), frozenset({3})]
    classes = [PortClass(b, len(p), (b.name,)) for b, p in zip(blockers, ports, strict=True)]
    case = _case(form, rows, late=late)
    port_usage_search.search(known, Core(classes, ports, 4), [case])
    assert case.usage == (None if found is None else (frozenset(found),))


def test_what_keeps_a_class_busy_and_makes_branches_taken_tells_nothing_of_their_ports():
    known, forms = laboratory("skylake", {})
    carry = next(one for one in known.kit.BRANCHES if one.kind == "c")
    named = {"mov r64,i32": {0, 1, 2, 3}, "bt r32,i8": {0, 3}, "imul r64,r64": {1}}
    classes = [PortClass(forms[n], len(p), (n,)) for n, p in named.items()]
    core = Core(classes, [frozenset(p) for p in named.values()], 4)

    class Taken:
        """A machine on which branches behind what writes the carry are taken."""

        def __init__(self):
            self.kit = known.kit

        def iteration(self):
            return known.iteration()

        def time(self, kernels, notion="loop"):
            slow = forms["bt r32,i8"].encode({"0": 3})[:2]
            found = known.time(kernels, notion)
            return [
                type(one)(4 * one.cycles, one.uncertainty)
                if any(code[:2] == slow for code in kernel)
                else one
                for kernel, one in zip(kernels, found, strict=True)
            ]

    assert branches.measure(Taken(), core, ()).ports.get(carry.name)


def test_branches_are_told_where_an_op_cache_binds_what_stands_beside_them():
    slow = {"region_bytes": "64", "lines": "4", "line_uops": "8", "reads": "1"}
    known, forms = laboratory("skylake", {f"uop_cache.{n}": v for n, v in slow.items()})
    named = {
        "movq x,x": {0, 1, 2}, "lea.b r32": {0, 1}, "bt r32,i8": {2, 3}, "pabsb x,x": {0, 2},
        "mov r64,m64": {4, 5}, "rcpps x,x": {2}, "movd x,r32": {1}, "lea.bid r32": {0},
    }  # fmt: skip
    classes = [PortClass(forms[n], len(p), (n,)) for n, p in named.items()]
    core = Core(classes, [frozenset(p) for p in named.values()], 4, "mov r64,m64")
    found = branches.measure(known, core, ())
    assert set(found.ports.values()) == {frozenset({2, 3})}  # those of bt, as on the core
    assert set(found.left) == {one.name for one in known.kit.UNFUSED}  # of two uops


@pytest.mark.parametrize(
    ("core", "settings", "instructions", "nops"),
    [
        ("neoverse-n1", {}, 4, True),
        ("neoverse-n1", {"rename.width": "6", "decode.width": "6"}, 6, True),
        ("zen4", {}, 6, False),
        ("zen3", {}, 6, True),
    ],
)
def test_nops_count_unless_they_share_places(core, settings, instructions, nops):
    found = dispatch_width.measure(Laboratory(Simulated(core, settings)))
    assert (found.instructions, found.nops) == (instructions, nops)


def test_what_fits_a_loop_once_is_timed_once():
    machine = Laboratory(Simulated("zen3", noise=0))
    nops = [machine.kit.pad(8)[0]] * 66
    assert copies(nops) == 1
    (found,) = machine.time([nops])
    assert found.cycles == pytest.approx(11, rel=0.03)
    (slope,) = machine.time([nops], "slope")
    assert "too long for two copies" in slope.refused
    (long,) = machine.time([nops * 2])
    assert "too long for a copy" in long.refused


def test_what_issue_hides_has_ports_of_its_own():
    machine = Laboratory(Simulated("neoverse-n1", noise=0))
    adds = next(f for f in arm64_forms.forms(machine.machine.features)[0] if f.mnemonic == "madd")
    one = Core([PortClass(adds, 1, (adds.name,))], [frozenset({0})], 3)
    assert len(one.all_arithmetic) == 3
    assert frozenset({0}) < one.all_arithmetic


@pytest.mark.parametrize("forgotten", [33, 37, 39])
def test_ends_of_loops_are_told_where_short_ones_take_half_a_cycle(forgotten, monkeypatch):
    def cycles(count):
        if count <= 16:
            return count / 2 + 0.5
        return count + (24 if count >= forgotten else 2)

    def timed(_, counts):
        # The first that is forgotten is so by turns.
        return [Figure(cycles(n), 0.1, "of no one speed" * (n == forgotten)) for n in counts]

    monkeypatch.setattr(mispredictions, "_time_loops", timed)
    exits = mispredictions._ExitCosts(None)
    assert exits.first_expensive(10.0) == forgotten
    assert exits.first_expensive(1.5, below=forgotten) == 17
    # 17 cycles more than half a cycle an iteration, for the longest that is not forgotten.
    steps = exits.steps(17, forgotten)
    assert 5 in steps
    assert (forgotten - 1) / 2 + 1 in [*steps, *(n + 0.5 for n in steps)]


class Nops:
    """Nops of a core of width 6: in loops one of no one speed or a slow branch, else as one is."""

    def __init__(self, straight):
        self.kit, self.isa = kits.of("x86_64"), "x86_64"
        self.straight = straight  # cycles of nops in a cycle of dispatch

    def time(self, kernels, notion="loop"):
        return [self._timed(kernel, notion) for kernel in kernels]

    def _timed(self, kernel, notion):
        if notion == "unrolled":
            return Figure(len(kernel) / 6 * self.straight, 0.001)
        # A place more shows as none, or as all of a cycle.
        if len(set(kernel)) > 1 and len(kernel[0]) == 5:
            return Figure(float("nan"), 0.0, "of no one speed")
        return Figure(-(-len(kernel) // 6) if len(set(kernel)) > 1 else len(kernel) / 6, 0.001)


@pytest.mark.parametrize(("straight", "notion"), [(1.0, "unrolled"), (1.5, "loop")])
def test_slots_are_counted_in_straight_code_where_loops_have_two_speeds(straight, notion):
    nops = Nops(straight)
    usual = nops.kit.nop()
    _, figure, found = dispatch_width._plain(nops, usual, Figure(8 / 6, 0.001))
    assert (found, round(8 / figure.cycles)) == (notion, 6)
    # Nothing is said of a nop by loops that have no one speed.
    assert dispatch_width._slot_error(nops, usual, figure, "loop") == float("inf")


def test_calls_close_together_are_left_out_where_they_cost_what_no_rule_has():
    near, far = "two calls and returns, 8 bytes each", "two calls and returns"
    dense, apart = Figure(10.1, 0.0), Figure(2.5, 0.0)
    assert calls._cost_of_crowding({far: apart, near: apart}) == ""
    assert calls._cost_of_crowding({near: dense}) == ""
    said = calls._cost_of_crowding({far: apart, near: dense})
    assert said.startswith(f"{near} take 10.1 cycles, and 2.5 where they stand further apart")
    kit = kits.of("x86_64")
    assert {near, far} <= calls.kernels(kit).keys()
    assert len(kit.CALLED_APART) == 48
