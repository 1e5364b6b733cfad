"""Instructions that wait for what stands before them, or keep what follows waiting.

Asked: what a copy takes, and what of other work it overlaps. Kernels: copies by themselves, and
copies among nops, loads and moves that wait for each other. Test: the slope between loops of two
and of four copies, so that nothing of the loop is in it. Answer: the cycles of a copy and what
stands beside it. What overlaps a chain adds nothing to it; what waits for it takes the sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Kit
from loopwright.calibrating.laboratory import Figure, Laboratory

ALONE = "alone"
_COPIES = (2, 4)  # few: a slow one of 80 takes longer than a trial may
_NOPS = (12, 48)
_CHAINS = (12, 36)
_LOADS = 6
_GUEST = "hypervisor"  # what /proc/cpuinfo says of a guest


@dataclass(frozen=True)
class Serialising:
    """What a copy takes by its mnemonic and what stands beside it; why others were not asked."""

    figures: Mapping[str, Mapping[str, Figure]]
    left: Mapping[str, str]


def measure(laboratory: Laboratory, forms: Mapping[str, Form]) -> Serialising:
    """Return what is known of all of them that user mode has."""
    kit, features = laboratory.kit, laboratory.machine.features
    left = dict.fromkeys(kit.PRIVILEGED, "privileged: user mode cannot execute it")
    chosen = []
    for name, one in kit.SERIAL.items():
        if one.needs and one.needs not in features:
            continue
        if one.traps and _GUEST in features:
            left[name] = "a hypervisor answers it in the place of this guest's CPU"
        else:
            chosen.append(name)
    found = {}
    for name in chosen:
        kernels = asked(kit, name, forms.get(kit.LOAD))
        figures = dict(zip(kernels, slopes(laboratory, list(kernels.values())), strict=True))
        if refused := [figure.refused for figure in figures.values() if not figure]:
            left[name] = refused[0]
        else:
            found[name] = figures
    return Serialising(found, left)


def asked(kit: Kit, name: str, load: Form | None) -> dict[str, bytes]:
    """Return a copy and what stands beside it, by what that is."""
    one = kit.SERIAL[name]
    code = one.before + one.code
    out = {ALONE: code}
    for number in _NOPS:
        out[f"beside {number} nops"] = code + kit.nop() * number
    register = kit.POOLS["gpr"].own[0]
    link = kit.carry("gpr", "gpr", register, register)
    for number in _CHAINS:
        out[f"beside a chain of {number} moves"] = code + link * number
    if load:
        (result,) = (operand for operand in load.chosen if operand.written)
        base = kit.POOLS["gpr"].constant[0]
        loads = [
            load.encode({result.label: number, "a": base, "disp": 64 * place})
            for place, number in enumerate(kit.POOLS["gpr"].others[:_LOADS])
        ]
        out[f"beside {len(loads)} loads"] = code + b"".join(loads)
    return out


def slopes(laboratory: Laboratory, kernels: Sequence[bytes]) -> list[Figure]:
    """Return the cycles of a copy of each kernel."""
    few, many = _COPIES
    timed = laboratory.turns([kernel * times for kernel in kernels for times in _COPIES])
    out = []
    for short, long in zip(timed[::2], timed[1::2], strict=True):
        refused = short.refused or long.refused
        error = (short.uncertainty**2 + long.uncertainty**2) ** 0.5 / (many - few)
        out.append(Figure((long.cycles - short.cycles) / (many - few), error, refused))
    return out
