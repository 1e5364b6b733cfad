"""Kernel patches that align loops of assembly: sources changed, verified by object and boot."""

import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from statistics import mean

from loopwright import microarchs
from loopwright.code import instructions
from loopwright.code.elf import Section
from loopwright.code.instructions import Flow
from loopwright.errors import InputError, unknown
from loopwright.linux import boot_tier, build, message, object_tier, trees, verify
from loopwright.linux.boot_tier import Kernel, Machine
from loopwright.linux.build import Build, Overlay, hold
from loopwright.linux.edits import Change
from loopwright.linux.mail import UNSIGNED, Mail
from loopwright.linux.message import prefix, wrap
from loopwright.linux.routines import blank_comments
from loopwright.linux.trees import Identity, Tree, user_identity
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
from loopwright.microarchs import Microarch
from loopwright.predicting.pipeline import Pipeline
from loopwright.scanning import binary_loops, builds, costs, fixes, images
from loopwright.scanning.binary_loops import ScannedLoop, find_loops, section_of
from loopwright.scanning.costs import LINE, CoreCosts, cost
from loopwright.scanning.fixes import MOST_LOSS, Candidate, Fix, costs_more
from loopwright.scanning.scan import Scan

# The name may be that of a macro, such as L(loop).
_LABEL = re.compile(r"(?m)^[ \t]*(?:[.\w$]+|\w+\([.\w]+\))[ \t]*:(?!:)")
_ALIGN_DIRECTIVE = re.compile(r"(?m)^[ \t]*\.(?:p2align|balign|align)\b[^\n;]*\n(?=[ \t]*\Z)")
_MARK = "loopwright_label_{}"
# Text that is assembled several times, or not at all: a symbol in it would be defined twice.
_REPEATED = re.compile(
    r"(?ms)^[ \t]*\.(?:macro|rept|irp|irpc)\b.*?^[ \t]*\.(?:endm|endr)\b|^[ \t]*#[ \t]*define\b"
    r"(?:[^\n]*\\\n)*[^\n]*"
)


@dataclass(frozen=True)
class Label:
    """A line of a file that begins with a label: its position in the text, and its number."""

    at: int
    line: int
    name: str


def labels(text: str) -> list[Label]:
    """Return the labels of an assembly file outside of macros, in order."""
    code = blank_comments(text)
    repeated = [match.span() for match in _REPEATED.finditer(code)]
    return [
        Label(match.start(), code.count("\n", 0, match.start()) + 1, match[0].strip(" \t:"))
        for match in _LABEL.finditer(code)
        if not any(start <= match.start() < end for start, end in repeated)
    ]


def marked(text: str, marks: Sequence[Label]) -> str:
    """Return the file with a symbol before each label, which shows its address in the object."""
    for number, label in reversed(list(enumerate(marks))):
        text = f"{text[: label.at]}{_MARK.format(number)}:\n{text[label.at :]}"
    return text


def at_head(sections: Sequence[Section], marks: Sequence[Label], loop: ScannedLoop) -> Label | None:
    """Return the first label at a loop's first byte, by the symbols of marked text."""
    label_of = {_MARK.format(number): label for number, label in enumerate(marks)}
    marked_labels = [
        label_of[symbol.name]
        for section in sections
        if section.name == loop.section
        for symbol in section.symbols
        if symbol.address == loop.address and symbol.name in label_of
    ]
    return min(marked_labels, key=lambda label: label.at, default=None)


def aligned(text: str, label: Label, alignment: int) -> str:
    """Return the file with a label aligned, in place of an existing directive before it."""
    before, after = text[: label.at], text[label.at :]
    before = _ALIGN_DIRECTIVE.sub("", before)
    return f"{before}\t.p2align {alignment.bit_length() - 1}\n{after}"


_DEFINITION = r"^[ \t]*(?:(?:SYM_\w*START\w*|ENTRY)\(\s*{0}\s*\)|SYM_\w*ALIAS\w*\(\s*{0}\s*,)"


