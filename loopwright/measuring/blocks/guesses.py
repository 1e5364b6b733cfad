"""Guess what registers and memory are to hold, from where a loop went off its path."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import iced_x86 as iced

from loopwright.measuring.blocks import addresses, ends, registers
from loopwright.measuring.blocks.emulated import Seen
from loopwright.measuring.blocks.memory import Memory
from loopwright.measuring.blocks.path import Path, Step

_WORDS = (0, (1 << 64) - 1, 1, 2, 0x0101010101010101, 0x6161616161616161, 0xFFFFFFFF)
_VALUES = (0, 1, 2, 8, 64, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 64) - 1, 1 << 62)
_ALL = (1 << 64) - 1


@dataclass(frozen=True)
class State:
    """What registers and memory hold at first."""

    values: Mapping[str, int]
    memory: Memory


class Guess:
    """Guesses for a loop; the same ones each time."""

    def __init__(self, path: Path) -> None:
        """Take a loop."""
        self._path = path
        self._chance = random.Random(0)
        aligned = addresses.unaligned("x86_64", path.executed)
        step = addresses.ALIGNED_STEP if aligned else addresses.STEP
        self._pointers = {
            name: addresses.POINTER + registers.number(name) * step for name in registers.EVERY_X86
        }

    def first(self) -> State:
        """Return pointers to memory that holds pointers."""
        return State(dict(self._pointers), Memory())

    def next(self, state: State, at: int, seen: Seen, tried: int) -> State:
        """Return a state with something changed that a step goes by, which went wrong.

        tried is how many states were returned for that already: first come those which differ in
        one thing that the step compares.
        """
        near = list(self._compared(state, at, seen))
        if tried < len(near):
            return near[tried]
        names, loads = self._sources(at)
        values, memory = dict(state.values), state.memory
        for _ in range(self._chance.choice((1, 1, 2))):
            places = [seen.reads[n] for n in loads if n in seen.reads]
            choice = self._chance.random()
            if places and choice < 0.5:
                address, size = self._chance.choice(places)
                held = memory.held(address, size)
                value = self._chance.choice(list(self._held(at, held, seen)))
                memory = memory.having(address, size, value)
            elif loads and choice < 0.6:
                memory = Memory(self._chance.choice((Memory().word, *_WORDS)), memory.changed)
            elif names:
                name = self._chance.choice(sorted(names))
                several = [self._pointers[name], *_VALUES, *self._near(at, values)]
                values[name] = self._chance.choice(several) & _ALL
        return State(values, memory)

    def _compared(self, state: State, at: int, seen: Seen) -> Iterator[State]:
        """Yield states with one side of a comparison set by the other."""
        by = self._setter(at)
        if by is None:
            return
        steps = self._path.steps
        places = [seen.reads[n] for n, step in enumerate(steps) if step is by and n in seen.reads]
        for name in sorted(by.read):
            loads = (n for n, step in enumerate(steps) if name in step.written and step.memory)
            places += [seen.reads[n] for n in loads if n in seen.reads]
        held = [state.memory.held(*place) for place in places]
        others = (seen.registers.get(name, 0) for name in sorted(by.read))
        wanted = [*self._constants(at), *others, *held]
        wanted = [*wanted, *(one + 1 for one in wanted), *(one - 1 for one in wanted), 0, _ALL]
        for place in places:
            now = state.memory.held(*place)
            bits = [change for c in self._constants(at) for change in (now | c, now & ~c)]
            for value in dict.fromkeys([*bits, *wanted]):
                yield State(state.values, state.memory.having(*place, value))
        for name in sorted(by.read - {"rsp"}):
            if not any(name in step.written for step in steps):
                for value in dict.fromkeys(wanted):
                    yield State({**state.values, name: value & _ALL}, state.memory)

    def _held(self, at: int, held: int, seen: Seen) -> Iterator[int]:
        """Yield values for memory that a branch may go by, which holds another."""
        yield from (0, 1, _ALL, held + 1)
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, held ^ constant, held | constant)
        if (by := self._setter(at)) is not None:
            for name in by.read:
                if name in seen.registers:
                    yield from (seen.registers[name], seen.registers[name] + 1)

    def _near(self, at: int, values: Mapping[str, int]) -> Iterator[int]:
        """Yield values for a register: near those of others, or near constants."""
        others = [values[name] for name in sorted(values)]
        yield from (self._chance.choice(others) + more for more in (0, 0, -8, -1, 1, 8))
        for constant in self._constants(at):
            yield from (constant, constant + 1, constant - 1, ~constant)

    def _setter(self, at: int) -> Step | None:
        by = ends.setter(self._path, at) if self._path.steps[at].branches else None
        return None if by is None else self._path.steps[by]

    def _constants(self, at: int) -> Iterator[int]:
        if (by := self._setter(at)) is not None:
            for n in range(by.ins.op_count):
                if by.ins.op_kind(n) not in (iced.OpKind.REGISTER, iced.OpKind.MEMORY):
                    yield by.ins.immediate(n)

    def _sources(self, at: int) -> tuple[frozenset[str], frozenset[int]]:
        """Return which registers at the start a step goes by, and which steps that read memory."""
        steps = self._path.steps
        names = steps[at].read
        loads = set()
        if (by := self._setter(at)) is not None:
            names |= by.read
            loads |= {n for n, step in enumerate(steps) if step is by and step.memory}
        while True:
            writers = [n for n, step in enumerate(steps) if step.written & names]
            loads |= {n for n in writers if steps[n].memory}
            more = frozenset().union(*(steps[n].read for n in writers)) - names
            if not more:
                return names - {"rsp"}, frozenset(loads)
            names |= more
