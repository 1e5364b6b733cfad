"""What several kernels of a form tell together: latencies below bounds, places, busy units."""

from dataclasses import replace

import calibrations
import pytest
from calibrations import FORMS

from loopwright.calibrating import cross_check, decoding, front_end_fit, latency_fit, port_usage
from loopwright.calibrating.core_model import UNKNOWN, Microcode
from loopwright.calibrating.passes import learn
from loopwright.calibrating.ports import Core, PortClass, Uops
from loopwright.microbench import chains, latency, throughput
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.oracle import Simulated


@pytest.fixture(scope="module")
def zen2(tmp_path_factory):
    return calibrations.learned(tmp_path_factory, "zen2")[0]


@pytest.mark.slow
def test_flags_that_no_chain_binds_come_as_all_kernels_of_a_form_say(zen2, monkeypatch):
    # shrd r8, r9, cl or bsr r8, r9, and cmovb r9, r8: by register and flags.
    kernels = [
        [bytes.fromhex("4d0fadc8"), bytes.fromhex("4d0f42c8")],
        [bytes.fromhex("4d0fbdc1"), bytes.fromhex("4d0f42c8")],
    ]
    true = Laboratory(calibrations.original("zen2")).time(kernels, "slope")
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(zen2))
    mine = Laboratory(Simulated("simulated-zen2", noise=0)).time(kernels, "slope")
    for one, other in zip(true, mine, strict=True):
        assert other.cycles == pytest.approx(one.cycles, rel=0.1)


def test_vectors_whose_own_uops_hide_their_latency_are_told_by_longer_chains():
    laboratory = Laboratory(Simulated("zen2", noise=0))
    name = "vphaddsw x,x,x"  # a cycle; two of its uops take two on one port
    some = [FORMS["mov r64,m64"], FORMS[name]]
    rates = throughput.cycles(throughput.measure(laboratory, some))
    assert rates[name] == pytest.approx(2.0, abs=0.05)
    found = latency.measure(laboratory, some, rates)[name]
    assert [(one.cycles, one.bound) for one in found] == [(1, True), (1, True)]


class OnePort:
    """A core whose uops all compute."""

    @staticmethod
    def computing(uops):
        return list(uops)


def test_one_uop_waits_for_what_no_chain_of_one_speed_tells():
    names = ["and r32,r32", "and r64,r64", "cmovne r32,r32", "cmovne r64,r64", "shl r32,cl"]
    forms = [FORMS[name] for name in names]
    one, two = (Uops(n, (frozenset({0}),) * n) for n in (1, 2))
    uops = {form.name: two if form.name == "shl r32,cl" else one for form in forms}
    refused = Latency("0", "f", 0, float("nan"), 0.0, refused="of no one speed")
    plain = Latency("0", "0", 1, 1.0, 0.0)
    known = {
        "and r32,r32": [plain, replace(refused, measured=2.3)],  # a bound
        "and r64,r64": [plain, refused],
        "cmovne r32,r32": [plain, Latency("f", "0", 2, 2.0, 0.0)],
        "cmovne r64,r64": [plain, replace(refused, source="f", target="0")],
        "shl r32,cl": [plain, refused],
    }
    found = latency_fit.assumed_latencies(OnePort, known, uops, forms)
    said = {name: some[-1].cycles for name, some in found.items() if not some[-1].refused}
    assert said == {"and r32,r32": 2, "and r64,r64": 2, "cmovne r32,r32": 2, "cmovne r64,r64": 2}
    assert found["and r64,r64"][-1].note.startswith("assumption")


def test_a_longer_chain_leads_the_result_back():
    form = FORMS["phaddw x,x"]
    for source, target in chains.pairs(form):
        chain = chains.chain(form, source, target)
        if not chain.repeated:
            continue
        for times in (4 + chain.swaps, 6 + chain.swaps):
            assert len(chains.prolonged(chain, times).waiting) == 1 + times
    ring = chains.chain(FORMS["vpabsd x,x"], *chains.pairs(FORMS["vpabsd x,x"])[0])
    assert ring.repeated
    assert ring.swaps
    assert not chains.chain(FORMS["imul r64,r64"], *chains.pairs(FORMS["imul r64,r64"])[0]).swaps


