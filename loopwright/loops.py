"""Find the innermost loops of a routine from its backward branches."""

from collections.abc import Sequence

from loopwright.code import Flow, Instruction, Loop

_BIG = 16  # bytes an iteration from which a branch loop, not a string tail, is the main loop


def find(instructions: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops that hold no other loop, by address, and the string instructions.

    A backward branch closes a loop only if control can come from its target to it without
    leaving the stretch between; fixups that jump back to an exit close none.
    """
    index = {ins.address: n for n, ins in enumerate(instructions)}
    spans = set()
    for last, ins in enumerate(instructions):
        if ins.flow not in (Flow.BRANCH, Flow.JUMP) or ins.target is None:
            continue
        first = index.get(ins.target)
        if first is not None and first <= last and _reaches(instructions, index, first, last):
            spans.add((first, last))
    innermost = [
        (a, b)
        for a, b in spans
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]
    loops = [Loop("branch", tuple(instructions[a : b + 1])) for a, b in innermost]
    loops += [Loop("string", (ins,)) for ins in instructions if ins.string]
    return tuple(sorted(loops, key=lambda loop: loop.start))


def _reaches(
    instructions: Sequence[Instruction], index: dict[int, int], first: int, last: int
) -> bool:
    """Say whether control gets from instruction first to last, staying between them."""
    seen: set[int] = set()
    todo = [first]
    while todo:
        at = todo.pop()
        if at in seen or not first <= at <= last:
            continue
        if at == last:
            return True
        seen.add(at)
        ins = instructions[at]
        if ins.flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL):
            todo.append(at + 1)
        if ins.flow in (Flow.BRANCH, Flow.JUMP) and ins.target in index:
            todo.append(index[ins.target])
    return False


def main_loop(loops: Sequence[Loop], effect: str) -> Loop | None:
    """Return the loop that large sizes run in: the one that moves most bytes an iteration.

    A repeated string instruction is the main loop unless a branch loop moves 16 bytes or more.
    """

    def moved(loop: Loop) -> int:
        return loop.read_bytes if effect == "checksum" else loop.written_bytes

    branches = [loop for loop in loops if loop.kind == "branch" and moved(loop)]
    best = max(branches, key=moved, default=None)
    strings = [loop for loop in loops if loop.kind == "string" and moved(loop)]
    if strings and (best is None or moved(best) < _BIG):
        return max(strings, key=moved)
    return best