def inside(sections: Sequence[Section], loops: Sequence[ScannedLoop], function: str) -> list[int]:
    """Return the numbers of the loops in a function, by any of its names."""
    starts = {
        (section.file, section.name, symbol.address)
        for section in sections
        for symbol in section.symbols
        if symbol.name == function
    }
    return [
        n
        for n, loop in enumerate(loops)
        if loop.function == function
        or (loop.function and (loop.file, loop.section, loop.address - loop.into) in starts)
    ]


def find_again(
    wanted: Sequence[ScannedLoop],
    function: str,
    sections: Sequence[Section],
    loops: Sequence[ScannedLoop],
) -> dict[int, int]:
    """Return by number the loops of a function, and their numbers among the loops of another file.

    Missing loops are left out.
    """
    numbers = inside(sections, loops, function)
    a, b = (
        [replace(loop, file="", section="", function=function) for loop in chosen]
        for chosen in (wanted, [loops[n] for n in numbers])
    )
    return {n: numbers[m] for n, m in builds.common(a, b).items()}


def assembly_source(tree: Tree, isa: str, function: str) -> str:
    """Return the assembly file of a tree that defines a function; InputError without one."""
    starts = _DEFINITION.format(re.escape(function))
    defining = [
        file
        for file in trees.files_holding(tree, isa, function, starts, suffixes=(".S",))
        if re.search(rf"(?m){starts}", blank_comments(tree.read(file)))
    ]
    if not defining:
        raise InputError(
            f"no assembly file of {tree} defines {function}: patches are made of assembly; "
            "for C see what its row says to tell the compiler"
        )
    if len(defining) > 1:
        raise InputError(
            f"{function} is defined in {', '.join(defining)} of {tree}: which is meant?"
        )
    return defining[0]


@dataclass(frozen=True)
class Built:
    """An object of a tree: its code, its loops, and their costs."""

    sections: tuple[Section, ...]
    loops: list[ScannedLoop]
    costs: list[CoreCosts]

    def offsets(self, n: int) -> list[int]:
        """Return the code offsets at which a linker may put a loop."""
        loop = self.loops[n]
        alignment = costs.section_alignment(section_of(self.sections, loop))
        return costs.shifted_offsets(loop.address, alignment)

    def falls_in(self, n: int) -> bool:
        """True if control falls into a loop from the code before it, nops aside."""
        loop = self.loops[n]
        section = section_of(self.sections, loop)
        start = loop.address - loop.into
        before = instructions.decode(loop.isa, section.bytes_of(start, loop.address), start)
        last = next((i for i in reversed(before) if not i.mnemonic.startswith("nop")), None)
        return last is None or last.flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL)

    def cycles(self, core: int, n: int) -> list[float]:
        """Return the loop's cycles at each of these offsets."""
        return [self.costs[core].table[n][offset] for offset in self.offsets(n)]


