"""Origin of a number: the model and its version, or the machine and its clock."""

from functools import cache

from loopwright.errors import InputError
from loopwright.judging.study import MEASURED
from loopwright.predicting.models import MODELS


@cache
def versions() -> dict[str, str]:
    """Return each model's version by its id, or why it is not here."""
    out = {}
    for model in MODELS:
        try:
            out[model.id] = model.version()
        except InputError as error:
            out[model.id] = str(error).split(":")[0]
    return out


def of(source: str, machine: str, clock: str) -> str:
    """Return where a number of a source comes from; machine and clock are a measurement's."""
    if source == MEASURED:
        return f"measured: {machine}, clock {clock}"
    return versions().get(source, source)
