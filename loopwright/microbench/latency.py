"""Latency of each pair of operands; additions that rename performs; zero idioms.

Latency from each operand read to each operand written. Microbenchmark: a chain (module chains). The
latency is the cycles of a copy less those of the carriers. For an address, the base depends on the
loaded value and keeps its own, so that the chain goes on reading one address. A form with a memory
operand has its twin's latencies between registers. A read-modify-write uses another address in each
copy, and one address throughout for the latency through memory. Carriers between register kinds are
known as a round trip alone. Where adds with carry take a cycle both through the register and
through the flags, they tell the way to flags apart, which is 1 cycle otherwise; the way to vectors
is taken to be as long as the way from them.

Additions of constants that rename performs need no port and no cycle. Microbenchmark: a register to
which a constant is added and from which it is subtracted again, so that the accumulated constant
stays in range. An addition takes much less than a cycle up to the largest constant that rename
adds.

Zero idioms have a known result where their operands are one register, such as x xor x.
Microbenchmark: the form with one register, over and over. It waits for nothing if a copy takes
less than the latency, and needs no port where as many as the dispatch width run a cycle.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from loopwright.microbench import chains, form_instances
from loopwright.microbench.chains import Chain
from loopwright.microbench.forms import BASE, Form
from loopwright.microbench.laboratory import Figure, Laboratory

_WHOLE = 0.12  # cycles: tolerance of a latency around a whole number
_BELOW = 0.45  # cycles below a whole number that copies of the form alone may show
_APART = 0.95  # share of a chain's cycles, at most, of its kernel without the chain
_CLEAR = 0.7  # share of a latency below which the form's throughput leaves the chain binding
_PROLONGED = 6.0  # throughput in cycles up to which longer chains are tried
_LEAST_OF_FLAGS = 0.5  # cycles of a form that computes flags, at least
_FLAGS_LATER = 8  # cycles by which flags may be later than every other result
# cycles of each of repeated changes of a word, at least, if they wait for each other
_LEAST_UPDATE = 0.8
ALL = "*"  # the target of a latency to all results
STORED = "m"  # the target of a latency to stored data


@dataclass(frozen=True)
class Latency:
    """Cycles from one operand to another by their labels, or a refusal.

    bound says that the cycles are an upper bound: the kernel takes as long without the chain, or no
    whole number of cycles. twin names the form that was measured, if it was another.
    """

    source: str
    target: str
    cycles: int
    measured: float
    uncertainty: float
    bound: bool = False
    refused: str = ""
    twin: str = ""

    @property
    def plain(self) -> bool:
        """True if the cycles are exact, not refused and no bound."""
        return not self.refused and not self.bound

    @property
    def note(self) -> str:
        """The remark on the figure."""
        if self.bound and math.isnan(self.measured):
            return "assumption: as similar forms, as no chain told"
        whole = self.bound and abs(self.measured - round(self.measured)) <= _WHOLE
        doubt = "at most: the chain does not bind" if whole else "no whole number of cycles"
        twin = f"measured of {self.twin}" if self.twin else ""
        return "; ".join(filter(None, (self.refused or doubt * self.bound, twin)))

    @property
    def limited(self) -> bool:
        """True if it was refused although a chain has shown a bound."""
        return bool(self.refused) and self.measured == self.measured


def of_address(latencies: Sequence[Latency]) -> int | None:
    """Return the cycles from an address to the loaded data, None if unknown."""
    return next((one.cycles for one in latencies if one.source == BASE and one.plain), None)


def measure(
    laboratory: Laboratory, forms: Sequence[Form], alone: Mapping[str, float]
) -> dict[str, list[Latency]]:
    """Return the latencies of each form; alone has the throughputs in cycles.

    The kernel without the chain is not timed where it cannot take as long, as all its instructions
    together take less.
    """
    carrying = chains.measure_carriers(laboratory)
    times = partial(_times, laboratory, alone, carrying)
    out: dict[str, list[Latency]] = {form.name: [] for form in forms}
    all_chains = [chains.chain(form, s, t) for form in forms for s, t in chains.pairs(form)]
    for notion in ("loop", "unrolled"):
        chosen = [chain for chain in all_chains if chain.notion == notion]
        for chain, latency in zip(chosen, times(chosen, notion), strict=True):
            out[chain.form.name].append(latency)
    _retime(times, all_chains, out, "loop", _wants_loop)
    _retime(times, all_chains, out, "unrolled", _wants_straight)
    _replace_by_longer_chains(laboratory, all_chains, out, alone, carrying)
    updates = _update_latencies(laboratory, forms, out.get(laboratory.kit.LOAD, []))
    for name, rewritten in _false_dependencies(laboratory, forms, alone).items():
        out[name] += rewritten
    for form in forms:
        of_form = [*out[form.name], *updates.get(form.name, [])]
        of_form = _with_twin(form, of_form, out.get(form.twin, []))
        out[form.name] = _without_flag_bounds(_bounding_slow_flags(of_form))
    return out


def _times(
    laboratory: Laboratory,
    alone: Mapping[str, float],
    carriers: Mapping[tuple[str, str], float],
    timed: Sequence[Chain],
    notion: str,
) -> list[Latency]:
    """Return the latency that each chain shows, timed as loops or as straight code."""
    waiting = laboratory.time([chain.waiting for chain in timed], notion)
    carried = [chains.carrier_cycles(chain, carriers) for chain in timed]
    unsure = [
        n
        for n, (chain, figure) in enumerate(zip(timed, waiting, strict=True))
        if figure
        if notion != "loop" or not _surely_binds(chain, figure, alone[chain.form.name], carried[n])
    ]
    free = dict(zip(unsure, laboratory.time([timed[n].free for n in unsure], notion), strict=True))
    return [
        _latency(chain, figure, free.get(n), carried[n])
        for n, (chain, figure) in enumerate(zip(timed, waiting, strict=True))
    ]


def _wants_loop(chain: Chain, latency: Latency) -> bool:
    """True if a loop may tell more of a chain of flags.

    The decoders may limit straight code. A loop's branch keeps the carry flag, and where it writes
    the flag of the chain, that is one link of many.
    """
    return chain.notion == "unrolled" and latency.bound


def _wants_straight(chain: Chain, latency: Latency) -> bool:
    """True if straight code may tell more of a chain without a stable speed in a loop.

    Zen 3 has such chains where vectors cross their halves: 3.2 to 3.5 cycles from iteration to
    iteration.
    """
    return chain.repeated and bool(latency.refused)


def _retime(
    times: Callable[[Sequence[Chain], str], Sequence[Latency]],
    all_chains: Sequence[Chain],
    latencies: Mapping[str, list[Latency]],
    notion: str,
    may_gain: Callable[[Chain, Latency], bool],
) -> None:
    """Replace latencies that may gain by those that another way of repetition shows."""
    known = {(n, x.source, x.target): x for n, of_form in latencies.items() for x in of_form}
    doubtful = []
    for chain in all_chains:
        latency = known[chain.form.name, chain.source.label, chain.target.label]
        if may_gain(chain, latency):
            doubtful.append((chain, latency))
    retimed = times([chain for chain, _ in doubtful], notion)
    for (chain, latency), other in zip(doubtful, retimed, strict=True):
        if other.plain or (latency.refused and not other.refused):
            of_form = latencies[chain.form.name]
            of_form[of_form.index(latency)] = other


def _replace_by_longer_chains(
    laboratory: Laboratory,
    all_chains: Sequence[Chain],
    latencies: Mapping[str, list[Latency]],
    alone: Mapping[str, float],
    carriers: Mapping[tuple[str, str], float],
) -> None:
    """Replace bounds, and latencies close to one, by those that longer chains show.

    Their additional carriers use few ports, so that the chain binds where the form's own would not.
    """
    chain_of = {(x.form.name, x.source.label, x.target.label): x for x in all_chains if x.prolongs}
    longer: list[tuple[int, str, Chain, float, float]] = []
    for name, of_form in latencies.items():
        for n, latency in enumerate(of_form):
            chain = chain_of.get((name, latency.source, latency.target))
            if chain is None or latency.refused or not alone[name] <= _PROLONGED:
                continue
            carrier = carriers[chain.source.kind, chain.source.kind]
            near = chain.source is chain.target and alone[name] >= _CLEAR * latency.measured
            if carrier != carrier or not (latency.bound or near):
                continue
            times = 2 * math.ceil((alone[name] + 1 + chain.other_cycles) / carrier) + chain.swaps
            prolonged = chains.prolonged(chain, times)
            longer.append((n, name, prolonged, times * carrier, alone[name]))
    figures = laboratory.time([chain.waiting for _, _, chain, _, _ in longer])
    for (n, name, chain, carried, free), figure in zip(longer, figures, strict=True):
        if not figure:
            continue
        of_form, latency = latencies[name], latencies[name][n]
        plain = chain.source is chain.target
        if _binds(chain, figure, free + chain.other_cycles):
            other = _latency(chain, figure, None, carried)
            # What carries vectors may wait longer for the form than the form itself does.
            other = other if plain else replace(other, bound=True)
            of_form[n] = other if plain or other.measured < latency.measured else latency
        elif plain and figure.cycles / chain.copies < carried - _LEAST_OF_FLAGS:
            of_form[n] = replace(latency, cycles=0, measured=0.0, bound=False)


def _false_dependencies(
    laboratory: Laboratory, forms: Sequence[Form], alone: Mapping[str, float]
) -> dict[str, list[Latency]]:
    """Return the latency from registers that a form only writes, where it waits for them.

    Such false dependencies are those of popcnt on Intel cores before Ice Lake, for example.
    """
    pairs = [(form, result) for form in forms for result in chains.results(form)]
    figures = laboratory.time([chains.rewritten(form) for form, _ in pairs])
    out: dict[str, list[Latency]] = {}
    for (form, result), figure in zip(pairs, figures, strict=True):
        cycles, error = figure.cycles / chains.COPIES, figure.uncertainty / chains.COPIES
        waits = bool(figure) and alone[form.name] <= _APART * cycles - _WHOLE
        if waits and abs(cycles - round(cycles)) <= max(_WHOLE, 3 * error):
            label = result.label
            out[form.name] = [Latency(label, label, round(cycles), cycles, error)]
    return out


def _update_latencies(
    laboratory: Laboratory, forms: Sequence[Form], loads: Sequence[Latency]
) -> dict[str, list[Latency]]:
    """Return the latency from the address to the stored data of read-modify-writes.

    It is that of a load, a cycle, and the difference between repeated changes of a word by the form
    and by an addition. Cores with memory renaming may apply it to additions of constants alone; the
    addition with the closer cycles is the reference. Changes of less than a cycle each do not wait
    for each other: their latency is 0.
    """
    load = next((latency for latency in loads if latency.plain), None)
    by_name = {form.name: form for form in forms}
    updates = [form for form in forms if form.memory and form.memory.read and form.memory.written]
    adds = laboratory.kit.ADDITIONS
    names = {f.name: [a.format(f.memory.bits) for a in adds] for f in updates if f.memory}
    additions = {n: [by_name[one] for one in names[n] if one in by_name] for n in names}
    timed = list(dict.fromkeys([*updates, *itertools.chain.from_iterable(additions.values())]))
    times = laboratory.time([[form_instances.under_test(form)] for form in timed])
    figures = {form.name: figure for form, figure in zip(timed, times, strict=True)}
    out = {}
    for form in updates:
        figure = figures[form.name]
        differences = {
            one: abs(figures[one.name].cycles - figure.cycles)
            for one in sorted(additions[form.name], key=lambda one: one is not form)
            if figure and figures[one.name]
        }
        if load and differences:
            reference = min(differences, key=lambda one: differences[one])
            added = figures[reference.name]
            waits = figure.cycles >= _LEAST_UPDATE
            cycles = load.measured + 1 + figure.cycles - added.cycles if waits else 0.0
            error = (load.uncertainty**2 + figure.uncertainty**2 + added.uncertainty**2) ** 0.5
            bound = abs(cycles - round(cycles)) > max(_WHOLE, 3 * error)
            note = "" if form is reference else f"{laboratory.kit.LOAD} and {reference.name}"
            out[form.name] = [Latency(BASE, ALL, round(cycles), cycles, error, bound, "", note)]
    return out


def _bounding_slow_flags(latencies: Sequence[Latency]) -> list[Latency]:
    """Return latencies with bounds to flags that take far longer than any other result.

    Reading the flags of a shift by cl takes 32 cycles on Zen 4, but a shift waits for no flags, as
    a latency of its uop would say.
    """
    others = [one.cycles for one in latencies if one.plain and one.target != "f"]
    most = max(others, default=math.inf) + _FLAGS_LATER
    return [
        replace(one, bound=True) if one.target == "f" and one.cycles > most else one
        for one in latencies
    ]


def _without_flag_bounds(latencies: Sequence[Latency]) -> list[Latency]:
    """Return latencies without bounds to flags, where those to other results are known.

    A bound would count for all results of a multi-uop instruction. From flags, a bound below the
    known latencies is kept, as it tells more.
    """
    most = max((one.cycles for one in latencies if one.plain and one.target == "f"), default=0)
    sure = {one.source for one in latencies if one.plain}
    if any(one.target == ALL and one.plain for one in latencies):
        sure |= {one.source for one in latencies}
    why = "no more than {:.1f} cycles: the kernel takes as long without the chain"
    return [
        replace(one, cycles=0, refused=why.format(one.measured))
        if one.bound
        and one.target == "f"
        and one.source in sure
        and not one.refused
        and (one.source != "f" or one.cycles >= most)
        else one
        for one in latencies
    ]


def _with_twin(form: Form, own: Sequence[Latency], twin: Sequence[Latency]) -> list[Latency]:
    """Return latencies of a memory form, with its twin's where a chain showed none."""
    read = {o.label for o in form.operands if o.read or o.written}
    written = {STORED, *(o.label for o in form.operands if o.written)}
    plain = {(one.source, one.target) for one in own if one.plain}
    bounds = {(one.source, one.target): one.measured for one in own if one.bound}
    of_twin = {
        (one.source, one.target): replace(one, twin=form.twin)
        for one in map(partial(_stored, form), twin)
        if one.source in read and one.target in written
        if (one.source, one.target) not in plain and not one.refused
        if one.plain or one.measured <= bounds.get((one.source, one.target), math.inf)
    }
    kept = [one for one in own if (one.source, one.target) not in of_twin]
    return [*kept, *of_twin.values()]


