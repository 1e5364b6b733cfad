"""Kernel patches that align loops of assembly, verified by object and by boot."""

import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from loopwright import microarchs
from loopwright.errors import InputError, unknown
from loopwright.linux import boot_tier, build, message, trees, verify
from loopwright.linux.boot_tier import Kernel, Machine
from loopwright.linux.build import hold
from loopwright.linux.edits import Change
from loopwright.linux.mail import UNSIGNED, Mail
from loopwright.linux.message import prefix, wrap
from loopwright.linux.trees import Identity, user_identity
from loopwright.linux.verification import (
    FAIL,
    NOT_PROVEN,
    PASS,
    Check,
    CheckError,
    NotProven,
    OnCheck,
    Row,
    Tier,
    outcomes,
)
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning import aligned_sources, costs, fixes, images
from loopwright.scanning.aligned_sources import Work, spread
from loopwright.scanning.binary_loops import ScannedLoop, find_loops
from loopwright.scanning.costs import cost
from loopwright.scanning.fixes import Candidate, Fix, costs_more
from loopwright.scanning.scan import Scan

_HEAD = ("core", "there", "best", "before", "patched")


def patch_body(
    work: Work, found_fixes: Mapping[int, Fix], scanned: Path, proven: Sequence[str]
) -> str:
    """Return the message's paragraphs.

    found_fixes are those of work's loops by number, scanned is the file in which they are hurt,
    proven the results of the checks of the object.
    """
    parts = []
    for label, (a, b) in zip(work.labels, work.numbers, strict=True):
        fix = found_fixes[a]
        nops = "nops that are run once before the loop" if work.before.falls_in(b) else "never run"
        parts.append(wrap(_why(work, a, label.name, fix, nops, scanned.name)))
        parts.append(_table(work, b, fix))
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


def _why(work: Work, number: int, label: str, fix: Fix, nops: str, scanned: str) -> str:
    candidate = fix.candidate
    assert candidate  # of others no patch is made
    loop = work.loops[number]
    hurt = [effect for effect in fix.effects.values() if effect.hurt]
    cores = [microarchs.load(core).name for core, e in fix.effects.items() if e.hurt]
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


def _table(work: Work, number: int, fix: Fix) -> str:
    after = work.matched[number]
    rows = []
    for at, core in enumerate(work.cores):
        if core.id in fix.effects:
            effect = fix.effects[core.id]
            before, then = work.before.cycles(at, number), work.after.cycles(at, after)
            there, best = f"{effect.now:.2f}", f"{effect.best:.2f}"
            rows.append([core.id, there, best, spread(before), spread(then)])
    return message.aligned(_HEAD, rows, left=len(_HEAD))


# The kernel's own tests of its ciphers and hashes, which run at boot.
_CRYPTO = ("-e CRYPTO_MANAGER", "-d CRYPTO_MANAGER_DISABLE_TESTS")
# Messages of a failing test, and of any other problem in a kernel.
_FAILS = re.compile(
    r"\balg: .*(?:fail|unexpected|wrong|overran|mismatch).*|\bWARNING: .*|\bBUG: .*"
)


