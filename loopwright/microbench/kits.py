"""Forms and kit of each ISA, and the use of each form in libraries."""

from collections.abc import Mapping, Sequence
from functools import cache

from loopwright import files, paths
from loopwright.microbench import arm64_forms, arm64_kit, x86_forms, x86_kit
from loopwright.microbench.forms import Form, Kit

_KITS: Mapping[str, Kit] = {"x86_64": x86_kit, "arm64": arm64_kit}


def of(isa: str) -> Kit:
    """Return the kit of an ISA."""
    return _KITS[isa]


@cache
def forms(isa: str, features: frozenset[str] | None) -> tuple[list[Form], dict[str, str]]:
    """Return the forms of a core with these features (None: any), and reasons for the others."""
    return x86_forms.forms(features) if isa == "x86_64" else arm64_forms.forms(features)


_USAGE = paths.HOME / "models" / "form_usage.csv"  # of x86-64, by models/derive/form_usage.py


@cache
def per_million() -> Mapping[str, float]:
    """Return the form's instructions per million of libraries; rarer forms than 1 are missing."""
    return {row["form"]: float(row["per_million"]) for row in files.csv_rows(_USAGE)}


def usage_weights(forms: Sequence[Form], least: float) -> list[float]:
    """Return each form's instructions per million of libraries, or least where it is more."""
    usage = per_million()
    return [max(usage.get(form.name, 0.0), least) for form in forms]
