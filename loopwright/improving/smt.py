"""Proof by an SMT solver that a loop and its new code are equal for all inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import iced_x86 as iced

from loopwright.errors import InputError, explained_lack
from loopwright.improving.bare import BEHIND, HEAD, Bare
from loopwright.improving.formulas import BITS, Formulas, State, X86Formulas, vector_bits
from loopwright.improving.formulas_arm64 import FLAG_BITS, Arm64Formulas, arm64_instructions
from loopwright.improving.listing import CARRY, FLAGS

_MOST_OLD, _MOST_NEW = 40, 160  # instructions
_MOST_TURNS = 8
# of a question, of all; in resource units of the solver
_EFFORT, _MOST_EFFORT = 3_000_000, 60_000_000
_CLASSES = {CARRY: ("CF",), FLAGS: (*(bit for bit in BITS if bit != "CF"), *FLAG_BITS)}


def prove(bare: Bare, new: bytes, entries: Mapping[str, int]) -> str:
    """Prove a loop's new code equal to it; return the reason if that fails, "" otherwise.

    The proof is by induction over the heads of the new code's loops. From each head, a way to the
    next head does what some number of whole iterations of the loop do, or what they do up to the
    same exit: from equal live registers, flags and memory to equal ones, without an access to an
    address that the loop does not access. Further facts at a head are guessed from the first way
    there, and kept if every way back preserves them.
    """
    try:
        with explained_lack():
            import z3
        return _Simulation(z3, bare, new, entries).failure()
    except InputError as error:
        return str(error)


@dataclass
class _Simulation:
    """The two codes, the places where they are compared, and the facts that hold there."""

    z3: Any
    bare: Bare
    new: bytes
    entries: Mapping[str, int]
    facts: dict[int, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Decode both codes."""
        start = 1 << 32 | self.bare.offset  # far from the code's own addresses
        self._start, self._begun = start, 0
        old, new = (self._decoded(text) for text in (self.bare.code, self.new))
        if len(old) > _MOST_OLD or len(new) > _MOST_NEW:
            raise InputError(f"it has more than {_MOST_OLD} instructions, {_MOST_NEW} new ones")
        functions: dict[Any, Any] = {}
        self._old: Formulas[Any]
        self._new: Formulas[Any]
        if self.bare.isa == "x86_64":
            bits = vector_bits([*old.values(), *new.values()])
            self._old = X86Formulas(self.z3, old, functions, bits)
            self._new = X86Formulas(self.z3, new, functions, bits)
        else:
            self._old = Arm64Formulas(self.z3, old, functions)
            self._new = Arm64Formulas(self.z3, new, functions)
        targets = ((ip, self._new.flow(ins)[1]) for ip, ins in new.items())
        self._heads = frozenset(
            to for ip, to in targets if to is not None and to in new and to <= ip
        )
        listing = self.bare.listing
        self._live = {name: listing.live[listing.position[name]] for name in (HEAD, *self.entries)}

    def _decoded(self, text: bytes) -> dict[int, Any]:
        if self.bare.isa != "x86_64":
            return {ins.ip: ins for ins in arm64_instructions(text, self._start)}
        decoder = iced.Decoder(64, text, ip=self._start)
        return {int(ins.ip): ins for ins in decoder if not ins.is_invalid}

    def failure(self) -> str:
        """Return the first step that could not be shown, "" if all could."""
        starts = {self._start: HEAD} | {self._start + at: name for name, at in self.entries.items()}
        if self._heads & starts.keys() - {self._start}:
            raise InputError("an entry of it is the head of a loop")
        old_starts = {name: self._start + at for name, at in self.bare.entries.items()}
        places = [(at, name, old_starts.get(name, self._start)) for at, name in starts.items()]
        places += [(at, HEAD, self._start) for at in self._heads - starts.keys()]
        self._guess(starts)
        self._keep(places)
        for at, name, old in places:
            if why := self._compared(at, name, old):
                return why
        return ""

    def _ways(self, at: int) -> list[tuple[int, State]]:
        state = replace(self._new.fresh(""), given=tuple(self.facts.get(at, ())))
        return list(self._new.runs(state, at, self._heads, self._possible))

    def _guess(self, starts: Iterable[int]) -> None:
        """Take the first way's values at each head as candidate facts."""
        z3 = self.z3
        begun = self._new.fresh("")
        for at in starts:
            for end, state in self._new.runs(begun, at, self._heads, self._possible):
                if end not in self._heads or end in self.facts:
                    continue
                now = {name: z3.simplify(value) for name, value in state.values.items()}
                changed = {
                    name for name in self._new.names if not z3.eq(now[name], begun.values[name])
                }
                values = [(begun.values[name] == now[name], now[name]) for name in changed]
                self.facts[end] = [
                    fact
                    for fact, of in (*values, *((one, one) for one in state.given))
                    if not _named(of) & changed
                ]

    def _keep(self, places: Sequence[tuple[int, str, int]]) -> None:
        """Drop facts that a way to their place does not preserve, until all are invariant."""
        begun = self._new.fresh("")
        dropped = True
        while dropped:
            dropped = False
            for at, _, _ in places:
                for end, state in self._ways(at):
                    pairs = [(begun.values[n], state.values[n]) for n in self._new.names]
                    pairs.append((begun.memory, state.memory))
                    kept = [
                        fact
                        for fact in self.facts.get(end, ())
                        if self._holds(state.given, self.z3.substitute(fact, *pairs))
                    ]
                    if len(kept) < len(self.facts.get(end, ())):
                        self.facts[end], dropped = kept, True

    def _compared(self, at: int, name: str, old: int) -> str:
        """Return a difference between the new code's ways from a place and the loop's."""
        mine = self._new.fresh("")
        apart = self._old.fresh("_old")
        live = self._live[name]
        values = {n: (mine if _lives(n, live) else apart).values[n] for n in self._new.names}
        for end, state in self._ways(at):
            begun = replace(apart, values=values, given=state.given)
            if why := self._matched(at, end, state, old, begun, 0):
                return why
        return ""

    def _matched(self, at: int, end: int, new: State, old: int, state: State, turns: int) -> str:
        """Return a reason if no whole iterations of the loop do what a way of new code does."""
        label = self._exit(end, len(self.new))
        if not label and old == self._start and (turns or end > at):
            why = self._difference(new, state, self._live[HEAD])
            if not why:
                return ""
        else:
            why = "it leaves where the loop goes on"
        if turns == _MOST_TURNS:
            return why
        ways = list(self._old.runs(state, old, frozenset({self._start}), self._possible))
        for stop, found in ways:
            if stop == self._start:
                said = self._matched(at, end, new, stop, found, turns + 1)
            elif label and label == self._exit(stop, len(self.bare.code)):
                said = self._difference(new, found, self.bare.listing.leaving[label])
            else:
                said = why if not label else "it leaves at another place"
            if said:
                return said
        return ""

    def _exit(self, at: int, size: int) -> str:
        """Return the label outside of the code at an address, "" for an address within it."""
        end = self._start + size
        if at == end:
            return BEHIND
        for name, place in self.bare.places.items():
            there = (end if place.behind else self._start) + place.distance
            if name in self.bare.listing.leaving and at == there:
                return name
        if not self._start <= at < end:
            raise InputError("it goes to a place that is no exit")
        return ""

    def _difference(self, new: State, old: State, live: frozenset[str]) -> str:
        """Return the first live value that may differ, or an access that the loop does not make."""
        for name in self._new.names:
            if _lives(name, live) and not self._same(old.given, new.values[name], old.values[name]):
                return f"{name} may differ"
        if not self._same(old.given, new.memory, old.memory):
            return "memory may differ"
        for kind, at, size in dict.fromkeys(new.accesses):
            others = [
                one
                for its, one, wide in old.accesses
                if wide >= size and (kind == "load" or its == "store")
            ]
            if not any(self._same(old.given, at, one) for one in others):
                return f"it may {kind} where the loop does not"
        return ""

    def _same(self, given: Sequence[Any], one: Any, other: Any) -> bool:
        one, other = self.z3.simplify(one), self.z3.simplify(other)
        return self.z3.eq(one, other) or self._holds(given, one == other)

    def _holds(self, given: Sequence[Any], what: Any) -> bool:
        return not self._possible((*given, self.z3.Not(what)))

    def _possible(self, conditions: Sequence[Any]) -> bool:
        """Return whether conditions may hold together; True where the solver does not know."""
        solver = self.z3.SimpleSolver()
        solver.set("rlimit", _EFFORT)
        solver.add(*conditions)
        found = solver.check()
        statistics = solver.statistics()
        spent = statistics.get_key_value("rlimit count")  # of the process so far
        self._begun = min(spent, self._begun or spent)
        if spent - self._begun > _MOST_EFFORT:
            raise InputError("it takes more than is spent on a proof")
        return bool(found != self.z3.unsat)


def _lives(name: str, live: frozenset[str]) -> bool:
    return name in live or any(kind in live and name in bits for kind, bits in _CLASSES.items())


def _named(formula: Any) -> set[str]:
    """Return the names of the constants in a formula."""
    found: set[str] = set()
    waiting = [formula]
    while waiting:
        one = waiting.pop()
        if one.num_args():
            waiting += one.children()
        elif one.decl().arity() == 0:
            found.add(str(one))
    return found
