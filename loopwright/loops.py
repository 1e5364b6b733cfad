"""Find the innermost loops of a routine from its backward branches."""

from collections.abc import Sequence

from loopwright.code import Flow, Instruction, Loop
from loopwright.kernels import Contract

STRING_BYTES = 64  # of a repeated string instruction, that a figure is for
_BIG = 16  # bytes an iteration from which a branch loop, not a string tail, is the main loop


def find(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops that hold no other loop, by address, and the string instructions.

    A backward branch closes a loop only if control can come from its target to it without
    leaving the stretch between; fixups that jump back to an exit close none. Code that control
    cannot reach from the first instruction, such as an alternative not taken, holds no loop.
    """
    index = {ins.address: n for n, ins in enumerate(instructions)}
    everything = range(len(instructions))
    live = _reached(instructions, index, 0, everything)
    spans = set()
    for last in live:
        ins = instructions[last]
        if ins.flow not in (Flow.BRANCH, Flow.JUMP) or ins.target is None:
            continue
        first = index.get(ins.target)
        if first is None or first > last:
            continue
        if last in _reached(instructions, index, first, range(first, last + 1)):
            spans.add((first, last))
    innermost = [
        (a, b)
        for a, b in spans
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]
    loops = [Loop("branch", tuple(instructions[a : b + 1])) for a, b in innermost]
    loops += [
        Loop("string", (ins,)) for n, ins in enumerate(instructions) if ins.string and n in live
    ]
    return tuple(sorted(loops, key=lambda loop: loop.start))


def _reached(
    instructions: Sequence[Instruction], index: dict[int, int], start: int, within: range
) -> set[int]:
    """Return which instructions control gets to from one of them, staying within a stretch."""
    seen: set[int] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        if at in seen or at not in within:
            continue
        seen.add(at)
        ins = instructions[at]
        if ins.flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            todo.append(at + 1)
        if ins.flow in (Flow.BRANCH, Flow.JUMP) and ins.target in index:
            todo.append(index[ins.target])
    return seen


def moved_bytes(loop: Loop, contract: Contract) -> int:
    """Return the bytes that one iteration moves: what it reads for a checksum, else writes.

    Of store_fields it is whole records, since calls in the loop store out of sight and push.
    """
    if contract.effect == "store_fields":
        record = sum(f.size for f in contract.fields)
        return record * max(1, round(loop.written_bytes / record))
    return loop.read_bytes if contract.effect == "checksum" else loop.written_bytes


def main_loop(loops: Sequence[Loop], contract: Contract) -> Loop | None:
    """Return the loop that large sizes run in: the one that moves most bytes an iteration.

    A repeated string instruction is the main loop unless a branch loop moves 16 bytes or more.
    """

    def moved(loop: Loop) -> int:
        return loop.read_bytes if contract.effect == "checksum" else loop.written_bytes

    branches = [loop for loop in loops if loop.kind == "branch" and moved(loop)]
    best = max(branches, key=moved, default=None)
    strings = [loop for loop in loops if loop.kind == "string" and moved(loop)]
    if strings and (best is None or moved(best) < _BIG):
        return max(strings, key=moved)
    return best
