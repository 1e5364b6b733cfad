"""Result buses: moves from vectors to general registers that take the result bus of an ALU.

On some cores such a move has a port of its own, and its result takes the bus of an arithmetic port,
which then starts no other uop. Moves go first, so that they are no uops of that port.

Microbenchmarks: loops of a form that reads vectors and writes a general register, and of blocking
instructions of each class that computes in general registers. The form may have a vector uop, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

from loopwright.calibrating import core_files, fit, port_classes
from loopwright.calibrating.core_model import TRIED, CoreModel, Evidence, fitted
from loopwright.calibrating.dispatch_rules import LEFT, flags_pair
from loopwright.calibrating.ports import Ports, Uops
from loopwright.microbench import form_instances
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory

BORROWED = "ports.borrowed"
_SLOTS = 2  # of a form, at most
_CYCLES = 1.1  # of a form, at most
_LOOPS = 10  # of a form, at least
_GAIN, _SECOND = 0.05, 0.01  # of the mean error, that a bus and a second uop explain at least
_MOVES = (1, 2)
_FILLED = (1, 2)  # cycles that blocking instructions take alone
_FLAGS = (1, 2, 3)  # instructions that write flags alone
_LEFT_SLOTS = (2, 1)  # of a cycle, beside moves: for the form and the end of the loop, or one less


def choose_result_buses(
    laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]
) -> CoreModel:
    """Return the learned core with the ports of moves from vectors, and the buses that they take.

    It is unchanged where vectors and general registers share arithmetic ports.
    """
    core = learned.core
    moves = [form for form in forms if _moves_to_general(learned, form)]
    if not moves or not core.vector_ports:
        return learned
    first = max(learned.every_port) + 1
    buses = {first + n: lender for n, lender in enumerate(sorted(core.integer_ports))}
    bodies = {form.name: list(_beside_arithmetic(learned, form)) for form in moves}
    loops = [body for own in bodies.values() for body in own]
    figures = dict(zip(loops, laboratory.iterations(loops), strict=True))
    bodies = {name: [body for body in own if figures[body]] for name, own in bodies.items()}
    bodies = {name: own for name, own in bodies.items() if len(own) >= _LOOPS}
    errors: dict[str, dict[tuple[Ports, ...], float]] = {name: {} for name in bodies}
    for ports in _usages(learned, buses):
        candidate = fit.candidate_laboratory(
            _with_buses(learned, dict.fromkeys(bodies, ports), buses), laboratory.machine, loops
        )
        predicted = dict(zip(loops, candidate.iterations(loops), strict=True))
        for name, own in bodies.items():
            own_figures = [figures[body] for body in own]
            errors[name][ports] = fit.mean_error([predicted[body] for body in own], own_figures)
    taken = {
        name: best
        for name, own_errors in errors.items()
        if (best := _best(own_errors, learned.uops[name].slots))
    }
    if not taken:
        return learned
    used = frozenset().union(*(ports[-1] for ports in taken.values()))
    error = 100 * fmean(errors[name][ports] for name, ports in taken.items())
    without = 100 * fmean(errors[name][()] for name in taken)
    why = fitted(
        f"loops of {len(taken)} forms such as {min(taken)} beside arithmetic, "
        f"mean error {error:.1f} %, {without:.1f} % without"
    )
    lenders = {port: lender for port, lender in buses.items() if port in used}
    return _with_buses(learned, taken, lenders, why)


def _usages(learned: CoreModel, buses: Iterable[int]) -> Iterator[tuple[Ports, ...]]:
    """Yield the ports of a form's uops: as learned, a move by each bus, and with a vector uop."""
    yield ()
    vector = dict.fromkeys(learned.core.vector_classes)
    for computing, port in product([(), *zip(vector)], buses):
        yield (*computing, frozenset({port}))


def _best(errors: Mapping[tuple[Ports, ...], float], slots: int) -> tuple[Ports, ...]:
    """Return the ports that explain loops; none if they explain hardly more than the learned ones.

    A form has as many uops as slots at most. A second uop explains more than the first one alone.
    """
    possible = [ports for ports in errors if ports and len(ports) <= (slots or _SLOTS)]
    best = min(possible, key=lambda ports: errors[ports] + _SECOND * len(ports))
    left = min(fit.EXPLAINED, LEFT * errors[()], errors[()] - _GAIN)
    return best if errors[best] <= left else ()


def _moves_to_general(learned: CoreModel, form: Form) -> bool:
    """True if a form reads vectors alone and writes a general register, in a cycle."""
    written = [one for one in form.operands if one.written]
    read = [one for one in form.operands if one.read]
    uops, rate = learned.uops.get(form.name), learned.throughputs[form.name]
    return (
        form.memory is None
        and [one.kind for one in written] == ["gpr"]
        and bool(read)
        and all(one.kind == "vector" for one in read)
        and (rate.clean and rate.cycles <= _CYCLES)
        and uops is not None
        and uops.slots <= _SLOTS
    )


def _beside_arithmetic(learned: CoreModel, form: Form) -> Iterator[bytes]:
    """Yield loops of one or two instances of a form, and of what needs a bus, a port or a slot."""
    for ports in dict.fromkeys(learned.core.integer_classes):
        blocker = learned.core.blocker_of(ports)
        if blocker and learned.has_ports(blocker.name) and blocker is not form:
            for moves, cycles in product(_MOVES, _FILLED):
                parts = [(form, moves), (blocker, cycles * len(ports))]
                yield b"".join(port_classes.mixture(parts))
    kit = form.kit
    instance = form.encode(form_instances.registers_for(form, {}))
    flags = kit.break_dependency("flags", 0)
    for number in _FLAGS:
        yield instance + flags * number
    if pair := flags_pair(kit):
        yield instance + pair
    for left in _LEFT_SLOTS:
        yield instance + kit.MOVE * (learned.width.instructions - left)


def _with_buses(
    learned: CoreModel,
    taken: Mapping[str, Sequence[Ports]],
    buses: Mapping[int, int],
    why: Evidence = TRIED,
) -> CoreModel:
    """Return the learned core with other ports of forms, and the buses that such ports take.

    A form without other ports has its own, or those that failed their check.
    """
    uops = {}
    for name, ports in taken.items():
        own = learned.uops[name]
        if ports:
            uops[name] = Uops(max(own.slots, len(ports)), tuple(ports), why=own.why)
        else:
            uops[name] = replace(own, ports=own.ports or own.rejected)
    named = [[core_files.port_names(frozenset({port})) for port in pair] for pair in buses.items()]
    text = " ".join(map("".join, named))
    learned = replace(learned, uops={**learned.uops, **uops}, result_buses=buses)
    return fit.with_rules(learned, {BORROWED: text}, why)
