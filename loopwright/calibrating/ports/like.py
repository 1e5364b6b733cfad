"""What uops a form may have, to be asked first: those of its class, its twin, or forms like it."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.experiments.latency import Latency, of_address
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.ports.core import Core, Uops
from loopwright.calibrating.ports.rule import Ports


class Like:
    """Uops of forms, by which those of others are guessed."""

    def __init__(
        self,
        core: Core,
        known: Mapping[str, Uops],
        latencies: Mapping[str, Sequence[Latency]],
    ) -> None:
        self._core, self.known, self._latencies = core, dict(known), latencies
        self._seen: dict[tuple[object, ...], str] = {}

    def split(self, forms: Sequence[Form]) -> tuple[list[Form], list[Form]]:
        """Return one form of each kind, if possible one whose twin is known, and the others."""
        first = []
        for form in sorted(forms, key=lambda one: one.twin not in self.known):
            if _kind(form) not in self._seen:
                self._seen[_kind(form)] = form.name
                first.append(form)
        names = {form.name for form in first}
        return first, [form for form in forms if form.name not in names]

    def learn(self, uops: Mapping[str, Uops]) -> None:
        """Take uops that were found."""
        self.known.update(uops)

    def guess(self, form: Form) -> tuple[Ports, ...] | None:
        """Return the uops that a form may have, None where no other is like it."""
        if form.name == self._core.store:
            return self._core.stored or None
        if own := self._core.of(form.name):
            return (own,)
        twin = self.known.get(form.twin)
        if form.memory and twin and twin.ports is not None:
            load = self._core.loads(form)
            more = [load] * form.memory.read + [*self._core.stored] * form.memory.written
            plain = form.name in form.kit.LOADS.values()
            computing = () if plain or self._only_loads(form) else twin.ports
            return computing + tuple(one for one in more if one)
        other = self.known.get(self._seen.get(_kind(form), ""))
        if other and other.ports is not None:
            return other.ports
        memory, load = form.memory, self._core.loads(form)
        only = memory is not None and memory.read and not memory.written
        return (load,) if only and load and load != self._core.of(self._core.load) else None

    def _only_loads(self, form: Form) -> bool:
        """Say whether what a form loads is there as soon as what a load alone loads."""
        kinds = {one.label: one.kind for one in form.operands}
        plain = of_address(self._latencies.get(self._core.load, ()))
        some = [one for one in self._latencies[form.name] if kinds.get(one.target) == "gpr"]
        found = of_address(some)
        return plain is not None and found is not None and found <= plain


def _kind(form: Form) -> tuple[object, ...]:
    kinds = tuple(operand.kind for operand in form.operands)
    return form.mnemonic, kinds, form.memory is not None and (form.memory.read, form.memory.written)
