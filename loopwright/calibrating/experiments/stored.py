"""Kernels of stores and loads of one place, and of loads that give addresses."""

from collections.abc import Mapping, Sequence

from loopwright.calibrating.forms.form import Form, Operand


def _value(form: Form) -> Operand:
    """Return the register of a form with memory that is no part of the address."""
    (found,) = (o for o in form.chosen if o.label not in ("a", "x"))
    return found


def pair(
    store: Form,
    load: Form,
    at: Mapping[str, int] | None = None,
    of: Mapping[str, int] | None = None,
) -> list[bytes]:
    """Return a store and a load through one register, of the same place but for `of`."""
    base = store.kit.POOLS["gpr"].constant[0]
    stored = _value(store)
    (result,) = (o for o in load.chosen if o.written)
    register = store.kit.POOLS[stored.kind].back[0]
    place = {"a": base, **(at or {})}
    return [
        store.encode({stored.label: register, **place}),
        load.encode({result.label: register, **place, **(of or {})}),
    ]


def stores(form: Form, places: Sequence[int]) -> list[bytes]:
    """Return stores of these places, of what nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant[:2]
    given = {_value(form).label: constant, "a": base}
    return [form.encode({**given, "disp": place}) for place in places]


def update(form: Form, at: Mapping[str, int]) -> bytes:
    """Return what changes a place by something that nothing writes."""
    base, constant = form.kit.POOLS["gpr"].constant
    return form.encode({_value(form).label: constant, "a": base, **at})


def chase(load: Form) -> bytes:
    """Return a load of a register from where it points to."""
    (result,) = (o for o in load.chosen if o.written)
    register = load.kit.POOLS["gpr"].back[0]
    return load.encode({result.label: register, "a": register})
