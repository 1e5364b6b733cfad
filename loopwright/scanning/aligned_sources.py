"""Alignment of loops in a kernel tree's assembly sources, with objects before and after."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from statistics import mean

from loopwright.code import instructions
from loopwright.code.elf import Section
from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.linux import object_tier, trees
from loopwright.linux.build import Build, Overlay
from loopwright.linux.routines import blank_comments
from loopwright.linux.trees import Tree
from loopwright.linux.verification import Check, CheckError, Tier
from loopwright.microarchs import Microarch
from loopwright.scanning import binary_loops, builds, costs, images
from loopwright.scanning.binary_loops import ScannedLoop, find_loops, section_of
from loopwright.scanning.costs import LINE, CoreCosts, cost
from loopwright.scanning.fixes import MOST_LOSS, costs_more

# The name may be that of a macro, such as L(loop).
_LABEL = re.compile(r"(?m)^[ \t]*(?:[.\w$]+|\w+\([.\w]+\))[ \t]*:(?!:)")
_ALIGNED = re.compile(r"(?m)^[ \t]*\.(?:p2align|balign|align)\b[^\n;]*\n(?=[ \t]*\Z)")
_NAME = "loopwright_label_{}"
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
        text = f"{text[: label.at]}{_NAME.format(number)}:\n{text[label.at :]}"
    return text


def at_head(sections: Sequence[Section], marks: Sequence[Label], loop: ScannedLoop) -> Label | None:
    """Return the first label at a loop's first byte, by the symbols of marked text."""
    names = {_NAME.format(number): label for number, label in enumerate(marks)}
    here = [
        names[symbol.name]
        for section in sections
        if section.name == loop.section
        for symbol in section.symbols
        if symbol.address == loop.address and symbol.name in names
    ]
    return min(here, key=lambda label: label.at, default=None)


def aligned(text: str, label: Label, alignment: int) -> str:
    """Return the file with a label aligned, in place of an existing directive before it."""
    before, after = text[: label.at], text[label.at :]
    before = _ALIGNED.sub("", before)
    return f"{before}\t.p2align {alignment.bit_length() - 1}\n{after}"


_STARTS = r"^[ \t]*(?:(?:SYM_\w*START\w*|ENTRY)\(\s*{0}\s*\)|SYM_\w*ALIAS\w*\(\s*{0}\s*,)"


def inside(sections: Sequence[Section], loops: Sequence[ScannedLoop], function: str) -> list[int]:
    """Return the numbers of the loops in a function, by any of its names."""
    begin = {
        (section.file, section.name, symbol.address)
        for section in sections
        for symbol in section.symbols
        if symbol.name == function
    }
    return [
        n
        for n, loop in enumerate(loops)
        if loop.function == function
        or (loop.function and (loop.file, loop.section, loop.address - loop.into) in begin)
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
    starts = _STARTS.format(re.escape(function))
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
        return costs.shifted_offsets(loop.address, costs.linked(section_of(self.sections, loop)))

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
class Work:
    """An assembly file of a tree in which loops of a function are aligned.

    loops are those of the function as scanned; choices are alignments for some of them, by number,
    the smallest first: taken is the first with which no other loop of the object is slower, and
    passed_over has the reasons against those before it. new is the file's changed text, before and
    after are its objects; labels are those with a directive, numbers those of their loops in loops
    and in before.
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
    def wishes(self) -> Mapping[int, int]:
        """The alignment of loops, by number."""
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
        own = text != self.tree.read(self.file)
        self.overlay.put({self.file: text} if own else {})
        self.objtool = object_tier.build_anew(self._build, [self.object])
        image = images.read_image(self._build.folder / self.object)
        loops = find_loops(image).loops
        return Built(image.sections, loops, cost(loops, self.cores))

    def _find(self) -> str:
        """Find the requested loops in the object, and the label of each in the file."""
        text = self.tree.read(self.file)
        file_labels = labels(text)
        sections = self._made(marked(text, file_labels)).sections
        here = find_again(self.loops, self.function, self.before.sections, self.before.loops)
        for wish in self.wishes:
            if wish not in here:
                where = self.loops[wish].where
                raise CheckError(f"the tree's {self.function} has no loop like {where}")
            loop = self.before.loops[here[wish]]
            label = at_head(sections, file_labels, loop)
            if label is None:
                raise CheckError(
                    f"the loop at {loop.where} has no label of its own in {self.file}: it comes "
                    "from a macro, which is for you to change"
                )
            self.labels.append(label)
            self.numbers.append((wish, here[wish]))
        return ", ".join(f"{label.name} in line {label.line}" for label in self.labels)

    def _change(self) -> str:
        """Build the file with the first choice that slows no other loop, else with the first."""
        for choice in range(len(self.choices)):
            self.taken = choice
            self._align()
            if not (worse := self._worse()):
                break
            bytes_ = ", ".join(map(str, self.wishes.values()))
            self.passed_over.append(f"aligned to {bytes_}, {worse}")
        else:
            self.taken = 0
            self._align()
            self.passed_over = []
        more = [
            len(b.code) - len(a.code)
            for a, b in zip(self.before.sections, self.after.sections, strict=True)
        ]
        summary = f"{self.object} without a word of the assembler, {sum(more):+d} bytes"
        return "; ".join([summary, *self.passed_over])

    def _align(self) -> None:
        """Build the file with the choice taken."""
        text = self.tree.read(self.file)
        chosen = zip(self.labels, self.numbers, strict=True)
        for label, (wish, _) in sorted(chosen, key=lambda pair: -pair[0].at):
            text = aligned(text, label, self.wishes[wish])
        self._rebuild(text)

    def _rebuild(self, text: str) -> None:
        """Build the file with a new text; CheckError for new messages of the build."""
        had, self.new = self.objtool, text
        self.after = self._made(text)
        if self.objtool and self.objtool != had:
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
        for wish, n in self.numbers:
            to, moved = self.wishes[wish], self.after.offsets(numbers[n])
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
