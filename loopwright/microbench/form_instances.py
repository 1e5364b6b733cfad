"""Instances of forms: their registers and addresses, which set their dependencies."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from loopwright.microbench.forms import Form, Kit, Memory, Operand

_WINDOW = 32  # bytes: some cores slow branches that touch the end of a window
_LINE, _WORD = 64, 8  # bytes
_LONG = 8  # bytes: the front end may limit longer instructions
MOST_UNDER_TEST = 3  # instances of the form under test, with different registers
SLOWEST_DELIVERY = 1.0  # cycles in which any core delivers a long instruction
_PLACES = 16  # addresses that neighbouring instances use in turn
NEAR = 2  # of them that share a store commit with those of the form under test
_CHUNK = 32  # bytes that some cores commit in a cycle; others commit a line
# bytes from what instances read to what they write, and to what the form under test accesses
_WRITTEN_AT, _TESTED_AT = 2048, 1024


def under_test(form: Form, number: int = 0, *, near: bool = False) -> bytes:
    """Return an instance with the registers of the form under test, or a further such one.

    There are up to MOST_UNDER_TEST, with different registers, and two addresses of a line. near
    uses displacements of a byte, as some op caches have less room for longer ones.
    """
    numbers: dict[str, int] = {}
    for operand in form.chosen:
        if operand.written and number:
            pool = form.kit.POOLS[operand.kind].own
            numbers[operand.label] = pool[(number + len(numbers)) % len(pool)]
    address = address_of(form, number, _TESTED_AT)
    reachable = form.memory and not _short(form.memory)
    if near and reachable:
        address = {"disp": number * _CHUNK}
    elif form.memory and form.memory.written and reachable:
        size = max(form.memory.bits // 8, _WORD)
        address = {"disp": _WRITTEN_AT + max(_CHUNK - (number % NEAR + 1) * size, 0)}
    return form.encode({**registers_for(form, numbers), **address})


def address_of(form: Form, number: int, start: int = 0) -> dict[str, int]:
    """Return the address of an instance: reads go to another line and bank each time.

    Writes lie side by side, as some cores commit two stores of a line in a cycle, and apart from
    what instances read.
    """
    memory = form.memory
    if memory is None:
        return {}
    size = max(memory.bits // 8, _WORD)
    step = size if memory.written else (_LINE + size) // size * size
    if _short(memory):
        return _beside(form, memory, number + (_PLACES // 2 if start else 0), step)
    start += _WRITTEN_AT if memory.written else 0
    return {"disp": start + number % _PLACES * step}


def _short(memory: Memory) -> bool:
    """True if a form cannot encode all displacements of instances."""
    needed = _WRITTEN_AT + _TESTED_AT + _PLACES * _WORD
    return memory.reach is not None and memory.reach[-1] < needed


def _beside(form: Form, memory: Memory, number: int, step: int) -> dict[str, int]:
    """Return the address of a form with a short reach; writes use a base of their own."""
    pool = form.kit.POOLS["gpr"]
    if memory.moves:
        bases = pool.moved[memory.written]
        return {"a": bases[number % len(bases)]}
    reach = memory.reach or range(1)
    displacements = range(-(-reach.start // step) * step, reach.stop, step)
    address = {"disp": displacements[number % len(displacements)]}
    return {"a": pool.constant[1], "x": pool.constant[2], **address} if memory.written else address


def register_of(operand: Operand, numbers: Mapping[str, int]) -> int:
    """Return the register of an operand, fixed or by its label; 0 for flags."""
    return operand.fixed if operand.fixed is not None else numbers.get(operand.label, 0)


def registers_for(form: Form, numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the register numbers by operand label: the given ones, and others for the rest."""
    numbers = dict(numbers)
    taken = {kind: set(numbers.values()) for kind in form.kit.POOLS}
    for operand in form.chosen:
        if operand.label in numbers:
            continue
        pool = form.kit.POOLS[operand.kind]
        choice = pool.own if operand.written else pool.constant
        number = next((n for n in choice if n not in taken[operand.kind]), choice[-1])
        numbers[operand.label] = number
        taken[operand.kind].add(number)
    return numbers