def _stored(form: Form, latency: Latency) -> Latency:
    """Return a latency of a twin, retargeted to stored data if no register result waits."""
    changes = form.memory is not None and form.memory.read and form.memory.written
    has_target = any(latency.target == operand.label for operand in form.operands)
    stored = changes and not has_target and not latency.cycles
    return replace(latency, target=STORED) if stored else latency


def _surely_binds(chain: Chain, figure: Figure, alone: float, carried: float) -> bool:
    """True if a chain surely binds: everything else takes less, its carriers included."""
    adds = figure.cycles / chain.copies - carried > 1 - _WHOLE
    return adds and _binds(chain, figure, alone + chain.other_cycles)


def _binds(chain: Chain, figure: Figure, cycles: float) -> bool:
    """True if a chain takes clearly longer a copy than so many cycles without the chain."""
    return cycles <= _APART * figure.cycles / chain.copies - _WHOLE


def _latency(chain: Chain, figure: Figure, free: Figure | None, carried: float) -> Latency:
    """Return the latency that a chain shows; free is None where the chain surely binds."""
    cycles, error = figure.cycles / chain.copies, figure.uncertainty / chain.copies
    measured = cycles - carried
    labels = (chain.source.label, chain.target.label)
    if chain.target.kind == "flags" != chain.source.kind and figure and measured < _LEAST_OF_FLAGS:
        why = "it does not write the flag that carries its result back"
        return Latency(*labels, 0, float("nan"), 0.0, refused=why)
    if not figure or measured != measured:
        why = figure.refused or "what carries its result back is not known"
        return Latency(*labels, 0, float("nan"), 0.0, refused=why)
    whole = abs(measured - round(measured)) <= max(_WHOLE, 3 * error)
    slower = free is None or (bool(free) and _binds(chain, figure, free.cycles / chain.copies))
    bound = not whole or not slower
    value = round(measured) if whole else int(measured + _BELOW * (slower and not carried))
    return Latency(*labels, max(value, 0), measured, error, bound)


