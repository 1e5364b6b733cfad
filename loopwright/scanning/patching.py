"""Make a kernel patch that aligns the hurt loops of an assembly function, proven by its object."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError
from loopwright.scanning import mends, patch_text, realigned, starts
from loopwright.scanning.mends import Mend
from loopwright.scanning.realigned import Work
from loopwright.scanning.scan import Scan
from loopwright.tree import sources as trees
from loopwright.tree import verify, worktree
from loopwright.tree.checkpatch import Complaint
from loopwright.tree.patch.edits import Change
from loopwright.tree.patch.mail import UNSIGNED, Mail
from loopwright.tree.scratch import Identity, user_identity
from loopwright.tree.sources import Tree
from loopwright.tree.verify.outcomes import PASS, outcome
from loopwright.tree.verify.overlay import hold

_TIER = "object"
_PROOF = ("same instructions", "other loops")  # checks whose words stand in the message


@dataclass(frozen=True)
class LoopPatch:
    """What became of a patch: its subject and file, or "" and None where a check failed.

    findings is what checkpatch.pl said, checks are rows of tree.verify, notes lines for the user.
    """

    subject: str
    file: Path | None
    findings: tuple[Complaint, ...]
    checks: tuple[dict[str, object], ...]
    notes: tuple[str, ...]


def patch(
    scan: Scan,
    function: str,
    tree: str,
    out: Path,
    said: Callable[[dict[str, object]], None] | None = None,
    identity: Identity | None = None,
) -> LoopPatch:
    """Align the loops of an assembly function that a scan calls hurt, in a Linux tree.

    tree is a whole one (only read), or debian:6.12. The function's object is built by the tree's
    own makefiles, as it is and changed: it has to have the same instructions but for nops, its
    loops at the places wished for and good there on every core of the scan, and every other loop as
    it was. Each check goes to said. The patch is written to the folder out where all of them pass
    and git am and the tree's checkpatch.pl take it. InputError where there is nothing to align: no
    such function or none that is hurt, no alignment that helps, no assembly in the tree.
    """
    wishes = _wishes(scan, function)
    found = trees.find(tree, whole=True)
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    source = trees.read(found.path)
    worktree.refuse_inside(source, out)
    isa = scan.image.isa
    verify.require(isa, _TIER)
    file = realigned.source(source, isa, function)
    numbers = realigned.inside(scan.image.sections, scan.found.loops, function)
    loops = [scan.found.loops[n] for n in numbers]
    cores = [one.core for one in scan.costs]
    mine = {at: wishes[n] for at, n in enumerate(numbers) if n in wishes}
    asked = {at: mend.candidate.alignment for at, mend in mine.items() if mend.candidate}
    with hold(source) as overlay:
        work = Work(source, overlay, isa, function, file, loops, asked, cores)
        rows = _checked(work, scan, tree, out, said)
        overlay.put({})
    if rows[-1]["status"] != PASS:
        return LoopPatch("", None, (), tuple(rows), ())
    return _mailed(work, scan.image.path, mine, source, out, identity, rows)


def _wishes(scan: Scan, function: str) -> Mapping[int, Mend]:
    """Return the smallest alignment that mends each hurt loop of a function, by its number."""
    loops = scan.found.loops
    mine = realigned.inside(scan.image.sections, loops, function)
    where = scan.image.path
    if not mine:
        raise InputError(f"{where} has no loop in a function {function!r}; scan it for their names")
    known = starts.of_image(scan.image)
    found = mends.mends(loops, scan.costs, known, kinds=("align",), only=set(mine))
    hurt = {n: found[n] for n in mine if found[n].words not in ("", mends.NEVER_MIND)}
    cores = ", ".join(one.core.id for one in scan.costs)
    if not hurt:
        raise InputError(f"no loop of {function} in {where} is hurt by its place on {cores}")
    wishes = {n: mend for n, mend in hurt.items() if mend.candidate}
    if not wishes:
        notes = "; ".join(dict.fromkeys(mend.note for mend in hurt.values()))
        raise InputError(f"no alignment mends the loops of {function} in {where}: {notes}")
    return wishes


def _checked(
    work: Work,
    scan: Scan,
    tree: str,
    out: Path,
    said: Callable[[dict[str, object]], None] | None,
) -> list[dict[str, object]]:
    again = shlex.join(
        ["loopwright", "scan", str(scan.image.path), "--patch", work.function, "--tree", tree,
         "-o", str(out), "--microarch", ",".join(core.id for core in work.cores)]
    )  # fmt: skip
    rows = []
    checks = work.checks()
    try:
        check = next(checks)
        while True:
            rows.append(outcome(work.function, _TIER, check, again))
            if said:
                said(rows[-1])
            check = checks.send(rows[-1]["status"] == PASS)
    except StopIteration:
        return rows


def _mailed(
    work: Work,
    scanned: Path,
    wishes: Mapping[int, Mend],
    tree: Tree,
    out: Path,
    identity: Identity | None,
    rows: Sequence[dict[str, object]],
) -> LoopPatch:
    author = identity or user_identity(tree.root)
    made, warning = worktree.said(tree, [work.file])
    notes = [note for note in ("" if author else UNSIGNED, warning) if note]
    subject = patch_text.subject(work.file, work.function, len(work.labels))
    proven = [str(row["what"]) for row in rows if row["check"] in _PROOF]
    trailer = [f"Signed-off-by: {author}"] if author else []
    body = patch_text.body(work, wishes, scanned, proven)
    whole = "\n".join([subject, "", body, "", *trailer]).rstrip() + "\n"
    change = Change(work.file, tree.read(work.file), work.new)
    mail = Mail((change,), whole, patch_text.below(made, notes), author, rfc=False)
    file, findings = mail.keep(tree, out, f"scan-{work.function}")
    return LoopPatch(subject, file, findings, tuple(rows), tuple(notes))
