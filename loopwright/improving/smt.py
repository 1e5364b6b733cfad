"""Proof that a loop and its new code are equal for all inputs, by an SMT solver."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import iced_x86 as iced

from loopwright.errors import InputError, naming_missing_extra
from loopwright.improving.bare import BEHIND, HEAD, Bare
from loopwright.improving.formulas import BITS, Formulas, State, X86Formulas, vector_bits
from loopwright.improving.formulas_arm64 import FLAG_BITS, Arm64Formulas, arm64_instructions
from loopwright.improving.listing import CARRY, FLAGS

_MOST_OLD, _MOST_NEW = 40, 160  # instructions
_MOST_ITERATIONS = 8
_QUERY_EFFORT, _PROOF_EFFORT = 3_000_000, 60_000_000  # at most; in units of z3's rlimit
_BITS_OF = {CARRY: ("CF",), FLAGS: (*(bit for bit in BITS if bit != "CF"), *FLAG_BITS)}


def prove(bare: Bare, new: bytes, entries: Mapping[str, int]) -> str:
    """Return the reason that new code is not proven equal to a loop, "" where it is proven.

    The proof is a simulation by induction over cut points: the entries and loop heads of the new
    code. Each path from a cut point to the next has to correspond to whole iterations of the loop,
    or to iterations up to the same exit: equal live registers, flags and memory before imply equal
    ones after, and the new code accesses no address that the loop does not access. Invariants at a
    cut point are guessed from the first path to it, and kept if every path back preserves them.
    """
    try:
        with naming_missing_extra():
            import z3
        return _Simulation(z3, bare, new, entries).failure()
    except InputError as error:
        return str(error)


@dataclass
class _Simulation:
    """The two codes, the cut points at which they are compared, and the invariants there."""

    z3: Any
    bare: Bare
    new: bytes
    entries: Mapping[str, int]
    invariants: dict[int, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Decode both codes and find the cut points."""
        start = 1 << 32 | self.bare.offset  # far from what they address relative to themselves
        self._start, self._spent_before = start, 0
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
        """Return the first obligation that could not be proven, "" where all were."""
        starts = {self._start: HEAD} | {self._start + at: name for name, at in self.entries.items()}
        if self._heads & starts.keys() - {self._start}:
            raise InputError("an entry of it is the head of a loop")
        old_starts = {name: self._start + at for name, at in self.bare.entries.items()}
        cuts = [(at, name, old_starts.get(name, self._start)) for at, name in starts.items()]
        cuts += [(at, HEAD, self._start) for at in self._heads - starts.keys()]
        self._guess_invariants(starts)
        self._drop_invariants(cuts)
        for at, name, old in cuts:
            if why := self._deviation(at, name, old):
                return why
        return ""

    def _paths(self, at: int) -> list[tuple[int, State]]:
        state = replace(self._new.fresh(""), given=tuple(self.invariants.get(at, ())))
        return list(self._new.runs(state, at, self._heads, self._possible))

    def _guess_invariants(self, starts: Iterable[int]) -> None:
        """Guess the invariants of each loop head from the first path that reaches it."""
        z3 = self.z3
        initial = self._new.fresh("")
        for at in starts:
            for end, state in self._new.runs(initial, at, self._heads, self._possible):
                if end not in self._heads or end in self.invariants:
                    continue
                values = {name: z3.simplify(value) for name, value in state.values.items()}
                old = initial.values
                changed = [name for name in self._new.names if not z3.eq(values[name], old[name])]
                # Each invariant with the formula whose constants must not have changed.
                guesses = [(old[name] == values[name], values[name]) for name in changed]
                guesses += [(condition, condition) for condition in state.given]
                self.invariants[end] = [
                    invariant
                    for invariant, formula in guesses
                    if not _constants_of(formula).intersection(changed)
                ]

    def _drop_invariants(self, cuts: Sequence[tuple[int, str, int]]) -> None:
        """Drop invariants that a path to their cut point does not preserve, up to a fixed point."""
        initial = self._new.fresh("")
        dropped = True
        while dropped:
            dropped = False
            for at, _, _ in cuts:
                for end, state in self._paths(at):
                    pairs = [(initial.values[n], state.values[n]) for n in self._new.names]
                    pairs.append((initial.memory, state.memory))
                    kept = [
                        invariant
                        for invariant in self.invariants.get(end, ())
                        if self._holds(state.given, self.z3.substitute(invariant, *pairs))
                    ]
                    if len(kept) < len(self.invariants.get(end, ())):
                        self.invariants[end], dropped = kept, True

    def _deviation(self, at: int, name: str, old: int) -> str:
        """Return the first deviation of the paths from a cut point of the new code, or ""."""
        new_start = self._new.fresh("")
        old_start = self._old.fresh("_old")
        live = self._live[name]
        values = {
            n: (new_start if _is_live(n, live) else old_start).values[n] for n in self._new.names
        }
        for end, state in self._paths(at):
            initial = replace(old_start, values=values, given=state.given)
            if why := self._unmatched(at, end, state, old, initial, 0):
                return why
        return ""

    def _unmatched(
        self, at: int, end: int, new: State, old: int, state: State, iterations: int
    ) -> str:
        """Return the reason that no iterations of the loop match a path of the new code, or ""."""
        label = self._exit(end, len(self.new))
        if not label and old == self._start and (iterations or end > at):
            reason = self._difference(new, state, self._live[HEAD])
            if not reason:
                return ""
        else:
            reason = "it leaves where the loop goes on"
        if iterations == _MOST_ITERATIONS:
            return reason
        paths = list(self._old.runs(state, old, frozenset({self._start}), self._possible))
        for stop, reached in paths:
            if stop == self._start:
                why = self._unmatched(at, end, new, stop, reached, iterations + 1)
            elif label and label == self._exit(stop, len(self.bare.code)):
                why = self._difference(new, reached, self.bare.listing.leaving[label])
            else:
                why = reason if not label else "it leaves at another place"
            if why:
                return why
        return ""

    def _exit(self, at: int, size: int) -> str:
        """Return the label of an exit, "" for an address within the code."""
        end = self._start + size
        if at == end:
            return BEHIND
        for name, address in self.bare.outside.items():
            exit_address = (end if address.behind else self._start) + address.distance
            if name in self.bare.listing.leaving and at == exit_address:
                return name
        if not self._start <= at < end:
            raise InputError("it goes to an address that is not an exit")
        return ""

    def _difference(self, new: State, old: State, live: frozenset[str]) -> str:
        """Return the first live value that may differ, or the first access that the loop lacks."""
        for name in self._new.names:
            old_value, new_value = old.values[name], new.values[name]
            if _is_live(name, live) and not self._same(old.given, new_value, old_value):
                return f"{name} may differ"
        if not self._same(old.given, new.memory, old.memory):
            return "memory may differ"
        for kind, at, size in dict.fromkeys(new.accesses):
            covering = [
                address
                for old_kind, address, width in old.accesses
                if width >= size and (kind == "load" or old_kind == "store")
            ]
            if not any(self._same(old.given, at, address) for address in covering):
                return f"it may {kind} where the loop does not"
        return ""

    def _same(self, given: Sequence[Any], left: Any, right: Any) -> bool:
        left, right = self.z3.simplify(left), self.z3.simplify(right)
        return self.z3.eq(left, right) or self._holds(given, left == right)

    def _holds(self, given: Sequence[Any], claim: Any) -> bool:
        return not self._possible((*given, self.z3.Not(claim)))

    def _possible(self, conditions: Sequence[Any]) -> bool:
        """True if conditions may hold together, also where the solver gives no answer."""
        solver = self.z3.SimpleSolver()
        solver.set("rlimit", _QUERY_EFFORT)
        solver.add(*conditions)
        verdict = solver.check()
        statistics = solver.statistics()
        spent = statistics.get_key_value("rlimit count")  # of the process, up to now
        self._spent_before = min(spent, self._spent_before or spent)
        if spent - self._spent_before > _PROOF_EFFORT:
            raise InputError("it takes more than is spent on a proof")
        return bool(verdict != self.z3.unsat)


def _is_live(name: str, live: frozenset[str]) -> bool:
    """True if a register or flag is live, the flag by its kind."""
    return name in live or any(kind in live and name in bits for kind, bits in _BITS_OF.items())


def _constants_of(formula: Any) -> set[str]:
    """Return the names of the free constants of a formula."""
    names: set[str] = set()
    pending = [formula]
    while pending:
        term = pending.pop()
        if term.num_args():
            pending += term.children()
        elif term.decl().arity() == 0:
            names.add(str(term))
    return names
