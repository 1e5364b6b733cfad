"""Macro-fusion: which instructions take one place at dispatch together with a branch behind them.

Kernels: many nops with an instruction, a branch and one nop more, which stands before them or
between them; where nops share places, moves stand for them. Where no pair shows, all is asked again
with shorter nops. Answer: the one kernel is a place shorter. Of a branch and its opposite one is
not taken, whatever the flags are, and that tells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.calibrating import kernels
from loopwright.calibrating.experiments.width import Width
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.forms.kit import Branch, Kit
from loopwright.calibrating.laboratory import Laboratory

_BLOCKING = 3  # cycles of nops
_SHORT = 3  # bytes of a nop that is tried where no pair shows
_PLACE = 0.6  # of a place at dispatch that is missed where there is one less


def measure(laboratory: Laboratory, forms: Sequence[Form], width: Width) -> dict[str, str]:
    """Return the kinds of branches that each form fuses with, as flag `fuse=` has them.

    Each form is tried with one kind, and one form of a mnemonic that fuses with all.
    """
    kit = laboratory.kit
    tried = [form for form in forms if form.mnemonic in kit.FUSING]
    kinds: Mapping[str, Branch] = {branch.kind: branch for branch in reversed(kit.BRANCHES)}
    if not tried:
        return {}
    first = next(iter(kit.BRANCHES))
    fused = _fused(laboratory, [(form, first) for form in tried], width)
    if not any(fused) and width.nops and not kit.BYTES:
        # What brings in longer nops may bind before dispatch does.
        width = replace(width, counted=kit.pad(_SHORT)[0])
        fused = _fused(laboratory, [(form, first) for form in tried], width)
    fusing = [form for form, yes in zip(tried, fused, strict=True) if yes]
    samples = {form.mnemonic: form for form in reversed(fusing)}
    asked = [(form, branch) for form in samples.values() for branch in kinds.values()]
    known: dict[str, str] = dict.fromkeys(samples, "")
    for (form, branch), yes in zip(asked, _fused(laboratory, asked, width), strict=True):
        known[form.mnemonic] += branch.kind if yes else ""
    return {form.name: "".join(sorted(known[form.mnemonic])) for form in fusing}


def _fused(
    laboratory: Laboratory, asked: Sequence[tuple[Form, Branch]], width: Width
) -> list[bool]:
    """Say of each form and branch whether they take one place."""
    plans = [_kernels(laboratory.kit, form, branch, width) for form, branch in asked]
    figures = iter(laboratory.time([kernel for plan in plans for kernel in plan]))
    out = []
    for plan in plans:
        found = [next(figures) for _ in plan]
        pairs = [(found[n], found[n + 1]) for n in range(0, len(found), 2)]
        less = [apart.cycles - near.cycles for near, apart in pairs if near and apart]
        out.append(max(less, default=0.0) > _PLACE / width.instructions)
    return out


def _kernels(kit: Kit, form: Form, branch: Branch, width: Width) -> list[list[bytes]]:
    """Return what stands together and apart, for a branch and for its opposite."""
    tested = kernels.apart(form)
    place = width.counted
    out = []
    for code in (branch.code, kit.opposite(branch)):
        blocking = [place] * (_BLOCKING * width.instructions)
        for some in ([place, tested, code], [tested, place, code]):
            out.append(kernels.laid(kit, [*some, *blocking], [code]))
    return out
