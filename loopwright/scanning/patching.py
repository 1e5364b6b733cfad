"""Make a kernel patch that aligns hurt loops of assembly, proven by its object and by a boot."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright.errors import InputError, unknown
from loopwright.scanning import assembly, boot_text, candidates, mends, patch_text, starts
from loopwright.scanning.booted import Booted
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
from loopwright.tree.verify.outcomes import FAIL, PASS, Tier, outcome
from loopwright.tree.verify.overlay import hold

OBJECT, BOOT = TIERS = ("object", "boot")
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
    tier: str = OBJECT,
) -> LoopPatch:
    """Align the loops of an assembly function that a scan calls hurt, in a Linux tree.

    tree is a whole one (only read), or debian:6.12. The function's object is built by the tree's
    own makefiles, as it is and changed: it has to have the same instructions but for nops, its
    loops at the places wished for and good there on every core of the scan, and every other loop as
    it was. With tier "boot" a small kernel of the tree is then built with it and booted under QEMU,
    which has to run the loops. Each check goes to said. The patch is written to the folder out
    where none of them fails and git am and the tree's checkpatch.pl take it; what a boot leaves
    unproven is said below its message. InputError where there is nothing to align: no such function
    or none that is hurt, no alignment that helps, no assembly in the tree; or no such tier, or a
    tool that it needs is missing.
    """
    if tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    choices = _choices(scan, function)
    found = trees.find(tree, whole=True)
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    source = trees.read(found.path)
    worktree.refuse_inside(source, out)
    isa = scan.image.isa
    verify.require(isa, tier)
    file = assembly.source(source, isa, function)
    numbers = assembly.inside(scan.image.sections, scan.found.loops, function)
    loops = [scan.found.loops[n] for n in numbers]
    cores = [one.core for one in scan.costs]
    mine = [{at: wishes[n] for at, n in enumerate(numbers) if n in wishes} for wishes in choices]
    asked = [{at: c.alignment for at, m in one.items() if (c := m.candidate)} for one in mine]
    with hold(source) as overlay:
        work = Work(source, overlay, isa, function, file, loops, asked, cores)
        booted = Booted(work) if tier == BOOT else None
        again = _again(scan, function, tree, out, tier)
        rows = _checked(work.checks(), function, OBJECT, again, said)
        if booted and rows[-1]["status"] == PASS:
            rows += _checked(booted.checks(), function, BOOT, again, said)
        overlay.put({})
    if any(row["status"] == FAIL for row in rows):
        return LoopPatch("", None, (), tuple(rows), ())
    wishes = mine[work.taken]
    return _mailed(work, booted, scan.image.path, wishes, source, out, identity, rows)


def _choices(scan: Scan, function: str) -> list[Mapping[int, Mend]]:
    """Return alignments that mend each hurt loop of a function, by its number, the smallest first.

    Where a larger one helps no less it is another choice.
    """
    mine = assembly.inside(scan.image.sections, scan.found.loops, function)
    where = scan.image.path
    if not mine:
        raise InputError(f"{where} has no loop in a function {function!r}; scan it for their names")
    hurt = _hurt(scan, mine, 0)
    cores = ", ".join(one.core.id for one in scan.costs)
    if not hurt:
        raise InputError(f"no loop of {function} in {where} is hurt by its code offset on {cores}")
    choices: list[Mapping[int, Mend]] = []
    for least in candidates.ALIGNMENTS:
        wishes = {n: mend for n, mend in _hurt(scan, mine, least).items() if mend.candidate}
        if wishes not in choices and (not choices or wishes.keys() == choices[0].keys()):
            choices.append(wishes)
    if not choices[0]:
        notes = "; ".join(dict.fromkeys(mend.note for mend in hurt.values()))
        raise InputError(f"no alignment fixes the loops of {function} in {where}: {notes}")
    return choices


def _hurt(scan: Scan, mine: Sequence[int], least: int) -> dict[int, Mend]:
    """Return what to do about each hurt loop of some by an alignment to so much, or to more."""
    known = starts.of_image(scan.image)
    found = mends.mends(
        scan.found.loops, scan.costs, known, kinds=("align",), only=set(mine), least=least
    )
    return {n: found[n] for n in mine if found[n].words not in ("", mends.NEVER_MIND)}


def _again(scan: Scan, function: str, tree: str, out: Path, tier: str) -> str:
    """Return the command that repeats the checks."""
    cores = ",".join(one.core.id for one in scan.costs)
    return shlex.join(
        ["loopwright", "scan", str(scan.image.path), "--patch", function, "--tree", tree,
         "-o", str(out), "--microarch", cores, "--verify", tier]
    )  # fmt: skip


def _checked(
    checks: Tier,
    function: str,
    tier: str,
    again: str,
    said: Callable[[dict[str, object]], None] | None,
) -> list[dict[str, object]]:
    rows = []
    try:
        check = next(checks)
        while True:
            rows.append(outcome(function, tier, check, again))
            if said:
                said(rows[-1])
            check = checks.send(rows[-1]["status"] == PASS)
    except StopIteration:
        return rows
    finally:
        checks.close()


def _mailed(
    work: Work,
    booted: Booted | None,
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
    if booted:
        body += "\n\n" + boot_text.body(booted, rows)
    whole = "\n".join([subject, "", body, "", *trailer]).rstrip() + "\n"
    change = Change(work.file, tree.read(work.file), work.new)
    below = patch_text.below(made, notes, boot_text.left(booted, rows))
    mail = Mail((change,), whole, below, author, rfc=False)
    file, findings = mail.keep(tree, out, f"scan-{work.function}")
    return LoopPatch(subject, file, findings, tuple(rows), tuple(notes))
