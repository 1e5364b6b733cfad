"""Uops that no class shows by itself: ports that classes share, busy units, microcode."""

from dataclasses import replace
from statistics import fmean

import calibrations
import pytest
from calibrations import FORMS

from loopwright.calibrating import passes, port_usage, port_usage_check, port_usage_search
from loopwright.calibrating.core_model import Microcode
from loopwright.calibrating.port_classes import mixture
from loopwright.calibrating.ports import Core, PortClass, Uops
from loopwright.microbench import blockers, chains, dispatch_width, latency, throughput
from loopwright.microbench.blockers import BlockingKernel, Surplus
from loopwright.microbench.form_instances import DeliveryFloor
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated
from loopwright.microbench.throughput import Throughput
from loopwright.predicting.core_figures import forms as table


def core(*ports):
    """Return a core of classes with these ports, all of one blocker."""
    blocker = FORMS["add r64,r64"]
    sets = [frozenset(one) for one in ports]
    return Core([PortClass(blocker, len(one), ()) for one in sets], sets, 6)


def learned(factory, name):
    """Return the folder of a core that was learned, and its table by forms."""
    folder = calibrations.learned(factory, name)[0]
    return folder, calibrations.by_form(folder / f"simulated-{name}" / "instructions.csv")


@pytest.fixture(scope="module")
def zen2(tmp_path_factory):
    return learned(tmp_path_factory, "zen2")


@pytest.fixture(scope="module")
def skylake(tmp_path_factory):
    return learned(tmp_path_factory, "skylake")


def errors(folder, name, monkeypatch, kernels):
    """Return the relative errors of what was learned."""
    true = Laboratory(calibrations.original(name)).time(kernels)
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(folder))
    mine = Laboratory(Simulated(f"simulated-{name}", noise=0)).time(kernels)
    return [abs(b.cycles - a.cycles) / a.cycles for a, b in zip(true, mine, strict=True)]


def latency_to(target, cycles):
    """Return the latency from the address of a load."""
    return latency.Latency("a", target, cycles, float(cycles), 0.01)


def test_a_vector_load_as_fast_as_a_plain_one_loads_plainly():
    labels = {name: FORMS[name].operands[0].label for name in ("movaps x,m128", "paddd x,m128")}
    latencies = {
        "movaps x,m128": [latency_to(labels["movaps x,m128"], 7)],
        "paddd x,m128": [latency_to(labels["paddd x,m128"], 8)],
        "movaps m128,x": [],
    }
    rates = {name: Throughput(0.5, 0.01, True) for name in latencies}

    def plain(name, found, rates):
        return port_usage.loads_plainly(found, rates, FORMS[name])

    assert plain("movaps x,m128", latencies, rates)
    assert not plain("paddd x,m128", latencies, rates)
    assert not plain("movaps m128,x", latencies, rates)
    faster = {**latencies, "paddd x,m128": [latency_to(labels["paddd x,m128"], 7)]}
    assert plain("paddd x,m128", faster, rates)
    slower = {**rates, "paddd x,m128": Throughput(1.0, 0.01, True)}
    assert not plain("paddd x,m128", faster, slower)


def test_uops_may_have_the_ports_that_classes_share():
    sets = core((0, 1), (1, 2), (3,)).candidate_ports
    assert frozenset({1}) in sets
    assert all(sets)
    assert len(sets) == len(set(sets)) == 5  # with those of all arithmetic


def test_of_what_blockers_leave_open_the_time_alone_decides():
    rows = [Surplus(n, float(n), 0.0) for n in (1, 1, 2)]
    shared = core((0, 1), (1, 2), (0, 1, 2, 3))
    one, wide = frozenset({1}), frozenset({0, 1, 2, 3})
    assert sorted(port_usage_search.counted(shared, rows, 1.0), key=len) == [one, wide]
    apart = port_usage_search.counted(shared, rows, 0.67)
    assert sorted(map(sorted, apart)) == [[0, 1], [1, 2]]
    assert port_usage_search.counted(shared, [replace(rows[0], uops=None), *rows[1:]]) is None


def test_blockers_take_no_more_instances_than_a_busy_unit_takes():
    blocking = core((0, 1)).classes[0].blocking
    form = FORMS["sqrtpd x,x"]
    assert BlockingKernel(form, blocking, 11).instances > 1
    assert BlockingKernel(form, blocking, 11, rate=8.0).instances == 1


