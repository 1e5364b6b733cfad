"""Dry run of calibration: the trials to measure on a machine that has no solver.

The trials of an experiment depend on earlier answers, and a kit holds all its trials in advance.
Known cores therefore answer in the machine's place: the first round holds the trials for learning
each known core of an ISA, up to the classes of forms; a further round those for learning this
machine, with the most similar known core in the place of missing answers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from loopwright import microarchs
from loopwright.calibrating import passes
from loopwright.calibrating.passes import Step, measure_basis
from loopwright.errors import InputError
from loopwright.microbench import kits, latency, throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.kept_answers import Replay
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.oracle import Oracle, Timing, Trial
from loopwright.microbench.simulated import Simulated


class DryRun:
    """An oracle with the known answers of a machine, which records the missing ones.

    For a missing answer it returns that of guess, so that experiments that depend on answers go on.
    missing holds the trials without a known answer, in the order of the requests.
    """

    def __init__(
        self, known: Mapping[str, Timing], guess: Oracle, features: frozenset[str]
    ) -> None:
        """Store answers by the keys of their trials."""
        self.isa, self.name = guess.isa, guess.name
        self.features, self.host = features, guess.host
        self.fingerprint = f"foreseen by {guess.fingerprint}"
        self.missing: dict[str, Trial] = {}
        self._known, self._guess = known, guess

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        """Return a timing for each trial, in order."""
        found = {t.key: self._known[t.key] for t in trials if t.key in self._known}
        lacking = [trial for trial in trials if trial.key not in found]
        self.missing |= {trial.key: trial for trial in lacking}
        guessed = zip(lacking, self._guess.measure(lacking), strict=True)
        found |= {trial.key: timing for trial, timing in guessed}
        return [found[trial.key] for trial in trials]


_COMPARED = 200  # throughputs by which cores are compared with a machine
_NEAR = 0.05

Round = dict[str, tuple[str, Trial]]
Chosen = Callable[[Sequence[Form]], Sequence[Form]]


class _Silent:
    """A machine that refuses every trial."""

    def __init__(self, isa: str) -> None:
        self.isa, self.name, self.fingerprint = isa, "none", "none"
        self.features: frozenset[str] = frozenset()
        self.host: Mapping[str, Any] = {}

    def measure(self, trials: Sequence[Trial]) -> list[Timing]:
        return [Timing(None, refused="not measured yet") for _ in trials]


def first_round(isa: str, choose: Chosen) -> Round:
    """Return the trials of a first round by their keys, with their experiments.

    Throughputs and latencies are those of all forms of any core; choose selects the forms to learn.
    """
    found: Round = {}
    every = choose(kits.forms(isa, None)[0])
    cores = [Simulated(core, noise=0) for core in _cores(isa)]
    for core in cores:
        forms = choose(kits.forms(isa, core.features)[0])
        _foresee(DryRun({}, core, core.features), forms, found, measure_basis)
    plain = DryRun({}, _Silent(isa), frozenset())
    rates = throughput.measure(Laboratory(plain), every)
    _note(found, "throughput", plain)
    latency.measure(Laboratory(plain), every, throughput.cycles(rates))
    _note(found, "latencies", plain)
    return _in_order(found)


def further_round(answers: Replay, choose: Chosen) -> Round:
    """Return the unanswered trials for learning a machine."""
    forms = choose(kits.forms(answers.isa, answers.features)[0])
    found: Round = {}
    guess = _nearest(answers, forms)
    _foresee(DryRun(answers.known, guess, answers.features), forms, found, passes.learn_core)
    return _in_order(found)


def _foresee(
    machine: DryRun,
    forms: Sequence[Form],
    found: Round,
    experiments: Callable[[Laboratory, Sequence[Form], Step], object],
) -> None:
    """Learn a simulated machine as far as its answers lead, and record the trials."""
    doing = ""

    def step(said: str) -> None:
        nonlocal doing
        _note(found, doing, machine)
        doing = said.split()[0].strip(",")

    # A guess may contradict itself: the trials so far are kept.
    with suppress(InputError):
        experiments(Laboratory(machine), forms, step)
    _note(found, doing, machine)


def _note(found: Round, what: str, machine: DryRun) -> None:
    for key, trial in machine.missing.items():
        found.setdefault(key, (what, trial))


def _in_order(found: Round) -> Round:
    """Return trials grouped by experiment, in the order of their first request."""
    order = list(dict.fromkeys(what for what, _ in found.values()))
    return dict(sorted(found.items(), key=lambda item: order.index(item[1][0])))


def _cores(isa: str) -> list[str]:
    """Return the cores of an ISA that the simulator has figures for."""
    return [core for core in microarchs.ids() if microarchs.load(core).isa == isa]


def _nearest(answers: Replay, forms: Sequence[Form]) -> Oracle:
    """Return the known core whose throughputs are most similar to the measured ones."""
    every = throughput.measure(Laboratory(answers), forms)
    answered = [form for form in forms if not every[form.name].refused]
    some = answered[:: max(1, len(answered) // _COMPARED)]
    best: tuple[float, Oracle] | None = None
    for core in _cores(answers.isa):
        machine = Simulated(core, noise=0)
        rates = throughput.measure(Laboratory(machine), some)
        errors = [
            abs(rates[f.name].cycles / every[f.name].cycles - 1)
            for f in some
            if not rates[f.name].refused and every[f.name].cycles > 0
        ]
        near = sum(error <= _NEAR for error in errors) / max(1, len(some))
        if best is None or near > best[0]:
            best = near, machine
    if best is None or not some:
        raise InputError(
            f"{answers.name}: no throughput is answered, so that nothing tells what to ask; "
            "measure the first round again"
        )
    return best[1]