def test_bounds_are_chosen_together_the_longest_first():
    known = Latency("0", "0", 2, 2.0, 0.01)
    bound = Latency("0", "f", 0, 2.2, 0.01, refused="no more than 2.2 cycles")
    lost = Latency("1", "f", 0, float("nan"), 0.0, refused="not timed")
    assert [known.limited, bound.limited, lost.limited] == [False, True, False]
    tried = list(latency_fit._whole_cycles([known, bound, lost]))
    assert [[one.cycles for one in some] for some in tried] == [[2, 2, 0], [2, 1, 0], [2, 0, 0]]
    assert all(some[1].bound and not some[1].refused and some[2] == lost for some in tried)
    assert len(list(latency_fit._whole_cycles([bound, bound]))) == 9
    assert not list(latency_fit._whole_cycles([bound, bound, bound]))


def test_places_are_those_of_most_forms_with_the_same_uops():
    one, two = frozenset({0}), frozenset({0, 1})
    core = Core([PortClass(FORMS["add r64,r64"], 2, ())], [two], 5)
    known = {str(n): Uops(4, (one, one, two, two)) for n in range(4)}
    found = {"hidden": Uops(2, (two, one, two, one)), "other": Uops(2, (one, two))}
    agreed = port_usage._agreed(core, found, known)
    assert agreed["hidden"].slots == 4
    assert agreed["other"] == found["other"]  # nothing is known of its like
    assert port_usage._agreed(core, found, dict(list(known.items())[:3])) == found


@pytest.fixture(scope="module")
def skylake():
    """Return a laboratory, forms and what was learned of them."""
    names = ["add", "mov", "imul", "shl", "movq", "pand", "paddd", "mulps", "pshufd", "test", "dec"]
    names += ["rcl", "rcr", "cmpxchg", "cmovb", "bt", "bts", "adc"]
    laboratory = Laboratory(Simulated("skylake"))
    forms = [form for form in FORMS.values() if form.mnemonic in names]
    learned = learn(laboratory, forms, lambda _: None)
    ideal = {name: (value, UNKNOWN) for name, value in front_end_fit.IDEAL.items()}
    front_end = replace(learned.front_end, parameters=ideal)
    return laboratory, forms, replace(learned, front_end=front_end)


def test_a_form_is_not_held_to_the_mixture_that_chose_what_is_decoded_of_it(skylake):
    _, forms, learned = skylake
    assert not cross_check._redrawn(learned, forms)
    name = "rcl r32,i8"
    chosen = replace(learned, microcode=Microcode(5, 4, 2, {name: 2}))
    (anew,) = cross_check._redrawn(chosen, forms)
    (first,) = [one for one in cross_check.mixtures(chosen, forms) if one.form == name]
    assert anew.form == name
    assert anew.kernel != first.kernel


def test_a_unit_is_not_busy_where_a_sequencer_explains_its_cycles(skylake):
    laboratory, forms, learned = skylake
    name = "bts m64,r64"
    (form,) = [form for form in forms if form.name == name]
    busy = replace(learned.uops[name], busy=30)
    known = replace(learned, uops={**learned.uops, name: busy}, microcode=Microcode(5, 4, 2))
    assert decoding._without_busy_units(laboratory, known, [form], ()).uops[name].busy == 0
    plain = replace(known, microcode=Microcode(99, 0, 0))  # no sequencer sends it
    assert decoding._without_busy_units(laboratory, plain, [form], ()).uops[name].busy == 30


def test_a_move_is_free_and_what_flags_share_out_is_not():
    def found(source, cycles, target="0", refused=""):
        return Latency(source, target, cycles, float(cycles), 0.01, refused=refused)

    assert latency.is_free([found("1", 0)])
    assert latency.is_free([found("1", 0), found("1", 0, "f", "not known")])
    assert not latency.is_free([found("1", 1)])
    assert not latency.is_free([found("0", 1), found("f", 0), found("f", 1, "f")])
    assert not latency.is_free([found("f", 0)])
