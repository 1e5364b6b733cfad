"""Decoders: how many simple ones a form leaves to what follows it in the same cycle.

Asked: does what follows wait for the next cycle. Kernel: straight code, a form of up to as many
uops as are decoded in a cycle, and nops for the decoders that are left, and one more where it has
one uop. Answer: that they are, or one fewer, by which the core that would be written predicts the
kernel better; where both are as good, what most forms of as many uops show. Forms that compute in
general registers alone: of others what follows is by their uops.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopwright.calibrating import kernels, write
from loopwright.calibrating.delivery.front_end import AFTER, Parameters
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned

_COPIES = 4  # of the form and its nops: registers and places are others in each
_TOLD = 0.1  # relative: what the two predictions differ by at least
_ANY = "any"  # of the decoders: the form needs none of its own kind


def choose(laboratory: Laboratory, learned: Learned, forms: Sequence[Form]) -> Learned:
    """Return what was learned with what forms leave of decoders that are not alike."""
    parameters = learned.front_end.parameters
    if parameters.get("front_end.fetch", ("", ""))[0] != "predecoded":
        return learned
    width = int(str(parameters["decode.width"][0]))
    asked = [form for form in forms if _fits(learned, form, width)]
    # With a nop more the next form waits in any case.
    behind = {form.name: width + 1 - learned.uops[form.name].places for form in asked}
    codes = [_code(laboratory, form, behind[form.name]) for form in asked]
    took = laboratory.time(codes, "unrolled")
    most = {name: _ANY if nops >= width else str(nops) for name, nops in behind.items()}
    fewer = {name: str(nops - 1) for name, nops in behind.items()}
    said = [
        write.laboratory(replace(learned, decoders=one), laboratory.machine).time(codes, "unrolled")
        for one in (most, fewer)
    ]
    found: dict[str, str] = {}
    for form, real, one, other in zip(asked, took, *said, strict=True):
        if not real or not one or not other:
            continue
        if abs(one.cycles - other.cycles) <= _TOLD * real.cycles:
            continue
        near = abs(one.cycles - real.cycles) <= abs(other.cycles - real.cycles)
        found[form.name] = (most if near else fewer)[form.name]
    front = replace(learned.front_end, parameters={**parameters, **_usual(learned, found)})
    return replace(learned, decoders=found, front_end=front)


def _usual(learned: Learned, found: Mapping[str, str]) -> Parameters:
    """Return what most forms leave, by the number of their uops."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for name, left in found.items():
        counts[learned.uops[name].places][left] += 1
    usual = {places: some.most_common(1)[0] for places, some in counts.items() if places > 1}
    return {
        f"{AFTER}.{places}": (left, f"{number} of {counts[places].total()} forms")
        for places, (left, number) in usual.items()
    }


def _fits(learned: Learned, form: Form, width: int) -> bool:
    """Say whether a form is of general registers, and few enough uops for a cycle's decoders."""
    if not learned.has_ports(form.name) or any(one.kind == "vector" for one in form.operands):
        return False
    places = learned.uops[form.name].places
    sent = learned.microcode.sent(form.name, places) if learned.microcode else 0
    return 1 <= places <= width and not sent and not learned.uops[form.name].busy


def _code(laboratory: Laboratory, form: Form, behind: int) -> list[bytes]:
    instances = kernels.Instances()
    nops = [laboratory.kit.pad(3)[0]] * behind
    return [part for _ in range(_COPIES) for part in (instances.of(form), *nops)]
