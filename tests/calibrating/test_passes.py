"""What calibration asks for: few trials, the decisive ones, and what it does not trust."""

from dataclasses import replace

import pytest

from loopwright.calibrating import cross_check
from loopwright.calibrating.calibrate import chosen
from loopwright.calibrating.passes import MEASURED, PASSES, learn
from loopwright.microbench import blockers, kits, latency, throughput
from loopwright.microbench.blockers import Blocking, BlockingKernel
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Simulated

MNEMONICS = ["add", "imul", "shl", "paddd", "mulps", "pshufd", "movq", "mov", "vpand", "lea.bid",
             "adc", "cmovb", "pmulld", "haddps", "vaddps", "popcnt", "test", "divps",
             "dec"]  # fmt: skip


class Counting:
    """A machine that counts the trials that it is asked for."""

    def __init__(self, machine):
        self._machine, self.keys = machine, set()

    def __getattr__(self, name):
        return getattr(self._machine, name)

    def measure(self, trials):
        self.keys |= {trial.key for trial in trials}
        return self._machine.measure(trials)


def forms_of(machine):
    return {form.name: form for form in kits.forms(machine.isa, machine.features)[0]}


@pytest.fixture(scope="module")
def known():
    """Return a core, the forms that were learned of it, what was, and how many trials that took."""
    core = Counting(Simulated("skylake"))
    forms = [form for form in forms_of(core).values() if form.mnemonic in MNEMONICS]
    laboratory = Laboratory(core)
    learned = learn(laboratory, forms, lambda _: None)
    return laboratory, forms, learned, len(core.keys)


def test_a_form_costs_few_trials(known):
    _, forms, learned, trials = known
    told = [form for form in forms if learned.uops[form.name].ports is not None]
    assert len(told) > 0.95 * len(forms) > 120
    # Classes, windows, branches and code offsets cost as much for few forms as for all.
    assert trials < 1700 + 12 * len(forms)


def test_a_form_whose_mixtures_take_another_time_is_left_out(known):
    laboratory, forms, learned, _ = known
    plain = {n for n, one in learned.uops.items() if one.ports is not None}
    kept = cross_check.hold_to_mixtures(laboratory, learned, forms)
    assert sum(kept.uops[n].ports is None for n in plain) <= 0.07 * len(plain)
    name = "paddd x,x"
    slow = replace(learned.uops[name], slots=6, ports=learned.uops[name].ports * 6)
    wrong = replace(learned, uops={**learned.uops, name: slow})
    left = cross_check.hold_to_mixtures(laboratory, wrong, forms).uops
    assert left[name].ports is None
    assert left[name].why.startswith("beside ")
    assert sum(left[n].ports is None for n in plain) <= 0.07 * len(plain)


def test_one_long_loop_tells_what_the_slope_of_two_does():
    laboratory = Laboratory(Simulated("skylake", noise=0))
    forms = forms_of(laboratory.machine)
    names = ["add r64,r64", "imul r64,r64", "mulps x,x", "add r64,m64", "mov m64,r64"]
    kernels = [throughput.kernel(forms[name]) for name in names]
    pairs = zip(laboratory.time(kernels), laboratory.time(kernels, "slope"), strict=True)
    for one, two in pairs:
        assert one.cycles == pytest.approx(two.cycles, rel=0.02)


@pytest.mark.parametrize(
    ("core", "name", "pair", "cycles"),
    [
        ("skylake", "sbb m32,i32", ("f", "f"), 2),  # its twin of registers takes one
        ("skylake", "sbb m32,i32", ("a", "*"), 7),
        ("skylake", "add m32,r32", ("a", "*"), 6),
        ("skylake", "cvtsi2ss x,r64", ("0", "0"), 1),  # two uops on one port hide it
        ("skylake", "adc r16,i16", ("f", "f"), 1),  # decoding takes longer
        ("goldencove", "cmovb r64,r64", ("f", "0"), 1),  # where `test` takes two cycles
    ],
)
def test_latencies_that_other_things_hide(core, name, pair, cycles):
    laboratory = Laboratory(Simulated(core, noise=0))
    forms = forms_of(laboratory.machine)
    wanted = ("mov r64,m64", "add m32,r32", "sbb r32,i32", name)
    some = [forms[one] for one in dict.fromkeys(wanted)]
    rates = throughput.cycles(throughput.measure(laboratory, some))
    found = latency.measure(laboratory, some, rates)[name]
    (one,) = (x for x in found if (x.source, x.target) == pair)
    assert not one.refused
    assert not one.bound
    assert one.cycles == cycles