@pytest.mark.slow
def test_a_port_that_no_class_has_alone_is_found(zen2, monkeypatch):
    folder, rows = zen2
    names = ["comisd x,x", "vpmovsxbw y,x", "mulps x,x", "unpckhps x,x"]
    assert set(names) <= set(rows)
    kernels = [
        mixture([(FORMS[a], n), (FORMS[b], m)])
        for a in names[:2]
        for b in names[2:]
        for n, m in ((2, 4), (4, 4), (4, 2))
    ]
    assert max(errors(folder, "zen2", monkeypatch, kernels)) < 0.1


@pytest.mark.slow
def test_busy_units_are_found(zen2):
    true = table("zen2")
    for name in ("sqrtpd x,x", "divps x,x"):
        # As many cycles of one port, or as many times more of several.
        mine, theirs = (
            int(row["flags"].partition("tp=")[2].split()[0]) for row in (zen2[1][name], true[name])
        )
        assert mine == theirs * len(zen2[1][name]["ports"])


@pytest.mark.slow
def test_what_waits_for_nothing_of_its_operand_has_no_latency_from_it(zen2):
    assert "0>0:0" in table("zen2")["pinsrd x,r32,i8"]["latency"]
    assert "0>0:0" in zen2[1]["pinsrd x,r32,i8"]["latency"]


@pytest.mark.slow
def test_latencies_to_flags_are_free_of_waits_for_ports(zen2):
    assert "1>f:3" in table("zen2")["bsf r64,r64"]["latency"].split()
    assert "1>f:3" in zen2[1]["bsf r64,r64"]["latency"].split()


def test_microcode_is_learned(skylake, monkeypatch):
    folder, rows = skylake
    written = (folder / "simulated-skylake" / "core.toml").read_text()
    assert "microcode_stall" in written
    true = table("skylake")
    sent = {name for name, row in rows.items() if row["ms"] != "0"}
    assert len(sent) > 20
    assert sent <= {name for name, row in true.items() if row["ms"] != "0"}
    plain = [name for name in sorted(sent) if "m" not in name.partition(" ")[2]]
    names = [name for name in plain if name in FORMS][::4]  # no kernel has high bytes
    assert names
    kernels = [mixture([(FORMS[name], 2), (FORMS["paddd x,x"], 4)]) for name in names]
    assert fmean(errors(folder, "skylake", monkeypatch, kernels)) < 0.1


def test_a_sequencer_sends_what_decoders_do_not():
    rule = Microcode(5, 4, 2, {"rcl r32,i8": 2})
    assert [rule.sent("mul r64", slots) for slots in (1, 4, 5, 9)] == [0, 0, 1, 5]
    assert rule.sent("rcl r32,i8", 8) == 6


def test_what_forms_leave_of_decoders_is_learned(skylake):
    true = table("skylake")
    for name in ("add r64,r64", "cmovb r64,r64", "bt r64,r64", "adc m64,r64", "rol m32,1"):
        assert skylake[1][name]["decoder"] == true[name]["decoder"], name
    told = [true[name]["decoder"] for name in ("add r64,r64", "cmovb r64,r64", "adc m64,r64")]
    assert told == ["", "c3", "c1"]


def test_nothing_carries_a_vector_that_copies_of_a_form_can_hand_on():
    form = FORMS["addps x,x"]
    (pair,) = [(s, t) for s, t in chains.pairs(form) if s is not t]
    ring = chains.chain(form, *pair)
    assert ring.direct
    assert len(set(ring.waiting)) == 2  # each reads what the other wrote
    (pair,) = chains.pairs(FORMS["movaps x,x"])
    assert not chains.chain(FORMS["movaps x,x"], *pair).direct


def test_bounds_between_flags_are_kept_where_they_tell_more():
    def one(source, target, cycles, bound):
        return latency.Latency(source, target, cycles, float(cycles), 0.0, bound)

    known = [one("0", "0", 2, False), one("0", "f", 2, False), one("f", "0", 1, False)]
    kept = latency._without_flag_bounds([*known, one("f", "f", 1, True)])
    assert not kept[-1].refused
    wide = latency._without_flag_bounds([*known, one("f", "f", 2, True)])
    assert wide[-1].refused


def test_what_has_a_known_twin_is_asked_first_of_its_kind():
    forms = [FORMS[name] for name in ("add m8,r8", "add m32,r32", "add m64,r64")]
    known = {"add r64,r64": Uops(1, (frozenset({0}),))}
    first, rest = port_usage.Guesses(core({0}), known, {}).split(forms)
    assert [form.name for form in first] == ["add m64,r64"]
    assert [form.name for form in rest] == ["add m8,r8", "add m32,r32"]


