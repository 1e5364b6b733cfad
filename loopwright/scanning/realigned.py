"""A loop of assembly aligned in a kernel tree: its object built before and after, and compared."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isnan
from statistics import mean

from loopwright.code import decode
from loopwright.code.elf import Section
from loopwright.code.instructions import Flow
from loopwright.cores.microarchs import Microarch
from loopwright.errors import InputError
from loopwright.scanning import compare, images, labels, shapes, starts
from loopwright.scanning.costs import CoreCosts, cost
from loopwright.scanning.find import find
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.labels import Label
from loopwright.scanning.mends import LOSS, costs_more
from loopwright.scanning.places import LINE
from loopwright.tree import search
from loopwright.tree.c_text import blank_comments
from loopwright.tree.sources import Tree
from loopwright.tree.verify import objects, units
from loopwright.tree.verify.building import Build
from loopwright.tree.verify.outcomes import Check, CheckError, Tier
from loopwright.tree.verify.overlay import Overlay

_STARTS = r"^[ \t]*(?:(?:SYM_\w*START\w*|ENTRY)\(\s*{0}\s*\)|SYM_\w*ALIAS\w*\(\s*{0}\s*,)"


@dataclass(frozen=True)
class Built:
    """An object of a tree: its code, its loops, and what they cost."""

    sections: tuple[Section, ...]
    loops: list[ScannedLoop]
    costs: list[CoreCosts]

    def places(self, n: int) -> list[int]:
        """Return the code offsets at which a linker may put a loop."""
        loop = self.loops[n]
        return starts.shifted(loop.address, starts.linked(self._section(loop)))

    def falls_in(self, n: int) -> bool:
        """Say whether control falls into a loop from what stands before it, nops aside."""
        loop = self.loops[n]
        section = self._section(loop)
        start = loop.address - loop.into
        before = decode.decode(loop.isa, section.bytes_of(start, loop.address), start)
        last = next((i for i in reversed(before) if not i.mnemonic.startswith("nop")), None)
        return last is None or last.flow in (Flow.NEXT, Flow.BRANCH, Flow.CALL)

    def _section(self, loop: ScannedLoop) -> Section:
        (section,) = (s for s in self.sections if s.name == loop.section)
        return section

    def cycles(self, core: int, n: int) -> list[float]:
        """Return what a loop takes at each of them."""
        return [float(self.costs[core].table[n][place]) for place in self.places(n)]


@dataclass
class Work:
    """An assembly file of a tree in which loops of a function are aligned.

    loops are those of the function as they were scanned, wishes says what some of them are to be
    aligned to, by number. new is the file's text then, before and after are its objects; labels are
    those that got a directive, numbers those of its loop among loops and in before.
    """

    tree: Tree
    overlay: Overlay
    isa: str
    function: str
    file: str
    loops: Sequence[ScannedLoop]
    wishes: Mapping[int, int]
    cores: Sequence[Microarch]
    new: str = ""
    objtool: list[str] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    numbers: list[tuple[int, int]] = field(default_factory=list)
    _built: list[Built] = field(default_factory=list)
    _build: list[Build] = field(default_factory=list)

    @property
    def before(self) -> Built:
        """Return the object as the tree has it."""
        return self._built[0]

    @property
    def after(self) -> Built:
        """Return the object of the changed file."""
        return self._built[1]

    @cached_property
    def matched(self) -> dict[int, int]:
        """Return the number in after of each loop in before that is still there."""
        pairs = compare.match(self.before.loops, self.after.loops)
        return {p.a: p.b for p in pairs if p.a is not None and p.b is not None}

    @property
    def object(self) -> str:
        """Return the path of the object in a build folder."""
        return units.object_of(self.file)

    def checks(self) -> Tier:
        """Yield the checks in the order in which they can be run; the first failure ends them."""
        for name, run in (
            ("prepare", self._prepare),
            ("find the loop", self._find),
            ("build", self._change),
            ("same instructions", self._same),
            ("place", self._place),
            ("other loops", self._others),
        ):
            if not (yield Check(name, run)):
                return

    def _prepare(self) -> str:
        self.overlay.put({})
        self._build.append(objects.prepare(self.overlay, self.isa))
        self._built.append(self._made(self.tree.read(self.file)))
        return f"{self.object} of {self.tree}, {len(self.before.loops)} loops"

    def _made(self, text: str) -> Built:
        """Build the object of the file with a text, and scan it."""
        own = text != self.tree.read(self.file)
        self.overlay.put({self.file: text} if own else {})
        self.objtool = objects.build_anew(self._build[0], [self.object])
        image = images.read(self._build[0].folder / self.object)
        loops = find(image).loops
        return Built(image.sections, loops, cost(loops, self.cores))

    def _find(self) -> str:
        """Find the loops asked for in the object, and the label that each has in the file."""
        text = self.tree.read(self.file)
        found = labels.labels(text)
        sections = self._made(labels.marked(text, found)).sections
        mine = set(inside(self.before.sections, self.before.loops, self.function))
        pairs = compare.match(
            [_anywhere(x, self.function) for x in self.loops],
            [_anywhere(x, self.function * (n in mine)) for n, x in enumerate(self.before.loops)],
        )
        new = text
        for pair in pairs:
            if pair.a is None or pair.a not in self.wishes:
                continue
            if pair.b is None:
                where = self.loops[pair.a].where
                raise CheckError(f"the tree's {self.function} has no loop like {where}")
            loop = self.before.loops[pair.b]
            label = labels.at_head(sections, found, loop)
            if label is None:
                raise CheckError(
                    f"the loop at {loop.where} has no label of its own in {self.file}: it comes "
                    "from a macro, which is for you to change"
                )
            self.labels.append(label)
            self.numbers.append((pair.a, pair.b))
        chosen = zip(self.labels, self.numbers, strict=True)
        for label, (wish, _) in sorted(chosen, key=lambda pair: -pair[0].at):
            new = labels.aligned(new, label, self.wishes[wish])
        self.new = new
        return ", ".join(f"{label.name} in line {label.line}" for label in self.labels)

    def _change(self) -> str:
        had = self.objtool
        self._built.append(self._made(self.new))
        if self.objtool and self.objtool != had:
            raise CheckError(self.objtool[0].strip(), (), "\n".join(self.objtool))
        more = [
            len(b.code) - len(a.code)
            for a, b in zip(self.before.sections, self.after.sections, strict=True)
        ]
        return f"{self.object} without a word of the assembler, {sum(more):+d} bytes"

    def _same(self) -> str:
        """Hold all instructions to what they were, but for nops and what is aligned behind them."""
        count = 0
        for a, b in zip(self.before.sections, self.after.sections, strict=True):
            was, now = (shapes.of_code(one.isa, one.code) for one in (a, b))
            if was != now:
                raise CheckError(f"section {a.name} of {self.object} has other instructions")
            count += len(was)
        return f"{count} instructions are as they were, but for nops"

    def _place(self) -> str:
        """Hold each loop to the places wished for, to be no slower there, and faster somewhere."""
        numbers = self.matched
        said: list[str] = []
        for wish, n in self.numbers:
            to, now = self.wishes[wish], self.after.places(numbers[n])
            if any(place % to for place in now):
                raise CheckError(f"{self.before.loops[n].where} is still at {now} mod {LINE}")
            faster = False
            for number, core in enumerate(self.cores):
                was = max(self.before.cycles(number, n))
                then = max(self.after.cycles(number, numbers[n]))
                if costs_more(then, was):
                    raise CheckError(f"{core.id}: up to {then:.2f} cycles, {was:.2f} before")
                faster |= LOSS * then < was
                if not isnan(was):
                    said.append(f"{core.id} {was:.2f} -> {then:.2f}")
            if not faster:
                where = self.before.loops[n].where
                raise CheckError(
                    f"{where} of the tree's own object is hurt at no place that it may have: "
                    f"{', '.join(said)}"
                )
        return f"cycles an iteration at the worst place: {', '.join(said)}"

    def _others(self) -> str:
        """Hold every other loop of the object to what it takes at its places, worst and mean."""
        mine = {n for _, n in self.numbers}
        numbers = self.matched
        for n, loop in enumerate(self.before.loops):
            if n not in numbers:
                raise CheckError(f"{loop.where} is no loop of the object any more")
            if n in mine:
                continue
            for number, core in enumerate(self.cores):
                was, now = self.before.cycles(number, n), self.after.cycles(number, numbers[n])
                worse = [costs_more(f(now), f(was)) for f in (max, mean)]
                if any(worse):
                    average = f"{mean(was):.2f} and {mean(now):.2f} on average"
                    raise CheckError(
                        f"{loop.where} gets slower on {core.id}: {spread(was)} cycles an iteration "
                        f"before, {spread(now)} after, {average}"
                    )
        others = len(numbers) - len(mine)
        if not others:
            return f"{self.object} has no other loop"
        which = "loop takes" if others == 1 else "loops take"
        return f"{others} other {which} no longer on any core"


def spread(values: Sequence[float]) -> str:
    """Say what a loop takes over several places: e.g. 1.00 to 2.00, or 1.00 where all are alike."""
    if max(values) - min(values) < 0.005:
        return f"{max(values):.2f}"
    return f"{min(values):.2f} to {max(values):.2f}"


def _anywhere(loop: ScannedLoop, function: str) -> ScannedLoop:
    """Return a loop as one of that function, whatever the file that it was found in."""
    return replace(loop, file="", section="", function=function)


def inside(sections: Sequence[Section], loops: Sequence[ScannedLoop], function: str) -> list[int]:
    """Return the numbers of the loops in a function, by any of the names that it has."""
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


def source(tree: Tree, isa: str, function: str) -> str:
    """Return the assembly file of a tree that defines a function; InputError where none does."""
    pattern = re.compile(_STARTS.format(re.escape(function)), re.MULTILINE)
    found = sorted(
        file
        for file in search.sources(tree, isa)
        if file.endswith(".S") and function in (text := _text(tree, file))
        if pattern.search(blank_comments(text))
    )
    if not found:
        raise InputError(
            f"no assembly file of {tree} defines {function}: patches are made of assembly; "
            "for C see what its row says to tell the compiler"
        )
    if len(found) > 1:
        raise InputError(f"{function} is defined in {', '.join(found)} of {tree}: which is meant?")
    return found[0]


def _text(tree: Tree, file: str) -> str:
    try:
        return (tree.root / file).read_text(encoding="utf-8", errors="replace")
    except OSError:  # a link that leads nowhere
        return ""