_POWERS = range(7, 16)  # powers of two around which constants are tried
_ADDITIONS = 8  # additions of a kernel
_RENAMED_ADDITION = 0.7  # cycles of an addition that rename performs, at most
_TRIED_CONSTANTS = (1, *(n for power in _POWERS for n in ((1 << power) - 1, 1 << power)))
_MORE_THAN_TRIED = 1 << 16
NO_CONSTANT = 0


@dataclass(frozen=True)
class Constants:
    """The largest constant that rename adds, NO_CONSTANT if it adds none, and the evidence."""

    limit: int
    evidence: str


def renamed_constants(laboratory: Laboratory, form: Form | None) -> Constants:
    """Return the constants that rename adds; form adds any constant, None without such a form."""
    if form is None:
        return Constants(NO_CONSTANT, "")
    register = form.kit.POOLS["gpr"].back[0]
    kernels = [
        [form.encode({"0": register, "i": sign * n}) for sign in (1, -1)] * (_ADDITIONS // 2)
        for n in _TRIED_CONSTANTS
    ]
    timed = zip(_TRIED_CONSTANTS, laboratory.time(kernels), strict=True)
    cycles = {n: figure.cycles / _ADDITIONS for n, figure in timed if figure}  # by constant
    slow = min(
        (n for n, each in cycles.items() if each >= _RENAMED_ADDITION), default=_MORE_THAN_TRIED
    )
    limit = max((n for n in cycles if n < slow), default=NO_CONSTANT)
    if not limit:
        return Constants(NO_CONSTANT, "")
    note = f"{cycles[1]:.2f} cycles for each addition of 1"
    return Constants(limit, note + (f", {cycles[slow]:.2f} of {slow}" if slow in cycles else ""))


def computed_latencies(
    latencies: Mapping[str, Sequence[Latency]], constants: Constants, names: Sequence[str]
) -> dict[str, Sequence[Latency]]:
    """Return latencies with those of the named additions as in an execution unit, a cycle."""
    out = dict(latencies)
    if constants.limit:
        for name in names:
            out[name] = [
                one if one.refused else replace(one, cycles=1, bound=False)
                for one in latencies.get(name, ())
            ]
    return out


_WAITS_FOR_ITSELF = 0.9  # share of the latency from which on a copy waits
_AS_FAST_AS_DISPATCH = 1.08  # factor over the dispatch-bound cycles up to which no port is needed


@dataclass(frozen=True)
class Idiom:
    """Cycles of a form with all operands in one register, and whether it then needs a port.

    A zero idiom waits for nothing; a move that rename performs between two registers waits.
    """

    figure: Figure
    port: bool
    waits: bool = False


def zero_idioms(
    laboratory: Laboratory,
    forms: Sequence[Form],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, Idiom]:
    """Return the zero idioms, and eliminated moves that wait where operands are one register."""
    free = {form.name for form in forms if is_free(latencies[form.name])}
    candidates = [
        form
        for form in filter(_is_of_one_kind, forms)
        if form.name in free or (_is_idiom(form) and _least_latency(latencies[form.name]))
    ]
    figures = laboratory.time([[_of_one_register(form)] for form in candidates])
    out = {}
    for form, figure in zip(candidates, figures, strict=True):
        least = _least_latency(latencies[form.name])
        if figure and figure.cycles < _WAITS_FOR_ITSELF * least:
            out[form.name] = Idiom(figure, figure.cycles > _AS_FAST_AS_DISPATCH / width)
        elif form.name in free and figure and figure.cycles >= _WAITS_FOR_ITSELF:
            out[form.name] = Idiom(figure, port=True, waits=True)
    return out


def is_free(latencies: Sequence[Latency]) -> bool:
    """True if a one-register result takes no cycle, as of eliminated moves.

    Where rename eliminates some of the moves alone, a chain takes a part of a cycle for each.
    """
    to_result = [
        one
        for one in latencies
        if one.target == "0" and (one.plain or (not one.refused and one.measured > _WHOLE))
    ]
    return len(to_result) == 1 and to_result[0].cycles == 0 and to_result[0].source.isdigit()


def _is_of_one_kind(form: Form) -> bool:
    """True if all operands can be one register, or parts of it."""
    kinds = {one.kind for one in form.chosen}
    return form.memory is None and len(form.chosen) > 1 and len(kinds) == 1


def _is_idiom(form: Form) -> bool:
    """True if the form may be a zero idiom."""
    return form.mnemonic in form.kit.IDIOMS and len({one.bits for one in form.chosen}) == 1


def _least_latency(latencies: Sequence[Latency]) -> int:
    """Return the least latency to the result, 0 if unknown."""
    return min((one.cycles for one in latencies if one.plain and one.target == "0"), default=0)


def _of_one_register(form: Form) -> bytes:
    register = form.kit.POOLS[form.chosen[0].kind].back[0]
    return form.encode({one.label: register for one in form.chosen})