def test_what_cannot_be_told_of_flags_is_not_claimed():
    # The carry is what chains go through, and dec leaves it as it was.
    laboratory = Laboratory(Simulated("skylake", noise=0))
    form = forms_of(laboratory.machine)["dec r64"]
    rates = throughput.cycles(throughput.measure(laboratory, [form]))
    told = {(x.source, x.target): x for x in latency.measure(laboratory, [form], rates)[form.name]}
    assert told["0", "0"].cycles == 1
    assert "flag" in told["0", "f"].refused


def test_microcode_does_not_look_like_uops_of_other_ports():
    laboratory = Laboratory(Simulated("zen2", noise=0))
    forms = forms_of(laboratory.machine)
    shift, vector = forms["shld r64,r64,i8"], forms["movq x,x"]
    blocking = Blocking(4, ((vector, 4),))
    (short,) = blockers.measure(laboratory, [BlockingKernel(shift, blocking, 4)])
    assert (
        short.measured > 1
    )  # dispatch binds, as blockers and form take more places than there are
    (long,) = blockers.measure(laboratory, [blockers.within(shift, blocking, 4, 11, 5)])
    assert long.measured == pytest.approx(0, abs=0.1)
    assert blockers.within(shift, blocking, 4, 40, 5) is None


@pytest.mark.parametrize("core", ["skylake", "goldencove", "zen2", "neoverse-n1"])
def test_quick_keeps_what_is_used_and_what_it_rests_on(core):
    forms = forms_of(Simulated(core))
    kept = {form.name for form in chosen(list(forms.values()), quick=True, mnemonics=None)}
    assert 100 < len(kept) < len(forms)
    if core == "neoverse-n1":
        return
    used = {"add r64,r64", "mov r64,m64", "mov m8,r8", "add m64,i32", "movzx r32,m8", "sete r8",
            "imul r64,r64", "paddd x,x", "vaddps x,x,x", "mulsd x,m64", "pshufb x,x", "shl r64,cl",
            "sar r32,cl", "cvtsi2sd x,r64", "or r8,r8", "lea.rd r64"}  # fmt: skip
    assert used <= kept
    assert not {"rcl r64,1", "vpmulhrsw y,y,y", "phsubd x,x"} & kept
    assert "vphsubd x,x,x" in kept
    needed = {"movzx r32,m8", "mov m8,r8", "add m8,r8", "mov m16,r16", "vmovaps y,m256"}
    lacking = {n for n in kept - needed if forms[n].twin and forms[n].twin not in kept}
    assert not lacking


def test_a_pass_needs_what_was_measured_or_an_earlier_pass_provides():
    known = set(MEASURED)
    for one in PASSES:
        assert one.needs <= known, one
        known |= one.provides


class _LateAtFirst(Simulated):
    """A machine whose first measurement of each trial is 5 % too slow."""

    def measure(self, trials):
        timings = zip(trials, super().measure(trials), strict=True)
        return [timing if trial.look else replace(timing, cycles=1.05 * timing.cycles)
                for trial, timing in timings]  # fmt: skip


def test_loads_that_are_a_little_late_are_measured_again():
    machine = _LateAtFirst("zen4", noise=0)
    load, product = (forms_of(machine)[name] for name in ("mov r64,m64", "imul r64,r64"))
    rates = throughput.measure(Laboratory(machine), [load, product])
    assert rates[load.name].cycles == pytest.approx(1 / 3, rel=0.01)
    assert rates[product.name].cycles == pytest.approx(1.05, rel=0.01)
