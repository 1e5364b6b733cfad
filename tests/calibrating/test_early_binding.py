"""Cores that bind uops to ports early, and stores whose data use ports of arithmetic."""

from collections import Counter
from dataclasses import replace

import calibrations
import pytest

from loopwright.calibrating import port_classes, port_usage_search
from loopwright.calibrating.port_classes import Union
from loopwright.calibrating.port_usage_search import Candidates, Case, UopBounds
from loopwright.calibrating.ports import Core, PortClass, bound_cycles
from loopwright.microbench import kits, memory_timing, throughput
from loopwright.microbench.blockers import Surplus
from loopwright.microbench.laboratory import Figure, Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.oracle import Simulated

SKYLAKE = Laboratory(Simulated("skylake", noise=0))
FORMS = {form.name: form for form in kits.forms("x86_64", SKYLAKE.machine.features)[0]}
WIDTH = 8
ARITHMETIC, LOADS = frozenset(range(6)), frozenset(range(6, 10))


def of(names):
    return [PortClass(FORMS[name], size, (name,)) for name, size in names.items()]


SKYLAKES = Core(of({"mov r64,i32": 4, "bt r32,i8": 2}), [frozenset(range(4)), frozenset({0, 3})], 4)


@pytest.mark.parametrize(("longer", "early"), [(1.0, False), (1.02, False), (1.08, True)])
def test_ports_are_bound_early_where_pairs_take_longer_than_they_ask_for(longer, early):
    slower = calibrations.Slower(SKYLAKE, lambda _: longer)
    assert port_classes.binds_early(slower, SKYLAKES) is early


@pytest.mark.parametrize("meets", [False, True])
def test_chains_that_meet_in_ports_are_told_by_fewer_of_them(meets):
    form = FORMS["add r64,r64"]
    most = throughput.count(form)
    laboratory = calibrations.Slower(
        SKYLAKE, lambda kernel: 1.1 if meets and len(kernel) == most else 1.0
    )
    rates = throughput.measure(laboratory, [form])
    alone = {form.name: [Latency("0", "0", 1, 1.0, 0.01)]}
    (rate,) = throughput.mark_meeting_chains(laboratory, [form], rates, alone, WIDTH).values()
    assert rate.meets is meets
    assert rate.cycles == pytest.approx(0.25, abs=0.01)


def test_fewer_instances_are_timed_where_all_have_no_one_speed():
    form = FORMS["add r64,r64"]
    most = throughput.count(form)

    class Unsteady:
        def time(self, kernels, notion="loop"):
            found = SKYLAKE.time(kernels, notion)
            return [
                replace(one, refused="of no one speed") if len(kernel) == most else one
                for one, kernel in zip(found, kernels, strict=True)
            ]

    (rate,) = throughput.measure(Unsteady(), [form]).values()
    assert rate.meets
    assert not rate.refused
    assert rate.cycles == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("address", "data", "written"),
    [
        ({6, 7}, {0, 1}, True),  # Zen 5
        ({6, 7}, {10, 11}, False),  # Zen 4
        ({11}, {10}, False),  # Skylake
    ],
)
def test_a_store_that_shares_ports_with_loads_and_arithmetic_is_two_uops(
    monkeypatch, address, data, written
):
    found = of({"mov r64,i32": 6, "bt r32,i8": 3, "mov r64,m64": 4, "mov m64,r64": len(address)})
    truth = [[ARITHMETIC], [frozenset({0, 2, 3})], [LOADS], [frozenset(address), frozenset(data)]]

    def unions(_, some, wanted, width):
        for of_ in wanted:
            uops = Counter()
            for n in of_:
                for ports in truth[n]:
                    uops[ports] += some[n].size
            total = sum(some[n].size for n in of_)
            took = max(bound_cycles(uops), total / width)
            ports = round(total / took)
            yield Union(of_, min(ports, width), ports >= width, Figure(took, 0.0))

    monkeypatch.setattr(port_classes, "measure_unions", lambda *asked: list(unions(*asked)))
    ports, own = port_classes.find_ports(SKYLAKE, found, WIDTH)
    assert (own is not None) is written
    if written:
        assert own < ports[0]
        assert ports[3] < ports[2]
        assert not ports[2] & ports[0]
    core = Core(found, ports, WIDTH, "mov r64,m64", "mov m64,r64", shared_store_data=own)
    assert core.store_uops == ((ports[3], own) if written else (ports[3],))
    assert core.shown_by_blockers(core.store_uops)[3] == 1


@pytest.mark.parametrize(("early", "found"), [(True, (frozenset({2, 3, 4}),)), (False, None)])
def test_what_blockers_show_more_counts_for_nothing_where_ports_are_bound_early(early, found):
    some = of({"mov r64,i32": 6, "bt r32,i8": 3})
    core = Core(some, [ARITHMETIC, frozenset({2, 3, 4})], WIDTH, early_binding=early)
    seen = {0: Surplus(2, 1.9, 0.1), 1: Surplus(1, 1.0, 0.1)}
    case = Case(FORMS["shl r64,i8"], 4, 1, UopBounds(1, 1), 0.34, surpluses=seen)
    assert port_usage_search.bound_early(Candidates(core), core, case) == found


def test_failed_forwards_wait_for_stores_where_nothing_bounds_what_is_written():
    core = Laboratory(Simulated("zen4", {"memory.commit_bytes": "0"}, noise=0))
    kernel = memory_timing.partial_forwards(core.kit, FORMS)["more than was stored"]
    (figure,) = core.time([kernel])
    assert figure.cycles > 10
