"""The message of a patch that aligns loops: what was found, what it costs, what it rests on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from loopwright import microarchs
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning.candidates import Candidate
from loopwright.scanning.mends import Mend
from loopwright.scanning.realigned import Work, spread
from loopwright.tree.patch import message_tables
from loopwright.tree.patch.message import prefix, wrap

_HEAD = ("core", "there", "best", "before", "patched")


def subject(file: str, function: str, count: int) -> str:
    """Return the subject line of a patch that aligns so many loops of a function."""
    what = "a loop" if count == 1 else f"{count} loops"
    return f"{prefix(file)}: Align {what} of {function}()"


def body(work: Work, mends: Mapping[int, Mend], scanned: Path, proven: Sequence[str]) -> str:
    """Return the message's paragraphs.

    mends are those of work's loops by their number, scanned is the file in which they are hurt,
    proven what the checks of the object say.
    """
    parts = []
    for label, (a, b) in zip(work.labels, work.numbers, strict=True):
        mend = mends[a]
        nops = "nops that are run once before the loop" if work.before.falls_in(b) else "never run"
        parts.append(wrap(_why(work, a, label.name, mend, nops, scanned.name)))
        parts.append(_table(work, b, mend))
    parts.append(
        wrap(
            "There: cycles an iteration in that file; best: at the best code offset; before "
            f"and patched: at the code offsets that a linker may give {work.object}, with data in "
            f"the L1 cache. Predicted by {Pipeline().version()}, not measured on hardware."
        )
    )
    built = f"{work.object}, built by defconfig before and after: {'; '.join(proven)}."
    less = [f"With loops {why}." for why in work.passed_over]
    parts.append(wrap(" ".join([built, *less])))
    return "\n\n".join(parts)


def below(made: str, notes: Sequence[str], left: Sequence[str]) -> str:
    """Return what stands below the line at which git cuts; left is what is not shown."""
    open_ = f"Not shown: {'; '.join(('its speed on hardware', *left))}."
    return "\n\n".join(wrap(line) for line in (made, *notes, open_))


def _why(work: Work, number: int, label: str, mend: Mend, nops: str, scanned: str) -> str:
    candidate = mend.candidate
    assert candidate  # of others no patch is made
    loop = work.loops[number]
    hurt = [effect for effect in mend.effects.values() if effect.hurt]
    cores = [microarchs.load(core).name for core, e in mend.effects.items() if e.hurt]
    return (
        f"The loop of {work.function}() at {label} ({loop.length} bytes) lies at code offset "
        f"{loop.offset} (its address mod 64) in {scanned}. Lying there it takes "
        f"{spread([e.now for e in hurt])} cycles an iteration on {', '.join(cores)}; at its best "
        f"code offset {spread([e.best for e in hurt])}. Align it to {candidate.alignment} bytes, "
        f"after which no code offset hurts it: {_bytes(candidate)}, {nops}."
    )


def _bytes(candidate: Candidate) -> str:
    if candidate.expected == candidate.most:
        return f"{candidate.most} bytes more"
    return f"{candidate.expected:.0f} bytes more are expected, {candidate.most} at most"


def _table(work: Work, number: int, mend: Mend) -> str:
    after = work.matched[number]
    rows = []
    for at, core in enumerate(work.cores):
        if core.id in mend.effects:
            effect = mend.effects[core.id]
            before, then = work.before.cycles(at, number), work.after.cycles(at, after)
            there, best = f"{effect.now:.2f}", f"{effect.best:.2f}"
            rows.append([core.id, there, best, spread(before), spread(then)])
    return message_tables.aligned(_HEAD, rows, left=len(_HEAD))