@dataclass
class PatchedFile:
    """An assembly file of a tree in which loops of a function are aligned.

    loops are those of the function as scanned. Each of choices has alignments for some of them, by
    number, the smallest first: taken is the number of the first choice with which no other loop of
    the object is slower, and passed_over has the reasons against those before it. new is the file's
    changed text; before and after are its objects. labels are those with a directive, numbers those
    of their loops in loops and in before. objtool has the messages of the last build.
    """

    tree: Tree
    overlay: Overlay
    isa: str
    function: str
    file: str
    loops: Sequence[ScannedLoop]
    choices: Sequence[Mapping[int, int]]
    cores: Sequence[Microarch]
    taken: int = 0
    passed_over: list[str] = field(default_factory=list)
    new: str = ""
    objtool: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    before: Built = field(init=False)
    after: Built = field(init=False)
    _build: Build = field(init=False)

    @property
    def alignments(self) -> Mapping[int, int]:
        """The alignments taken, by the loops' numbers."""
        return self.choices[self.taken]

    @property
    def matched(self) -> dict[int, int]:
        """The number in after of each loop in before that still exists."""
        return builds.common(self.before.loops, self.after.loops)

    @property
    def object(self) -> str:
        """The path of the object in a build folder."""
        return object_tier.object_of(self.file)

    def checks(self) -> Tier:
        """Yield the checks in their order; the first failure ends them."""
        for name, run in (
            ("prepare", self._prepare),
            ("find the loop", self._find),
            ("build", self._change),
            ("same instructions", self._same),
            ("code offset", self._place),
            ("other loops", self._others),
        ):
            if not (yield Check(name, run)):
                return

    def _prepare(self) -> str:
        self.overlay.put({})
        self._build = object_tier.prepare(self.overlay, self.isa)
        self.before = self._made(self.tree.read(self.file))
        return f"{self.object} of {self.tree}, {len(self.before.loops)} loops"

    def _made(self, text: str) -> Built:
        """Build the object of the file with a text, and scan it."""
        changed = text != self.tree.read(self.file)
        self.overlay.put({self.file: text} if changed else {})
        self.objtool = object_tier.build_anew(self._build, [self.object])
        image = images.read_image(self._build.folder / self.object)
        loops = find_loops(image).loops
        return Built(image.sections, loops, cost(loops, self.cores))

    def _find(self) -> str:
        """Find the requested loops in the object, and the label of each in the file."""
        text = self.tree.read(self.file)
        file_labels = labels(text)
        sections = self._made(marked(text, file_labels)).sections
        numbers = find_again(self.loops, self.function, self.before.sections, self.before.loops)
        for scanned in self.alignments:
            if scanned not in numbers:
                where = self.loops[scanned].where
                raise CheckError(f"the tree's {self.function} has no loop like {where}")
            loop = self.before.loops[numbers[scanned]]
            label = at_head(sections, file_labels, loop)
            if label is None:
                raise CheckError(
                    f"the loop at {loop.where} has no label of its own in {self.file}: it comes "
                    "from a macro, which is for you to change"
                )
            self.labels.append(label)
            self.numbers.append((scanned, numbers[scanned]))
        return ", ".join(f"{label.name} in line {label.line}" for label in self.labels)

    def _change(self) -> str:
        """Build the file with the first choice that slows no other loop, else with the first."""
        for choice in range(len(self.choices)):
            self.taken = choice
            self._align()
            if not (worse := self._worse()):
                break
            bytes_ = ", ".join(map(str, self.alignments.values()))
            self.passed_over.append(f"aligned to {bytes_}, {worse}")
        else:
            self.taken = 0
            self._align()
            self.passed_over = []
        growth = [
            len(b.code) - len(a.code)
            for a, b in zip(self.before.sections, self.after.sections, strict=True)
        ]
        summary = f"{self.object} without a word of the assembler, {sum(growth):+d} bytes"
        return "; ".join([summary, *self.passed_over])

    def _align(self) -> None:
        """Build the file with the choice taken."""
        text = self.tree.read(self.file)
        chosen = zip(self.labels, self.numbers, strict=True)
        for label, (scanned, _) in sorted(chosen, key=lambda pair: -pair[0].at):
            text = aligned(text, label, self.alignments[scanned])
        self._rebuild(text)

    def _rebuild(self, text: str) -> None:
        """Build the file with a new text; CheckError for new messages of the build."""
        messages_before, self.new = self.objtool, text
        self.after = self._made(text)
        if self.objtool and self.objtool != messages_before:
            raise CheckError(self.objtool[0].strip(), (), "\n".join(self.objtool))

    def _same(self) -> str:
        """Check that all instructions are unchanged, apart from nops and alignment."""
        count = 0
        for a, b in zip(self.before.sections, self.after.sections, strict=True):
            shape_before, shape_after = (
                binary_loops.shape_of_code(section.isa, section.code) for section in (a, b)
            )
            if shape_before != shape_after:
                raise CheckError(f"section {a.name} of {self.object} has other instructions")
            count += len(shape_before)
        return f"{count} instructions are as they were, but for nops"

    def _place(self) -> str:
        """Check that each loop has its alignment, is nowhere slower, and somewhere faster."""
        numbers = self.matched
        texts: list[str] = []
        for scanned, n in self.numbers:
            to, moved = self.alignments[scanned], self.after.offsets(numbers[n])
            if any(offset % to for offset in moved):
                raise CheckError(f"{self.before.loops[n].where} is still at {moved} mod {LINE}")
            faster = False
            for number, core in enumerate(self.cores):
                old_cycles = max(self.before.cycles(number, n))
                new_cycles = max(self.after.cycles(number, numbers[n]))
                if costs_more(new_cycles, old_cycles):
                    raise CheckError(
                        f"{core.id}: up to {new_cycles:.2f} cycles, {old_cycles:.2f} before"
                    )
                faster |= MOST_LOSS * new_cycles < old_cycles
                if not isnan(old_cycles):
                    texts.append(f"{core.id} {old_cycles:.2f} -> {new_cycles:.2f}")
            if not faster:
                where = self.before.loops[n].where
                raise CheckError(
                    f"{where} of the tree's own object is hurt at no code offset that it may have: "
                    f"{', '.join(texts)}"
                )
        return f"cycles an iteration at the worst code offset: {', '.join(texts)}"

    def _others(self) -> str:
        """Check that no other loop of the object is slower, at worst or on average."""
        if worse := self._worse():
            raise CheckError(worse)
        others = len(self.matched) - len(self.numbers)
        if not others:
            return f"{self.object} has no other loop"
        which = "loop takes" if others == 1 else "loops take"
        return f"{others} other {which} no longer on any core"

    def _worse(self) -> str:
        """Return the first other loop that is gone or slower, with its core, or ""."""
        aligned_loops = {n for _, n in self.numbers}
        numbers = self.matched
        for n, loop in enumerate(self.before.loops):
            if n not in numbers:
                return f"{loop.where} is not a loop of the object any more"
            if n in aligned_loops:
                continue
            for number, core in enumerate(self.cores):
                was, now = self.before.cycles(number, n), self.after.cycles(number, numbers[n])
                if any(costs_more(f(now), f(was)) for f in (max, mean)):
                    average = f"{mean(was):.2f} and {mean(now):.2f} on average"
                    return (
                        f"{loop.where} gets slower on {core.id}: {spread(was)} cycles an iteration "
                        f"before, {spread(now)} after, {average}"
                    )
        return ""