@dataclass
class Booted:
    """The kernel of a patch, built and booted: the addresses and executions of its loops.

    loops are the patch's, in the order of work.labels; ran has by machine how often an iteration of
    each began with a jump.
    """

    work: Work
    loops: list[ScannedLoop] = field(default_factory=list)
    ran: dict[Machine, Counter[int]] = field(default_factory=dict)

    def checks(self) -> Tier:
        """Yield the checks: the build, the loops' places in it, each machine, the executions."""
        work = self.work
        suites = boot_tier.small(work.tree, work.isa, self._names())
        kernel = Kernel(
            work.overlay, work.isa, {work.file: work.new}, suites, [*self._options()], _FAILS
        )
        if not (yield Check("kernel", kernel.build)):
            return
        if not (yield Check("code offset in the kernel", lambda: self._place(kernel.folder))):
            return
        with tempfile.TemporaryDirectory(prefix="loopwright-boot-") as folder:
            for number, machine in enumerate(kernel.machines):
                log = Path(folder, str(number))
                watched = boot_tier.log_options(log, [loop.address for loop in self.loops])
                yield from kernel.boot(machine, watched)
                self.ran[machine] = boot_tier.entered_counts(log)
                log.unlink(missing_ok=True)
        yield Check("loops that ran", self._ran)

    def _names(self) -> set[str]:
        """Return the names by which C calls the function."""
        work = self.work
        (section,) = {self.work.before.loops[n].section for _, n in work.numbers}
        starts = {x.address - x.into for x in (work.before.loops[n] for _, n in work.numbers)}
        names = {
            symbol.name
            for in_section in work.before.sections
            if in_section.name == section
            for symbol in in_section.symbols
            if symbol.address in starts
        }
        return {re.sub(r"^(?:__pi_)?_*", "", name) for name in {*names, work.function}}

    def _options(self) -> Iterator[str]:
        """Yield the options that build the patched file and the kernel's own tests of it."""
        names = build.options_of_source(self.work.tree, self.work.isa, self.work.file)
        yield from (f"-e {name}" for name in names)
        if "CRYPTO" in names:
            yield from _CRYPTO

    def _place(self, folder: Path) -> str:
        """Check that the loops in the linked kernel are aligned, and no slower there."""
        work = self.work
        image = images.read_image(folder / "vmlinux")
        loops = find_loops(image).loops
        wanted = [work.before.loops[n] for _, n in work.numbers]
        at = aligned_sources.find_again(wanted, work.function, image.sections, loops)
        if missing := [label.name for n, label in enumerate(work.labels) if n not in at]:
            raise NotProven(f"a small kernel of this tree has no loop at {', '.join(missing)}")
        self.loops = [loops[at[n]] for n in range(len(wanted))]
        texts = []
        costs = cost(self.loops, work.cores)
        for n, ((wish, before), label) in enumerate(zip(work.numbers, work.labels, strict=True)):
            loop, to = self.loops[n], work.wishes[wish]
            if loop.address % to:
                raise CheckError(f"{label.name} is at {loop.address:#x}, no multiple of {to}")
            cycles = []
            for core, core_costs in enumerate(costs):
                cycles_there, most = (
                    core_costs.cycles[n],
                    max(work.after.cycles(core, work.matched[before])),
                )
                if costs_more(cycles_there, most):
                    raise CheckError(
                        f"{label.name} takes {cycles_there:.2f} cycles on {core_costs.core.id} in "
                        f"the linked kernel, {most:.2f} at most in its object"
                    )
                cycles += (
                    [] if isnan(cycles_there) else [f"{core_costs.core.id} {cycles_there:.2f}"]
                )
            texts.append(f"{label.name} at {loop.address:#x}: {', '.join(cycles)}")
        return "; ".join(texts)

    def _ran(self) -> str:
        """Check that each loop was executed on some machine."""
        total = sum(self.ran.values(), Counter())
        idle = [
            label.name
            for label, loop in zip(self.work.labels, self.loops, strict=True)
            if not total[loop.address]
        ]
        if idle:
            raise NotProven(f"nothing that these guests did has run the loop at {', '.join(idle)}")
        return "; ".join(
            f"{label.name} {total[loop.address]:,} times"
            for label, loop in zip(self.work.labels, self.loops, strict=True)
        )


def boot_text(booted: Booted, rows: Sequence[Row]) -> str:
    """Return the paragraphs on the build, the places of the loops, and each machine's runs."""
    results = {str(row["check"]): str(row["what"]) for row in rows if row["status"] == PASS}
    work = booted.work
    if not booted.ran:
        return wrap("No kernel was booted with it; see below.")
    kernel = (
        f"Booted under {boot_tier.qemu_version(work.isa)}, which proves what code does and not how "
        f"fast: {results['kernel']}, with {results['code offset in the kernel']} cycles an "
        "iteration there. Below: how often the loop's first byte was jumped to; the kernel's own "
        "tests; read(), write() and epoll_wait() with memory that ends at every position."
    )
    return f"{wrap(kernel)}\n\n{_boot_table(booted, results)}"


