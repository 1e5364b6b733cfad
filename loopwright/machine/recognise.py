"""Which core a machine is, by the [host] tables of models/<core>/core.toml."""

from dataclasses import dataclass
from typing import Any

from loopwright import microarchs
from loopwright.machine.facts import Facts

# Features that no setting of a kernel or hypervisor can add, and that tell cores apart.
_TELLING = frozenset({"erms", "fsrm", "bmi2", "avx2", "adx", "smap"})


@dataclass(frozen=True)
class Recognition:
    """The id of a core, None where no core.toml describes the machine, and what speaks against."""

    core: str | None
    doubt: str = ""


def recognise(facts: Facts) -> Recognition:
    """Return which core a machine is.

    Features decide before family and model where a core.toml names them: guests report models that
    are not theirs. A machine that by its model is a core, and has a feature which that core lacks,
    is none.
    """
    tables = {
        core.id: table for core in _cores(facts.isa) if (table := core.parameters.get("host"))
    }
    who = _who(facts)
    for core, table in tables.items():
        flags = table.get("flags")
        if flags and _vendor(facts, table) and facts.features.issuperset(flags):
            listed = _is_listed(facts, table)
            said = "" if listed else f"by its features ({', '.join(flags)}); {who} is not {core}'s"
            return Recognition(core, said)
    for core, table in tables.items():
        if not table.get("flags") and _vendor(facts, table) and _is_listed(facts, table):
            return _doubted(facts, core, who)
    return Recognition(None)


def table(facts: Facts) -> dict[str, Any]:
    """Return the [host] table of a core.toml that describes such machines, empty if none does."""
    if facts.model is None or not facts.vendor:
        return {}
    if facts.isa == "arm64":
        return {"implementer": int(facts.vendor, 0), "parts": [facts.model]}
    return {
        "vendor": facts.vendor,
        "family": [facts.family],
        "models": [[facts.model, facts.model]],
    }


def _cores(isa: str) -> list[microarchs.Microarch]:
    return [core for core in map(microarchs.load, microarchs.ids()) if core.isa == isa]


def _doubted(facts: Facts, core: str, who: str) -> Recognition:
    own = microarchs.load(core).features & _TELLING
    seen = facts.features & _TELLING
    if seen - own:
        strange = ", ".join(sorted(seen - own))
        return Recognition(None, f"{who} is {core}'s, but that core has no {strange}")
    # Without any feature there is nothing to compare with.
    if facts.features and facts.isa == "x86_64" and own - seen:
        hidden = ", ".join(sorted(own - seen))
        return Recognition(core, f"{core} has {hidden}, which this machine does not show")
    return Recognition(core)


def _vendor(facts: Facts, table: dict[str, Any]) -> bool:
    if "implementer" in table:
        return facts.vendor != "" and int(facts.vendor, 0) == table["implementer"]
    return facts.vendor == table.get("vendor")


def _is_listed(facts: Facts, table: dict[str, Any]) -> bool:
    if facts.model is None:
        return False
    if "parts" in table:
        return facts.model in table["parts"]
    ranges = table.get("models", [])
    return facts.family in table.get("family", []) and any(
        low <= facts.model <= high for low, high in ranges
    )


def _who(facts: Facts) -> str:
    if facts.isa == "arm64":
        return f"implementer {facts.vendor} part {facts.model or 0:#x}"
    return f"family {facts.family} model {facts.model}"
