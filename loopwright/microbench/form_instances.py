"""Instances of forms: which registers they take, so that they depend on what is wanted alone."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from loopwright.microbench.forms import Form, Kit, Memory, Operand

_WINDOW = 32  # bytes: some cores slow branches that touch the end of a window
_LINE, _WORD = 64, 8  # bytes
_LONG = 8  # bytes: longer instructions may be bound by what delivers them
APART = 3  # instances of what is tested
SLOWEST_DELIVERY = 1.0  # cycles in which any core brings in a long instruction
_PLACES = 16  # of memory that instances beside each other take in turn
NEAR = 2  # of them that lie with those of what is apart in what is written in one cycle
_CHUNK = 32  # bytes: what some cores write in one cycle, others a line
_WRITTEN, _APART = 2048, 1024  # bytes from what is read to what is written, and to what is apart


def apart(form: Form, number: int = 0, *, near: bool = False) -> bytes:
    """Return an instance in the registers of the instruction under test, or a further one.

    There are up to APART that write different registers, and two places of one line. near: with
    displacements of a byte, as some caches of decoded code have less room for longer ones.
    """
    given: dict[str, int] = {}
    for operand in form.chosen:
        if operand.written and number:
            own = form.kit.POOLS[operand.kind].own
            given[operand.label] = own[(number + len(given)) % len(own)]
    where = place(form, number, _APART)
    far = form.memory and not _short(form.memory)
    if near and far:
        where = {"disp": number * _CHUNK}
    elif form.memory and form.memory.written and far:
        size = max(form.memory.bits // 8, _WORD)
        where = {"disp": _WRITTEN + max(_CHUNK - (number % NEAR + 1) * size, 0)}
    return form.encode({**registers(form, given), **where})


def place(form: Form, number: int, start: int = 0) -> dict[str, int]:
    """Return a displacement: what is read lies in another line each time, and in another bank.

    What is written lies side by side, as some cores write two places of a line in one cycle, and is
    not read by instances that read alone.
    """
    memory = form.memory
    if memory is None:
        return {}
    size = max(memory.bits // 8, _WORD)
    step = size if memory.written else (_LINE + size) // size * size
    if _short(memory):
        return _beside(form, memory, number + (_PLACES // 2 if start else 0), step)
    start += _WRITTEN if memory.written else 0
    return {"disp": start + number % _PLACES * step}


def _short(memory: Memory) -> bool:
    """Say whether not all displacements can be encoded that are wanted."""
    return memory.reach is not None and memory.reach[-1] < _WRITTEN + _APART + _PLACES * _WORD


def _beside(form: Form, memory: Memory, number: int, step: int) -> dict[str, int]:
    """Return the place of what does not reach far: what is written has a base of its own."""
    pool = form.kit.POOLS["gpr"]
    if memory.moves:
        bases = pool.moved[memory.written]
        return {"a": bases[number % len(bases)]}
    reach = memory.reach or range(1)
    within = range(-(-reach.start // step) * step, reach.stop, step)
    where = {"disp": within[number % len(within)]}
    return {"a": pool.constant[1], "x": pool.constant[2], **where} if memory.written else where


def registers(form: Form, given: Mapping[str, int]) -> dict[str, int]:
    """Return a register for each operand: those given, and for written ones others than those."""
    given = dict(given)
    taken = {kind: set(given.values()) for kind in form.kit.POOLS}
    for operand in form.chosen:
        if operand.label in given:
            continue
        pool = form.kit.POOLS[operand.kind]
        choice = pool.own if operand.written else pool.constant
        number = next((n for n in choice if n not in taken[operand.kind]), choice[-1])
        given[operand.label] = number
        taken[operand.kind].add(number)
    return given


def registers_of(form: Form, kind: str, *, alone: bool) -> tuple[int, ...]:
    """Return the registers that instances beside each other write, or instances alone."""
    pool = form.kit.POOLS[kind]
    return (*pool.others, *pool.own) if alone else pool.others


class Instances:
    """Makes instances for mixtures: each writes the next register of a pool."""

    def __init__(
        self, part: int = 0, parts: int = 1, *, alone: bool = False, near: bool = False
    ) -> None:
        """Take one of several equal parts of the registers; alone: those under test as well.

        near: what is written lies together, and leaves places for what is apart.
        """
        self._part, self._parts, self._alone, self._near = part, parts, alone, near
        self._next: dict[str, Iterator[int]] = defaultdict(count)

    def of(self, form: Form) -> bytes:
        """Return the next instance."""
        given = {}
        for operand in form.chosen:
            if operand.written:
                pool = registers_of(form, operand.kind, alone=self._alone)
                pool = pool[self._part :: self._parts]
                given[operand.label] = pool[next(self._next[operand.kind]) % len(pool)]
        number = self._parts * next(self._next["memory"]) + self._part
        near = self._near and form.memory and form.memory.written
        where = place(form, number % NEAR if near else number)
        return form.encode({**registers(form, given), **where})


def long(form: Form) -> bool:
    """Say whether a form is so long that what delivers code may bind it before any port does."""
    return len(apart(form)) > _LONG


@dataclass(frozen=True)
class DeliveryFloor:
    """Cycles that forms take alone at least: of those with memory by length, of others by places.

    What is no longer than one of them, or takes no more places, is brought in as fast.
    """

    by_length: Mapping[int, float]
    slots: Mapping[int, float]

    def delivery(self, form: Form, slots: int) -> float:
        """Return the cycles that bringing in a form may take, as it is long or of several uops."""
        known = []
        if slots > 1:
            known = [one for taken, one in self.slots.items() if taken >= slots]
        elif not long(form):
            return 0.0
        elif form.memory:
            size = len(apart(form))
            known = [one for length, one in self.by_length.items() if length >= size]
        return min([*known, SLOWEST_DELIVERY])


def carried(form: Form) -> tuple[Operand, ...]:
    """Return the operands through which an instance waits for the one before it."""
    fixed = (o for o in form.operands if o.kind == "flags" or o.fixed is not None)
    return tuple(o for o in fixed if o.read and o.written)


def fresh(kit: Kit, operands: Sequence[Operand], numbers: Mapping[str, int]) -> list[bytes]:
    """Return what gives operands values that depend on nothing written before."""
    found = {}
    for operand in operands:
        number = operand.fixed if operand.fixed is not None else numbers.get(operand.label, 0)
        found[operand.kind, number] = kit.set_anew(operand.kind, number)
    return list(found.values())


def spread(*parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts as one kernel, each spread evenly over it."""
    placed = [
        ((at + 0.5) / len(part), number, one)
        for number, part in enumerate(parts)
        for at, one in enumerate(part)
    ]
    return [one for _, _, one in sorted(placed, key=lambda p: p[:2])]


def laid(kit: Kit, code: Sequence[bytes], branches: Sequence[bytes]) -> list[bytes]:
    """Return code with nops, so that no branch touches the end of a window and it ends at one."""
    out: list[bytes] = []
    at = 0
    for one in code:
        if one in branches and at // _WINDOW != (at + len(one)) // _WINDOW:
            out += kit.pad(-at % _WINDOW)
            at += -at % _WINDOW
        out.append(one)
        at += len(one)
    return [*out, *kit.pad(-at % _WINDOW)]