def spread(values: Sequence[float]) -> str:
    """Format a loop's cycles at several offsets, e.g. 1.00 to 2.00, or 1.00 if all are alike."""
    if max(values) - min(values) < 0.005:
        return f"{max(values):.2f}"
    return f"{min(values):.2f} to {max(values):.2f}"


_TABLE_HEAD = ("core", "there", "best", "before", "patched")


def patch_body(
    patched: PatchedFile, fix_of: Mapping[int, Fix], binary: Path, proven: Sequence[str]
) -> str:
    """Return the message's paragraphs.

    fix_of has the fixes of the file's loops by number, binary is the file in which they are hurt,
    proven are the results of the checks of the object.
    """
    parts = []
    for label, (scanned, n) in zip(patched.labels, patched.numbers, strict=True):
        fix, once = fix_of[scanned], patched.before.falls_in(n)
        nops = "nops that are run once before the loop" if once else "never run"
        parts.append(wrap(_reason(patched, scanned, label.name, fix, nops, binary.name)))
        parts.append(_cycles_table(patched, n, fix))
    parts.append(
        wrap(
            "There: cycles an iteration in that file; best: at the best code offset; before and "
            f"patched: at the code offsets that a linker may give {patched.object}, with data in "
            f"the L1 cache. Predicted by {Pipeline().version()}, not measured on hardware."
        )
    )
    summary = f"{patched.object}, built by defconfig before and after: {'; '.join(proven)}."
    skipped = [f"With loops {why}." for why in patched.passed_over]
    parts.append(wrap(" ".join([summary, *skipped])))
    return "\n\n".join(parts)


def _reason(patched: PatchedFile, number: int, label: str, fix: Fix, nops: str, binary: str) -> str:
    candidate = fix.candidate
    assert candidate  # of others no patch is made
    loop = patched.loops[number]
    hurt = [effect for effect in fix.effects.values() if effect.hurt]
    cores = [microarchs.load(core).name for core, e in fix.effects.items() if e.hurt]
    return (
        f"The loop of {patched.function}() at {label} ({loop.length} bytes) lies at code offset "
        f"{loop.offset} (its address mod 64) in {binary}. Lying there it takes "
        f"{spread([e.now for e in hurt])} cycles an iteration on {', '.join(cores)}; at its best "
        f"code offset {spread([e.best for e in hurt])}. Align it to {candidate.alignment} bytes, "
        f"after which no code offset hurts it: {_bytes_text(candidate)}, {nops}."
    )


