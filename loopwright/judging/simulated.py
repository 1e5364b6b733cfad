"""What the simulator says of whole calls on a core, as far as it can be believed there."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from loopwright import microarchs
from loopwright.code import assemble, binding
from loopwright.histogram import Histogram
from loopwright.judging import standing, unknowns
from loopwright.judging.margins import Margins, Speed
from loopwright.judging.opinions import LEAST
from loopwright.judging.ranks import Rank
from loopwright.judging.standing import Standing
from loopwright.microarchs import Microarch
from loopwright.predicting import forms
from loopwright.predicting.models import SIMULATOR

_COMPILERS = ("llvm-19",)  # sources that are models, not measurements
_HARDLY = 0.005  # of a speed
_LISTED = 16  # code offsets that are named one by one, at most


@dataclass(frozen=True)
class Trust:
    """How far the simulator's whole calls are to be believed on a core."""

    rank: Rank
    standing: Standing

    @property
    def doubt(self) -> float:
        """Return the difference, relative, up to which a speed tells nothing."""
        return max(LEAST, (self.standing.error_percent or 0.0) / 100)


def trust(core: Microarch, known: pd.DataFrame, *, strings: bool = False) -> Trust | None:
    """Return how far the simulator's whole calls are right on a core; None: not at all.

    strings asks about calls that move their data by string instructions, whose error is their own.
    """
    held = standing.of(SIMULATOR, core.id, "strings" if strings else "call", known)
    if held.validated:
        return Trust(Rank.SIMULATED, held)
    if strings and held.wrong:
        return Trust(Rank.BOUNDED, held)
    bound = None if held.wrong else standing.bounded(SIMULATOR, core.id, known)
    return Trust(Rank.BOUNDED, bound) if bound else None


@dataclass(frozen=True)
class Simulated:
    """Whole calls of a variant against another on a core, simulated over all that is not known.

    low to high is what the speed is between by that alone; what the simulator may be off by comes
    on top of it.
    """

    margins: Margins
    trust: Trust
    variant: str
    against: str
    sizes: Histogram | None

    @cached_property
    def speed(self) -> Speed:
        """Return the speed over all sizes."""
        return self.margins.over(self.variant, self.against, self.sizes)

    @property
    def gain(self) -> bool:
        """Say whether it is faster whatever the unknown is, by more than the error."""
        return self.speed.low > 1 + self.trust.doubt

    @property
    def loss(self) -> bool:
        """Say whether it may be slower and can be no faster; it takes no proof to be careful."""
        return self.speed.low < 1 - LEAST and self.speed.high <= 1 + LEAST

    @property
    def open(self) -> bool:
        """Say whether the unknown decides if it is faster or slower."""
        return self.speed.low < 1 - LEAST and self.speed.high > 1 + LEAST

    @property
    def unknown(self) -> list[str]:
        """Return the unmeasured parameters that the speed depends on, the first moves it most.

        Those that hardly move it are left out, unless there are no others.
        """
        moves = self.margins.moves(self.variant, self.against, self.sizes)
        return [name for name, moved in moves.items() if moved > _HARDLY] or [*moves]

    @property
    def varied(self) -> list[str]:
        """Return the unmeasured parameters whose other values were tried."""
        return [one.name for one in self.margins.unmeasured.varied]

    @property
    def assumptions(self) -> str:
        """Say what the speed depends on of all that was varied, and what was not varied."""
        core, unmeasured = self.margins.core.id, self.margins.unmeasured
        if self.unknown:
            rests = f"it depends on {unknowns.grouped(self.unknown)} of {core}"
        else:
            rests = f"it is independent of unmeasured parameters of {core}"
        parts = [f"{rests} ({unmeasured.text})", self._offsets]
        if figures := self._from_compilers:
            parts.append(f"not varied either: figures of {figures}, which no measurement gives")
        return "; ".join(parts)

    @property
    def _offsets(self) -> str:
        """Say which code offsets were looked at."""
        said = []
        for name in (self.variant, self.against):
            offsets = [o for o in self.margins.offsets[name] if o is not None]
            shown = ", ".join(map(str, offsets)) if len(offsets) <= _LISTED else "0 to 63"
            said.append(f"{name} at code offset{'s' * (len(offsets) > 1)} {shown}")
        return " and ".join(said)

    @property
    def _from_compilers(self) -> str:
        """Name the forms of instructions whose figures come from a compiler's model alone."""
        core, table = self.margins.core, forms.forms(self.margins.core.id)
        found: dict[str, None] = {}
        for name in (self.variant, self.against):
            variant = self.margins.variants[name]
            code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
            [named] = binding.forms(code.isa, [b"".join(i.code for i in code.instructions)])
            for form in named or ():
                source = table.get(form, {}).get("source", "")
                if source and all(key in _COMPILERS for key in source.split("+")):
                    found[form] = None
        return ", ".join(found)

    @property
    def alignment(self) -> str:
        """Say at which code offsets it gains where it does not at all of them, or nothing."""
        least = self.margins.by_offset(self.variant, self.against, self.sizes)
        wins = [offset for offset, speed in least.items() if speed > 1 + self.trust.doubt]
        if not wins or len(wins) == len(least):
            return ""
        return (
            f"{self.variant} gains on {self.margins.core.id} only with its loop at code offset "
            f"{' or '.join(map(str, wins))}, of {', '.join(map(str, least))} that a linker may "
            "give it: it needs an alignment directive"
        )
