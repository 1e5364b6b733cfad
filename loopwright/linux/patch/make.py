"""Make a patch: change the tree's text in memory, prove the patch in scratch, then keep it."""

from dataclasses import dataclass
from pathlib import Path

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.linux import c_source, git, trees
from loopwright.linux import routine as routine_module
from loopwright.linux.checkpatch import Complaint
from loopwright.linux.git import Identity, user_identity
from loopwright.linux.patch import callers, edits, message
from loopwright.linux.patch.edits import Change
from loopwright.linux.patch.evidence import Evidence
from loopwright.linux.patch.mail import UNSIGNED, Mail, PatchError
from loopwright.linux.routine import Target
from loopwright.linux.trees import Tree

WRITTEN = "written"
ALREADY_THERE = "already there"
_RFC = "[RFC PATCH]"


@dataclass(frozen=True)
class MadePatch:
    """Outcome of making a patch.

    status is "written" or "already there"; subject begins as that of the mail does where it is one
    to talk about, not to merge; files are the patch files kept, none where the tree
    has the variant already. findings is all that the tree's checkpatch.pl said, am_ok whether git
    am took the patch on the tree's own files. notes are lines for the user: what was left out,
    what to do before sending.
    """

    variant: str
    tree: str
    status: str
    subject: str
    files: tuple[Path, ...]
    findings: tuple[Complaint, ...]
    am_ok: bool
    notes: tuple[str, ...]


def make(
    variant: Variant, tree: Path, out: Path, evidence: Evidence, identity: Identity | None = None
) -> MadePatch:
    """Put a variant into a Linux tree as a patch file in the folder out.

    The tree is only read. The patch is kept if git am takes it on the tree's files and the tree's
    checkpatch.pl has no error but those of the allow-list; a file appears in out whole or not at
    all; out may not lie in the tree. identity is whose Signed-off-by it carries, else that of git's
    configuration in the tree; without either it carries none. InputError where the tree or the
    variant does not allow a patch, PatchError with a log where the patch fails its tests.
    """
    source = trees.read(tree)
    git.refuse_inside(source, out)
    aim = routine_module.find(variant, source)
    there = _already_there(variant, aim, source)
    subject = message.subject(variant)
    if there:
        return MadePatch(variant.id, str(source), ALREADY_THERE, subject, (), (), False, (there,))
    routine_module.require(variant, source)
    changes, notes, also = _changes(variant, aim, source)
    author = identity or user_identity(source.root)
    if author is None:
        notes.append(UNSIGNED)
    names = {
        v.routine: routine_module.find(v, source).name for v in routine_module.together(variant)
    }
    writer = message.Writer(variant, names, evidence)
    made, warning = git.made_against(source, [change.file for change in changes])
    notes += [warning] if warning else []
    below = writer.below(made, *notes)
    body = writer.body(also)
    trailers = message.trailers(kernels.load(variant.kernel), str(author) if author else "")
    wide = message.too_wide([subject, *body.splitlines()])
    whole = "\n".join([subject, "", body, "", *trailers]).rstrip() + "\n"
    if wide:
        raise PatchError(f"the message is wider than {message.WIDTH} columns: {wide}", whole)
    mail = Mail(tuple(changes), whole, below, author, rfc=writer.doubtful)
    kept, findings = mail.keep(source, out, variant.id)
    shown = f"{_RFC} {subject}" if writer.doubtful else subject
    return MadePatch(variant.id, str(source), WRITTEN, shown, (kept,), findings, True, tuple(notes))


def _already_there(variant: Variant, aim: Target, tree: Tree) -> str:
    """Say why the tree needs no patch, or return ""."""
    merged = f" (merged as {variant.merged})" if variant.merged else ""
    where = f"{aim.name} in {aim.file} of {tree}"
    try:
        theirs = routine_module.assembled(variant, aim, tree, {}, variant.alternatives)
    except InputError:
        changes, _ = edits.apply(variant, aim, tree)
        if all(c_source.normalised(c.old) == c_source.normalised(c.new) for c in changes):
            return (
                f"{where} has the text of {variant.name} already{merged}; it does not assemble "
                "outside of the kernel, so that its text was compared"
            )
        return ""
    if not routine_module.same_code(
        theirs, routine_module.of_variant(variant, variant.alternatives)
    ):
        return ""
    under = f" under {', '.join(variant.alternatives)}" if variant.alternatives else ""
    return f"{where} assembles to the same instructions as {variant.name}{under}{merged}"


def _changes(
    variant: Variant, aim: Target, tree: Tree
) -> tuple[list[Change], list[str], list[str]]:
    """Return the changes, notes for the user, and paragraphs for the message."""
    changes, notes = edits.apply(variant, aim, tree)
    _prove(variant, tree, changes)
    fitted = callers.fit(variant, aim.name, tree, changes)
    also = [
        f"The inline assembly in {change.file} that calls {aim.name} now names the registers that "
        "the new code changes too."
        for change in fitted
    ]
    files = {change.file: change for change in [*changes, *fitted]}
    return [c for c in files.values() if c.old != c.new], notes, also


def _prove(variant: Variant, tree: Tree, changes: list[Change]) -> None:
    """Refuse changes that do not assemble to the variants meant, for each routine they touch."""
    changed = {change.file: change.new for change in changes}
    variants = routine_module.together(variant)
    for one in variants:
        aim = routine_module.find(one, tree)
        failure = routine_module.difference(one, aim, tree, changed)
        if failure:
            raise InputError(
                f"{one.id} put into {aim.file} of {tree} is not the code checked: {failure}"
            )
    proven = {one.routine for one in variants}
    for name, routine in kernels.load(variant.kernel).routines.items():
        if routine.upstream and routine.upstream.file in changed and name not in proven:
            raise InputError(
                f"{variant.id} changes {routine.upstream.file}, but no variant of {name} has the "
                "same edits: it would ship code that nothing has checked"
            )
