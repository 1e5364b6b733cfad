"""The request for a report, and the commands that give its numbers again."""

import shlex
from dataclasses import dataclass

from loopwright import kernels, microarchs
from loopwright.judging.study import MEASURED
from loopwright.kernels import Kernel


def cores_of(kernel: Kernel, microarch: str | None) -> str | None:
    """Return the cores of a kernel's ISA among those asked for; all where none is of it."""
    if microarch in (None, "all"):
        return microarch
    mine = [core.id for core in microarchs.select(microarch) if core.isa == kernel.isa]
    return ",".join(mine) or microarch


@dataclass(frozen=True)
class Asked:
    """The arguments of loopwright report. linux describes the tree ("" where there is none)."""

    kernels: tuple[str, ...]
    sizes: str | None
    quick: bool
    microarch: str | None
    linux: str
    tree: str | None

    def report(self) -> str:
        """Return the command that writes the report again."""
        parts = ["loopwright report", *self.kernels, "-o out", *self._common()]
        if self.linux:
            parts.append(f"--patch{self._tree()}")
        return " ".join(parts)

    def recommend(self, kernel: str) -> str:
        """Return the command for a recommendation."""
        if self.linux:
            parts = [f"loopwright report {kernel} -o out", *self._common(kernel), "--patch"]
            return " ".join(parts) + self._tree()
        return " ".join([f"loopwright recommend {kernel}", *self._common(kernel)])

    def figure(self, kernel: str, variant: str, core: str, source: str, place: str = "") -> str:
        """Return the command for cycles of a variant by a source; place is its code offset."""
        if kernels.is_own_code(variant):
            tree = shlex.quote(self.tree or "debian:6.12")
            return f"loopwright baseline {kernel} --tree {tree}"
        if source == MEASURED:
            return f"loopwright measure {kernel}/{variant}"
        where = f" --offset {place}" if place else ""
        return f"loopwright predict {kernel}/{variant} --microarch {core} --model {source}{where}"

    def _common(self, kernel: str = "") -> list[str]:
        out = [f"--sizes {shlex.quote(self.sizes)}"] if self.sizes else []
        cores = cores_of(kernels.load(kernel), self.microarch) if kernel else self.microarch
        out += [f"--microarch {shlex.quote(cores)}"] if cores else []
        return [*out, "--no-measure"] if self.quick else out

    def _tree(self) -> str:
        return f" --tree {shlex.quote(self.tree)}" if self.tree else ""
