"""A patch that aligns loops, booted: the tree's kernel with it, the loops found in it, and run."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from loopwright.scanning import assembly, compare, images
from loopwright.scanning.costs import cost
from loopwright.scanning.find import find
from loopwright.scanning.found import ScannedLoop
from loopwright.scanning.mends import costs_more
from loopwright.scanning.realigned import Work
from loopwright.tree.verify import kunit, options, ran
from loopwright.tree.verify.boot import Kernel
from loopwright.tree.verify.machines import Machine
from loopwright.tree.verify.outcomes import Check, CheckError, NotProven, Tier

# The kernel's own tests of its ciphers and hashes, which are run when it boots.
_CRYPTO = ("-e CRYPTO_MANAGER", "-d CRYPTO_MANAGER_DISABLE_TESTS")
# What those say where one fails, and any part of a kernel that finds something wrong.
_FAILS = re.compile(
    r"\balg: .*(?:fail|unexpected|wrong|overran|mismatch).*|\bWARNING: .*|\bBUG: .*"
)


@dataclass
class Booted:
    """The kernel of a patch, as it is built and booted: where its loops lie there, what ran.

    loops are the patch's, in the order of work.labels; ran says by machine how often an iteration
    of each began with a jump.
    """

    work: Work
    loops: list[ScannedLoop] = field(default_factory=list)
    ran: dict[Machine, Counter[int]] = field(default_factory=dict)

    def checks(self) -> Tier:
        """Yield the checks: a build, the loops' places in it, each machine, and what ran there."""
        work = self.work
        suites = kunit.small(work.tree, work.isa, self._names())
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
                watched = ran.watching(log, [loop.address for loop in self.loops])
                yield from kernel.boot(machine, watched)
                self.ran[machine] = ran.counted(log)
                log.unlink(missing_ok=True)
        yield Check("loops that ran", self._ran)

    def _names(self) -> set[str]:
        """Return the names by which C calls the function."""
        work = self.work
        (section,) = {self.work.before.loops[n].section for _, n in work.numbers}
        starts = {x.address - x.into for x in (work.before.loops[n] for _, n in work.numbers)}
        found = {
            symbol.name
            for one in work.before.sections
            if one.name == section
            for symbol in one.symbols
            if symbol.address in starts
        }
        return {re.sub(r"^(?:__pi_)?_*", "", name) for name in {*found, work.function}}

    def _options(self) -> Iterator[str]:
        """Yield what has the patched file built, and the kernel's own tests of it."""
        names = options.of_source(self.work.tree, self.work.isa, self.work.file)
        yield from (f"-e {name}" for name in names)
        if "CRYPTO" in names:
            yield from _CRYPTO

    def _place(self, folder: Path) -> str:
        """Find the loops in the linked kernel, at the places wished for and no slower there."""
        work = self.work
        image = images.read(folder / "vmlinux")
        loops = find(image).loops
        mine = [loops[n] for n in assembly.inside(image.sections, loops, work.function)]
        wanted = [work.before.loops[n] for _, n in work.numbers]
        pairs = compare.match(
            [assembly.anywhere(loop, work.function) for loop in wanted],
            [assembly.anywhere(loop, work.function) for loop in mine],
        )
        at = {pair.a: mine[pair.b] for pair in pairs if pair.a is not None and pair.b is not None}
        missing = [work.labels[n].name for n in range(len(wanted)) if n not in at]
        if missing:
            raise NotProven(f"a small kernel of this tree has no loop at {', '.join(missing)}")
        self.loops = [at[n] for n in range(len(wanted))]
        said = []
        costs = cost(self.loops, work.cores)
        for n, ((wish, before), label) in enumerate(zip(work.numbers, work.labels, strict=True)):
            loop, to = self.loops[n], work.wishes[wish]
            if loop.address % to:
                raise CheckError(f"{label.name} is at {loop.address:#x}, no multiple of {to}")
            cycles = []
            for core, one in enumerate(costs):
                then, most = (
                    float(one.cycles[n]),
                    max(work.after.cycles(core, work.matched[before])),
                )
                if costs_more(then, most):
                    raise CheckError(
                        f"{label.name} takes {then:.2f} cycles on {one.core.id} in the linked "
                        f"kernel, {most:.2f} at most in its object"
                    )
                cycles += [] if isnan(then) else [f"{one.core.id} {then:.2f}"]
            said.append(f"{label.name} at {loop.address:#x}: {', '.join(cycles)}")
        return "; ".join(said)

    def _ran(self) -> str:
        """Hold each loop to have been run somewhere."""
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