def boots_left(booted: Booted | None, rows: Sequence[Row]) -> list[str]:
    """Return the points that the booted kernel left unproven."""
    if booted is None:
        return ["a whole kernel built, booted and scanned again"]
    open_ = [row for row in rows if row["status"] == NOT_PROVEN]
    others = "what loops take elsewhere in a kernel, where other code moves with this"
    return [others, *(f"{row['check']}: {row['what']}" for row in open_)]


def _boot_table(booted: Booted, results: Mapping[str, str]) -> str:
    names = [label.name for label in booted.work.labels]
    head = ["machine", *(f"{name} ran" for name in names), "KUnit", "system calls"]
    rows = []
    for machine, counts in booted.ran.items():
        if f"boot: {machine.name}" in results:
            times = (f"{counts[loop.address]:,}" for loop in booted.loops)
            tests, calls = (_counted(kind, machine, results) for kind in ("KUnit ", "sweep "))
            passed = (f"{tests} pass", f"{calls:,} as they must")
            rows.append([machine.name, *times, *passed])
    return message.aligned(head, rows, left=len(head))


def _counted(kind: str, machine: Machine, results: Mapping[str, str]) -> int:
    """Return the sum of the counts that begin the results of one kind of check on a machine."""
    return sum(
        int(match[1])
        for check, what in results.items()
        if check.startswith(kind) and check.endswith(f": {machine.name}")
        if (match := re.match(r"(?:pass:)?(\d+)", what))
    )


OBJECT, BOOT = TIERS = ("object", "boot")
_PROOF = ("same instructions", "other loops")  # checks whose results the message quotes


@dataclass(frozen=True)
class LoopPatch:
    """The result of making a patch: its file, or None if a check failed.

    checks are rows of verify.run, notes lines for the user.
    """

    file: Path | None
    checks: tuple[Row, ...]
    notes: tuple[str, ...]


