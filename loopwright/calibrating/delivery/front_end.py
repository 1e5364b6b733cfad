"""Front end: what delivers instructions to dispatch, by code that little else can bind.

Asked: what straight code and loops take by the lengths, the number and the place of their
instructions. Kernels: those of `straight` and of `small_loops`, each timed by itself. Answer: what
all of them take; which front end explains it is found by having the simulator predict them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from loopwright.calibrating import kernels
from loopwright.calibrating.delivery import small_loops, straight
from loopwright.calibrating.delivery.probe import Probe
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.machines.machine import Timing
from loopwright.calibrating.ports.core import Uops

_PLAIN = 9  # bytes of the longest nop that needs no second prefix
_SLOWER = 1.2  # times that nops with an operand take where they need a decoder of their own

# Simple decoders that are left in a cycle to what follows an instruction of so many uops: a column
# of instructions.csv.
AFTER = "decoders after"

# A parameter of the simulator by its dotted name: its value, and what it rests on.
Parameters = Mapping[str, tuple[object, str]]


@dataclass(frozen=True)
class FrontEnd:
    """Kernels with what they took, and the front end that explains them, once it is chosen.

    long_nops says whether nops with an operand are decoded like plain ones; said is, by kinds of
    code, what the choice came to.
    """

    probes: Sequence[Probe]
    timings: Sequence[Timing]
    long_nops: bool
    parameters: Parameters
    said: Mapping[str, str]
    left: Mapping[str, str]

    def rows(self) -> Iterator[tuple[Probe, float, float]]:
        """Yield the kernels that have a figure, with their cycles and uncertainty."""
        for probe, timing in zip(self.probes, self.timings, strict=True):
            if timing.cycles is not None:
                yield probe, timing.cycles, timing.uncertainty

    def of(self, part: str) -> Iterator[tuple[Probe, float, float]]:
        """Return those of a kind of code."""
        return (row for row in self.rows() if row[0].part == part)


def measure(laboratory: Laboratory, forms: Sequence[Form], known: Mapping[str, Uops]) -> FrontEnd:
    """Time the kernels; known says what forms need."""
    kit = laboratory.kit
    prefixed = not kit.BYTES and _long_are_slow(laboratory)
    nop = partial(_nop, kit, prefixed)
    probes = list(straight.probes(kit, nop, forms, known))
    probes += small_loops.probes(laboratory.isa, kit, nop, _two(forms, known))
    timings = laboratory.trials([probe.trial for probe in probes])
    return FrontEnd(probes, timings, not prefixed, {}, {}, {})


def _two(forms: Sequence[Form], known: Mapping[str, Uops]) -> list[bytes]:
    """Return instances of a form of two uops, none where there is none."""
    instances = kernels.Instances()
    two = (form for form in straight.several(forms, known) if known[form.name].places == 2)
    return [instances.of(form) for form in islice(two, 1) for _ in range(4)]


def _nop(kit: Kit, prefixed: bool, size: int) -> bytes:
    """Return one nop of so many bytes, 1 to 15; prefixed: the shortest one behind prefixes."""
    body = kit.pad(1 if prefixed else min(size, _PLAIN))[0]
    return b"\x66" * (size - len(body)) + body


def _long_are_slow(laboratory: Laboratory) -> bool:
    """Say whether nops with an operand need a decoder that plain ones do not."""
    blocks = [[_nop(laboratory.kit, prefixed, 4)] * 16 for prefixed in (False, True)]
    long, plain = laboratory.time(blocks, "unrolled")
    return bool(long and plain) and long.cycles > _SLOWER * plain.cycles