def dispatched(core, settings):
    """Return the places of some forms as blockers show them, and as they are said to be."""
    known = Laboratory(Simulated(core, settings))
    names = ["add", "imul", "adc", "xadd", "mul", "paddd", "mov"]
    forms = [one for one in FORMS.values() if one.mnemonic in names and "64" in one.name][:20]
    rates = throughput.measure(known, forms)
    waits = latency.measure(known, forms, throughput.cycles(rates))
    wide = dispatch_width.measure(known)
    blocked = blockers.dispatch_slots(known, forms, rates, waits, wide)
    found = blockers.unmasked(known, forms, rates, blocked, wide)
    return [{name: one.uops for name, one in some.items()} for some in (blocked, found)]


@pytest.mark.parametrize(
    ("core", "settings"),
    [
        ("goldencove", {"rename.width": "8"}),
        ("zen4", {"rename.width": "8", "rename.instructions": "8"}),
    ],
)
def test_places_that_an_op_cache_hides_are_told_by_bursts(core, settings):
    (plain, true), (blocked, found) = dispatched(core, {}), dispatched(core, settings)
    assert None not in true.values()
    assert all(plain[name] in (None, slots) for name, slots in true.items())
    assert sum(plain[name] == slots for name, slots in true.items()) > 0.8 * len(true)
    assert sum(blocked[name] == slots for name, slots in true.items()) < 0.8 * len(true)
    assert sum(found[name] == slots for name, slots in true.items()) > len(true) / 2
    assert all(found[name] in (None, slots) for name, slots in true.items())


@pytest.mark.parametrize(("width", "found"), [(4, 1), (6, 3)])
def test_bursts_show_no_more_places_than_blockers_that_dispatch_binds(monkeypatch, width, found):
    forms = [one for one in FORMS.values() if one.mnemonic == "add" and one.memory is None]
    rates = {one.name: Throughput(0.25, 0.0, clean=True) for one in forms}
    blocked = {one.name: Surplus(1, 1.02, 0.01) for one in forms}
    steps = dispatch_width.Steps(width, 0, 0.0, 0.0)
    monkeypatch.setattr(blockers.window_corner, "chain", lambda _: "a chain")
    monkeypatch.setattr(dispatch_width, "measure_burst", lambda *_: steps)
    monkeypatch.setattr(dispatch_width, "burst_slots", lambda *asked: dict.fromkeys(asked[-1], 3))
    wide = dispatch_width.Width(4, 4.0, 0.01, b"", nops=True)
    slots = blockers.unmasked(Laboratory(Simulated("skylake")), forms, rates, blocked, wide)
    assert {one.uops for one in slots.values()} == {found}


@pytest.mark.parametrize(
    ("blocked", "sure"),
    [
        ({"a": 1, "b": 1, "c": 2}, {"a": 1, "b": 1, "c": None}),  # c is founded on nothing
        ({"a": 0, "b": 2, "c": 4}, {"a": 1, "b": 1, "c": 1}),  # blockers show nothing here
    ],
)
def test_classes_are_founded_on_places_that_blockers_show_too(blocked, sure):
    shown = {name: Surplus(uops, float(uops), 0.01) for name, uops in blocked.items()}
    bursts = {name: Surplus(1, 1.0, 0.0) for name in blocked}
    found = blockers.agreed_slots(shown, bursts)
    assert {name: one.uops for name, one in found.items()} == sure


def test_the_count_of_a_loop_is_taken_from_its_twin_where_it_is_not_told():
    lost, twin = Uops(0, None, why="no"), Uops(1, (frozenset({0, 1}),), why="by blockers")
    (count,) = passes._counting_usage({"dec r64": lost, "dec r32": twin}).values()
    assert count.ports == twin.ports
    assert count.why.startswith("assumption")
    assert passes._counting_usage({"dec r64": twin, "dec r32": lost}) == {}
    assert passes._counting_usage({"dec r64": lost, "dec r32": lost}) == {}


def test_what_delivers_code_more_slowly_than_dispatch_takes_it_is_known_by_lengths():
    small = {"line_uops": "4", "width": "4", "reads": "1"}
    slow = Laboratory(Simulated("zen2", {f"uop_cache.{n}": v for n, v in small.items()}))
    found = port_usage_check._slow_nops(slow, replace(core({0}), width=4))
    assert found[3] == pytest.approx(0.28, abs=0.02)
    assert 3 not in port_usage_check._slow_nops(
        Laboratory(Simulated("zen2")), replace(core({0}), width=5)
    )
    add, uops = FORMS["add r32,r32"], Uops(1, (frozenset({0, 1, 2, 3}),))
    rate = Throughput(0.28, 0.001, clean=True)
    for delivered, told in ((0.28, True), (0.0, False)):
        one = port_usage_check.alone(
            core({0, 1, 2, 3}), add, uops, rate, (), DeliveryFloor({}, {}), delivered
        )
        assert (one == uops) is told
