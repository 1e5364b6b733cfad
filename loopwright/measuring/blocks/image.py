"""A loop with what stands around it while it runs: traps where exits go, a way out at its end."""

from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.errors import InputError
from loopwright.measuring.blocks.path import Path, Step

_TRAP = 0xCC
_JUMP_BYTES = 5
_REACH = 128  # bytes that short branches go back, and nearly as many forward


@dataclass(frozen=True)
class Image:
    """Code for the harness: the loop begins at entry, and behind the last byte it is over.

    leaves says which step of the path goes off it to a byte, counted from the loop's first; landing
    is where the step goes that ends the loop.
    """

    code: bytes
    entry: int
    landing: int
    leaves: dict[int, int]


def of_path(path: Path, code: bytes, end: int) -> Image:
    """Return the image of a loop whose step end is the one to leave it by; code has its bytes.

    Only branches of 32 bits are aimed at other places; InputError where that leaves no room.
    """
    return _Builder(path, code, end).image()


class _Builder:
    def __init__(self, path: Path, code: bytes, end: int) -> None:
        self._path, self._end = path, end
        self._size = len(code)
        branches = [(n, step) for n, step in enumerate(path.steps) if step.branches]
        self._exits = [(n, step) for n, step in branches if not self._is_inside(step)]
        short = [step.other for _, step in self._exits if len(step.ins) == 2]
        self._lead = _REACH if any(to < 0 for to in short) else 0
        # Behind the code what short branches reach, and behind that a byte for each other exit.
        reach = _REACH + _JUMP_BYTES if any(to >= self._size for to in short) else _JUMP_BYTES
        self._next = self._size + reach
        room = self._lead + self._next + len(self._exits) + _JUMP_BYTES
        self._bytes = bytearray([_TRAP]) * room
        self._bytes[self._lead : self._lead + self._size] = code
        self._taken: set[int] = set()
        self._leaves: dict[int, int] = {}

    def _is_inside(self, step: Step) -> bool:
        return self._path.index_of(step.other) >= 0

    def image(self) -> Image:
        landing = self._land()
        for n, step in self._exits:
            if n != self._end:
                self._leaves[self._trap(step)] = n
        return Image(bytes(self._bytes), self._lead, landing, self._leaves)

    def _land(self) -> int:
        """Put a jump out of the image where the loop ends."""
        step = self._path.steps[self._end]
        at = step.other
        if len(step.ins) > 2 and not step.taken:
            at, self._next = self._next, self._next + _JUMP_BYTES
            self._aim(step, at)
        room = range(at, at + _JUMP_BYTES)
        if any(start < room.stop and at < end for start, end in self._path.stretches):
            raise InputError(f"what ends it goes to +{at:#x}, where the loop leaves no room")
        self._taken |= set(room)
        to = len(self._bytes) - (self._lead + at + _JUMP_BYTES)
        jump = b"\xe9" + to.to_bytes(4, "little", signed=True)
        self._bytes[self._lead + at : self._lead + at + _JUMP_BYTES] = jump
        return at

    def _trap(self, step: Step) -> int:
        """Have a trap where an exit goes; return where that is."""
        at = step.other
        if step.taken or 0 <= at < self._size:
            if at not in self._taken:  # else it ends there, too: the emulated core tells them apart
                self._bytes[self._lead + at] = _TRAP
            return at
        if len(step.ins) > 2:
            at, self._next = self._next, self._next + 1
            self._aim(step, at)
            return at
        return self._near(step)

    def _near(self, step: Step) -> int:
        """Return a free byte where a short branch goes, or near it: the branch is aimed there."""
        for at in _around(step.other):
            inside = 0 <= at < self._size
            there = -self._lead <= at < len(self._bytes) - self._lead
            if there and not inside and at not in self._taken and -128 <= at - step.end < 128:
                self._taken.add(at)
                self._aim(step, at)
                return at
        raise InputError("there is no room for a trap where an exit goes")

    def _aim(self, step: Step, at: int) -> None:
        width = 1 if len(step.ins) == 2 else 4
        end = self._lead + step.end
        self._bytes[end - width : end] = (at - step.end).to_bytes(width, "little", signed=True)


def _around(at: int) -> Iterator[int]:
    for distance in range(_REACH):
        yield at + distance
        yield at - distance