def _bytes_text(candidate: Candidate) -> str:
    if candidate.expected == candidate.most:
        return f"{candidate.most} bytes more"
    return f"{candidate.expected:.0f} bytes more are expected, {candidate.most} at most"


def _cycles_table(patched: PatchedFile, number: int, fix: Fix) -> str:
    after = patched.matched[number]
    rows = []
    for at, core in enumerate(patched.cores):
        if core.id in fix.effects:
            effect = fix.effects[core.id]
            before, now = patched.before.cycles(at, number), patched.after.cycles(at, after)
            there, best = f"{effect.now:.2f}", f"{effect.best:.2f}"
            rows.append([core.id, there, best, spread(before), spread(now)])
    return message.aligned(_TABLE_HEAD, rows, left=len(_TABLE_HEAD))


# The kernel's own tests of its ciphers and hashes, which run at boot.
_CRYPTO = ("-e CRYPTO_MANAGER", "-d CRYPTO_MANAGER_DISABLE_TESTS")
# Messages of a failing test, and of any other problem in a kernel.
_FAILURE = re.compile(
    r"\balg: .*(?:fail|unexpected|wrong|overran|mismatch).*|\bWARNING: .*|\bBUG: .*"
)


@dataclass
class Booted:
    """The kernel of a patch, built and booted: the addresses and executions of its loops.

    loops are those of the kernel, in the order of patched.labels; ran has by machine how often an
    iteration of each began with a jump.
    """

    patched: PatchedFile
    loops: list[ScannedLoop] = field(default_factory=list)
    ran: dict[Machine, Counter[int]] = field(default_factory=dict)

    def checks(self) -> Tier:
        """Yield the checks: the build, the loops' places in it, each machine, the executions."""
        patched = self.patched
        suites = boot_tier.suites_of_small_kernel(patched.tree, patched.isa, self._names())
        options = [*self._options()]
        kernel = Kernel(
            patched.overlay, patched.isa, {patched.file: patched.new}, suites, options, _FAILURE
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
        patched = self.patched
        loops = [patched.before.loops[n] for _, n in patched.numbers]
        (section_name,) = {loop.section for loop in loops}
        starts = {loop.address - loop.into for loop in loops}
        names = {
            symbol.name
            for section in patched.before.sections
            if section.name == section_name
            for symbol in section.symbols
            if symbol.address in starts
        }
        return {re.sub(r"^(?:__pi_)?_*", "", name) for name in {*names, patched.function}}

    def _options(self) -> Iterator[str]:
        """Yield the options that build the patched file and the kernel's own tests of it."""
        names = build.options_of_source(self.patched.tree, self.patched.isa, self.patched.file)
        yield from (f"-e {name}" for name in names)
        if "CRYPTO" in names:
            yield from _CRYPTO

    def _place(self, folder: Path) -> str:
        """Check that the loops in the linked kernel are aligned, and no slower there."""
        patched = self.patched
        image = images.read_image(folder / "vmlinux")
        loops = find_loops(image).loops
        object_loops = [patched.before.loops[n] for _, n in patched.numbers]
        numbers = find_again(object_loops, patched.function, image.sections, loops)
        if missing := [label.name for n, label in enumerate(patched.labels) if n not in numbers]:
            raise NotProven(f"a small kernel of this tree has no loop at {', '.join(missing)}")
        self.loops = [loops[numbers[n]] for n in range(len(object_loops))]
        texts = []
        costs = cost(self.loops, patched.cores)
        for n, (scanned, before) in enumerate(patched.numbers):
            loop, label, to = self.loops[n], patched.labels[n], patched.alignments[scanned]
            if loop.address % to:
                raise CheckError(f"{label.name} is at {loop.address:#x}, no multiple of {to}")
            cycles = []
            for number, on_core in enumerate(costs):
                cycles_here = on_core.cycles[n]
                largest = max(patched.after.cycles(number, patched.matched[before]))
                if costs_more(cycles_here, largest):
                    raise CheckError(
                        f"{label.name} takes {cycles_here:.2f} cycles on {on_core.core.id} in "
                        f"the linked kernel, {largest:.2f} at most in its object"
                    )
                if not isnan(cycles_here):
                    cycles.append(f"{on_core.core.id} {cycles_here:.2f}")
            texts.append(f"{label.name} at {loop.address:#x}: {', '.join(cycles)}")
        return "; ".join(texts)

    def _ran(self) -> str:
        """Check that each loop was executed on some machine."""
        total = sum(self.ran.values(), Counter())
        idle = [
            label.name
            for label, loop in zip(self.patched.labels, self.loops, strict=True)
            if not total[loop.address]
        ]
        if idle:
            raise NotProven(f"nothing that these guests did has run the loop at {', '.join(idle)}")
        return "; ".join(
            f"{label.name} {total[loop.address]:,} times"
            for label, loop in zip(self.patched.labels, self.loops, strict=True)
        )


def boot_text(booted: Booted, rows: Sequence[Row]) -> str:
    """Return the paragraphs on the build, the places of the loops, and each machine's runs."""
    results = {str(row["check"]): str(row["what"]) for row in rows if row["status"] == PASS}
    patched = booted.patched
    if not booted.ran:
        return wrap("No kernel was booted with it; see below.")
    kernel = (
        f"Booted under {boot_tier.qemu_version(patched.isa)}, which proves what code does and not "
        f"how fast: {results['kernel']}, with {results['code offset in the kernel']} cycles an "
        "iteration there. Below: how often the loop's first byte was jumped to; the kernel's own "
        "tests; read(), write() and epoll_wait() with memory that ends at every position."
    )
    return f"{wrap(kernel)}\n\n{_boot_table(booted, results)}"


def boots_left(booted: Booted | None, rows: Sequence[Row]) -> list[str]:
    """Return the points that the booted kernel left unproven."""
    if booted is None:
        return ["a whole kernel built, booted and scanned again"]
    unproven = [row for row in rows if row["status"] == NOT_PROVEN]
    others = "what loops take elsewhere in a kernel, where other code moves with this"
    return [others, *(f"{row['check']}: {row['what']}" for row in unproven)]


def _boot_table(booted: Booted, results: Mapping[str, str]) -> str:
    names = [label.name for label in booted.patched.labels]
    head = ["machine", *(f"{name} ran" for name in names), "KUnit", "system calls"]
    rows = []
    for machine, counts in booted.ran.items():
        if f"boot: {machine.name}" in results:
            times = (f"{counts[loop.address]:,}" for loop in booted.loops)
            tests, calls = (_sum_of_counts(kind, machine, results) for kind in ("KUnit ", "sweep "))
            passed = (f"{tests} pass", f"{calls:,} as they must")
            rows.append([machine.name, *times, *passed])
    return message.aligned(head, rows, left=len(head))


def _sum_of_counts(kind: str, machine: Machine, results: Mapping[str, str]) -> int:
    """Return the sum of the counts that begin the results of one kind of check on a machine."""
    return sum(
        int(match[1])
        for check, what in results.items()
        if check.startswith(kind) and check.endswith(f": {machine.name}")
        if (match := re.match(r"(?:pass:)?(\d+)", what))
    )


OBJECT, BOOT = TIERS = ("object", "boot")
_QUOTED_CHECKS = ("same instructions", "other loops")  # checks whose results the message quotes


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
    source = trees.named(tree, whole=True)
    trees.refuse_inside(source, out)
    isa = scan.image.isa
    verify.require(isa, tier)
    file = assembly_source(source, isa, function)
    numbers = inside(scan.image.sections, scan.found.loops, function)
    loops = [scan.found.loops[n] for n in numbers]
    cores = [on_core.core for on_core in scan.costs]
    fixes_of = [
        {at: choice[n] for at, n in enumerate(numbers) if n in choice} for choice in choices
    ]
    alignments = [
        {at: c.alignment for at, fix in choice.items() if (c := fix.candidate)}
        for choice in fixes_of
    ]
    with hold(source) as overlay:
        patched = PatchedFile(source, overlay, isa, function, file, loops, alignments, cores)
        booted = Booted(patched) if tier == BOOT else None
        again = _command(scan, function, tree, out, tier)
        rows = outcomes(patched.checks(), function, OBJECT, again, on_check)
        if booted and rows[-1]["status"] == PASS:
            rows += outcomes(booted.checks(), function, BOOT, again, on_check)
        overlay.put({})
    if any(row["status"] == FAIL for row in rows):
        return LoopPatch(None, tuple(rows), ())
    author = identity or user_identity(source.root)
    provenance, warning = trees.made_against(source, [file])
    notes = [note for note in ("" if author else UNSIGNED, warning) if note]
    what = "a loop" if len(patched.labels) == 1 else f"{len(patched.labels)} loops"
    subject = f"{prefix(file)}: Align {what} of {function}()"
    proven = [str(row["what"]) for row in rows if row["check"] in _QUOTED_CHECKS]
    body = patch_body(patched, fixes_of[patched.taken], scan.image.path, proven)
    if booted:
        body += "\n\n" + boot_text(booted, rows)
    trailer = [f"Signed-off-by: {author}"] if author else []
    text = "\n".join([subject, "", body, "", *trailer]).rstrip() + "\n"
    change = Change(file, source.read(file), patched.new)
    not_shown = "; ".join(("its speed on hardware", *boots_left(booted, rows)))
    below = "\n\n".join(map(wrap, (provenance, *notes, f"Not shown: {not_shown}.")))
    mail = Mail((change,), text, below, author, rfc=False)
    kept, _ = mail.keep(source, out, f"scan-{function}")
    return LoopPatch(kept, tuple(rows), tuple(notes))


def _choices(scan: Scan, function: str) -> list[Mapping[int, Fix]]:
    """Return alignments that fix each hurt loop of a function, by its number, the smallest first.

    A larger alignment with the same effect is a further choice.
    """
    numbers = inside(scan.image.sections, scan.found.loops, function)
    path = scan.image.path
    if not numbers:
        raise InputError(f"{path} has no loop in a function {function!r}; scan it for their names")
    by_alignment = [_alignment_fixes(scan, numbers, least) for least in fixes.ALIGNMENTS]
    hurt = by_alignment[0]
    cores = ", ".join(on_core.core.id for on_core in scan.costs)
    if not hurt:
        raise InputError(f"no loop of {function} in {path} is hurt by its code offset on {cores}")
    choices: list[Mapping[int, Fix]] = []
    for fix_of in by_alignment:
        choice = {n: fix for n, fix in fix_of.items() if fix.candidate}
        if choice not in choices and (not choices or choice.keys() == choices[0].keys()):
            choices.append(choice)
    if not choices[0]:
        notes = "; ".join(dict.fromkeys(fix.note for fix in hurt.values()))
        raise InputError(f"no alignment fixes the loops of {function} in {path}: {notes}")
    return choices


def _alignment_fixes(scan: Scan, numbers: Sequence[int], least: int) -> dict[int, Fix]:
    """Return the fix of each hurt loop among some by an alignment of at least `least` bytes."""
    starts = costs.start_alignments(scan.image)
    all_fixes = fixes.find_fixes(
        scan.found.loops, scan.costs, starts, kinds=("align",), only=set(numbers), least=least
    )
    not_hurt = ("", fixes.NOT_NEEDED)
    return {n: all_fixes[n] for n in numbers if all_fixes[n].words not in not_hurt}


def _command(scan: Scan, function: str, tree: str, out: Path, tier: str) -> str:
    """Return the command that repeats the checks."""
    cores = ",".join(on_core.core.id for on_core in scan.costs)
    return shlex.join(
        ["loopwright", "scan", str(scan.image.path), "--patch", function, "--tree", tree,
         "-o", str(out), "--microarch", cores, "--verify", tier]
    )  # fmt: skip