def patch(
    scan: Scan,
    function: str,
    tree: str,
    out: Path,
    on_check: OnCheck | None = None,
    identity: Identity | None = None,
    tier: str = OBJECT,
) -> LoopPatch:
    """Align the loops of an assembly function that a scan found hurt, in a Linux tree.

    tree is a complete one (only read), or debian:6.12. The function's object is built by the tree's
    own makefiles, unchanged and changed: it has to have the same instructions except for nops, its
    loops at their new alignment and not hurt there on any core of the scan, and every other loop as
    fast as before. With tier "boot" a small kernel of the tree is then built with it and booted
    under QEMU, which has to execute the loops. Each check is reported to on_check. The patch is
    written to the folder out if none of them fails and git am and the tree's checkpatch.pl accept
    it; points that a boot leaves unproven are listed below its message. InputError if there is
    nothing to align (no such function, no hurt loop, no alignment that helps, no assembly in the
    tree), for an unknown tier, or if a tool is missing.
    """
    if tier not in TIERS:
        raise unknown("tier", tier, TIERS)
    choices = _choices(scan, function)
    found = trees.find(tree, whole=True)
    assert found.path is not None  # a tree that is named and cannot be had is an InputError
    source = trees.read(found.path)
    trees.refuse_inside(source, out)
    isa = scan.image.isa
    verify.require(isa, tier)
    file = aligned_sources.assembly_source(source, isa, function)
    numbers = aligned_sources.inside(scan.image.sections, scan.found.loops, function)
    loops = [scan.found.loops[n] for n in numbers]
    cores = [core_costs.core for core_costs in scan.costs]
    fixes_of = [
        {at: wishes[n] for at, n in enumerate(numbers) if n in wishes} for wishes in choices
    ]
    asked = [
        {at: c.alignment for at, fix in chosen.items() if (c := fix.candidate)}
        for chosen in fixes_of
    ]
    with hold(source) as overlay:
        work = Work(source, overlay, isa, function, file, loops, asked, cores)
        booted = Booted(work) if tier == BOOT else None
        again = _again(scan, function, tree, out, tier)
        rows = outcomes(work.checks(), function, OBJECT, again, on_check)
        if booted and rows[-1]["status"] == PASS:
            rows += outcomes(booted.checks(), function, BOOT, again, on_check)
        overlay.put({})
    if any(row["status"] == FAIL for row in rows):
        return LoopPatch(None, tuple(rows), ())
    author = identity or user_identity(source.root)
    made, warning = trees.made_against(source, [file])
    notes = [note for note in ("" if author else UNSIGNED, warning) if note]
    what = "a loop" if len(work.labels) == 1 else f"{len(work.labels)} loops"
    subject = f"{prefix(file)}: Align {what} of {function}()"
    proven = [str(row["what"]) for row in rows if row["check"] in _PROOF]
    body = patch_body(work, fixes_of[work.taken], scan.image.path, proven)
    if booted:
        body += "\n\n" + boot_text(booted, rows)
    trailer = [f"Signed-off-by: {author}"] if author else []
    whole = "\n".join([subject, "", body, "", *trailer]).rstrip() + "\n"
    change = Change(file, source.read(file), work.new)
    open_ = "; ".join(("its speed on hardware", *boots_left(booted, rows)))
    below = "\n\n".join(map(wrap, (made, *notes, f"Not shown: {open_}.")))
    mail = Mail((change,), whole, below, author, rfc=False)
    kept, _ = mail.keep(source, out, f"scan-{function}")
    return LoopPatch(kept, tuple(rows), tuple(notes))


def _choices(scan: Scan, function: str) -> list[Mapping[int, Fix]]:
    """Return alignments that fix each hurt loop of a function, by its number, the smallest first.

    A larger alignment with the same effect is a further choice.
    """
    own = aligned_sources.inside(scan.image.sections, scan.found.loops, function)
    where = scan.image.path
    if not own:
        raise InputError(f"{where} has no loop in a function {function!r}; scan it for their names")
    hurt = _hurt(scan, own, 0)
    cores = ", ".join(core_costs.core.id for core_costs in scan.costs)
    if not hurt:
        raise InputError(f"no loop of {function} in {where} is hurt by its code offset on {cores}")
    choices: list[Mapping[int, Fix]] = []
    for least in fixes.ALIGNMENTS:
        wishes = {n: fix for n, fix in _hurt(scan, own, least).items() if fix.candidate}
        if wishes not in choices and (not choices or wishes.keys() == choices[0].keys()):
            choices.append(wishes)
    if not choices[0]:
        notes = "; ".join(dict.fromkeys(fix.note for fix in hurt.values()))
        raise InputError(f"no alignment fixes the loops of {function} in {where}: {notes}")
    return choices


def _hurt(scan: Scan, numbers: Sequence[int], least: int) -> dict[int, Fix]:
    """Return the fix by alignment of each hurt loop among some, of at least an alignment."""
    known = costs.start_alignments(scan.image)
    found = fixes.find_fixes(
        scan.found.loops, scan.costs, known, kinds=("align",), only=set(numbers), least=least
    )
    return {n: found[n] for n in numbers if found[n].words not in ("", fixes.NOT_NEEDED)}


def _again(scan: Scan, function: str, tree: str, out: Path, tier: str) -> str:
    """Return the command that repeats the checks."""
    cores = ",".join(core_costs.core.id for core_costs in scan.costs)
    return shlex.join(
        ["loopwright", "scan", str(scan.image.path), "--patch", function, "--tree", tree,
         "-o", str(out), "--microarch", cores, "--verify", tier]
    )  # fmt: skip
