"""Forms whose result is known where their operands are one register, as that of x xor x is.

Asked: does such an instruction wait for its register, and does it need a port. Kernel: one register
over and over. Answer: where a copy takes less than the latency, it waits for nothing; where as many
go through in a cycle as are dispatched, it needs no port.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating.experiments.latency import Latency
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Figure, Laboratory

_WAITS = 0.9  # of the latency: what takes as long waits
_NEAR = 1.08  # times the cycles of dispatch: what takes no longer needs no port


@dataclass(frozen=True)
class Idiom:
    """What such an instruction takes, in cycles, and whether it needs a port."""

    figure: Figure
    port: bool


def measure(
    laboratory: Laboratory,
    forms: Sequence[Form],
    latencies: Mapping[str, Sequence[Latency]],
    width: int,
) -> dict[str, Idiom]:
    """Return the forms that wait for nothing so, by their names."""
    some = [form for form in forms if _same(form) and _waits(latencies[form.name])]
    figures = laboratory.time([[_alike(form)] for form in some])
    return {
        form.name: Idiom(figure, figure.cycles > _NEAR / width)
        for form, figure in zip(some, figures, strict=True)
        if figure and figure.cycles < _WAITS * _waits(latencies[form.name])
    }


def _same(form: Form) -> bool:
    """Say whether all operands can be one register, in a form that may be an idiom then."""
    kinds = {(one.kind, one.bits) for one in form.chosen}
    return (
        form.mnemonic in form.kit.IDIOMS
        and form.memory is None
        and len(form.chosen) > 1
        and len(kinds) == 1
    )


def _waits(latencies: Sequence[Latency]) -> int:
    """Return the least latency to the result, 0 where it is not known."""
    return min((one.cycles for one in latencies if one.plain and one.target == "0"), default=0)


def _alike(form: Form) -> bytes:
    register = form.kit.POOLS[form.chosen[0].kind].back[0]
    return form.encode({one.label: register for one in form.chosen})