def registers_of(form: Form, kind: str, *, alone: bool) -> tuple[int, ...]:
    """Return the registers that instances write, with those under test if they are alone."""
    pool = form.kit.POOLS[kind]
    return (*pool.others, *pool.own) if alone else pool.others


class Instances:
    """Maker of instances for mixtures: each writes the next register of a pool."""

    def __init__(
        self, part: int = 0, parts: int = 1, *, alone: bool = False, near: bool = False
    ) -> None:
        """Take one of several equal parts of the registers; alone adds those under test.

        near writes close addresses, and leaves room for the form under test.
        """
        self._part, self._parts, self._alone, self._near = part, parts, alone, near
        self._next: dict[str, Iterator[int]] = defaultdict(count)

    def of(self, form: Form) -> bytes:
        """Return the next instance."""
        numbers = {}
        for operand in form.chosen:
            if operand.written:
                pool = registers_of(form, operand.kind, alone=self._alone)
                pool = pool[self._part :: self._parts]
                numbers[operand.label] = pool[next(self._next[operand.kind]) % len(pool)]
        number = self._parts * next(self._next["memory"]) + self._part
        near = self._near and form.memory and form.memory.written
        address = address_of(form, number % NEAR if near else number)
        return form.encode({**registers_for(form, numbers), **address})


def is_long(form: Form) -> bool:
    """True if a form is so long that the front end may limit it before any port does."""
    return len(under_test(form)) > _LONG


@dataclass(frozen=True)
class DeliveryFloor:
    """Least cycles of a form alone: by bytes for memory forms, by dispatch slots for all.

    A form that is no longer, or takes no more slots, is delivered as fast.
    """

    by_length: Mapping[int, float]
    slots: Mapping[int, float]

    def delivery(self, form: Form, slots: int) -> float:
        """Return the cycles that the front end may take for a form; 0 if short and of one slot."""
        seen = []
        if slots > 1:
            seen = [cycles for slots_taken, cycles in self.slots.items() if slots_taken >= slots]
        elif not is_long(form):
            return 0.0
        elif form.memory:
            size = len(under_test(form))
            seen = [cycles for length, cycles in self.by_length.items() if length >= size]
        return min([*seen, SLOWEST_DELIVERY])


def implied_dependencies(form: Form) -> tuple[Operand, ...]:
    """Return the operands through which an instance waits for the previous one."""
    fixed = (o for o in form.operands if o.kind == "flags" or o.fixed is not None)
    return tuple(o for o in fixed if o.read and o.written)


def break_dependencies(
    kit: Kit, operands: Sequence[Operand], numbers: Mapping[str, int]
) -> list[bytes]:
    """Return instructions that break the dependency of operands on earlier results."""
    breaking = {}  # by register: several operands may be parts of one
    for operand in operands:
        number = register_of(operand, numbers)
        breaking[operand.kind, number] = kit.break_dependency(operand.kind, number)
    return list(breaking.values())


def interleaved(*parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts as one kernel, each spread evenly over it."""
    positioned = [
        ((index + 0.5) / len(part), number, code)
        for number, part in enumerate(parts)
        for index, code in enumerate(part)
    ]
    return [code for _, _, code in sorted(positioned, key=lambda item: item[:2])]


def aligned_in_windows(kit: Kit, code: Sequence[bytes], branches: Sequence[bytes]) -> list[bytes]:
    """Return code padded with nops, so that no branch touches the end of a window.

    The code ends at the end of a window.
    """
    out: list[bytes] = []
    offset = 0
    for instruction in code:
        if instruction in branches and offset // _WINDOW != (offset + len(instruction)) // _WINDOW:
            out += kit.pad(-offset % _WINDOW)
            offset += -offset % _WINDOW
        out.append(instruction)
        offset += len(instruction)
    return [*out, *kit.pad(-offset % _WINDOW)]
