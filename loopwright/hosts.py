"""What the machine is that code runs on here: its CPU, and what bears on measurements."""

import platform
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from loopwright import microarchs, toolchain

_CPUS = Path("/sys/devices/system/cpu")


@cache
def cpuinfo() -> dict[str, str]:
    """Return what /proc/cpuinfo says of the first CPU."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def features() -> frozenset[str]:
    """Return the CPU's features, by the names of /proc/cpuinfo."""
    info = cpuinfo()
    return frozenset((info.get("flags") or info.get("Features") or "").split())


def lacks(isa: str, needs: Iterable[str]) -> list[str]:
    """Return those of the features needed that this host has not; none where it emulates."""
    if toolchain.host_isa() != isa:
        return []
    return [name for name in needs if name not in features()]


def microarch() -> str | None:
    """Return the id of the core that this host is, or None where no core.toml describes it.

    Features decide before family and model where a core.toml names them: guests report models
    that are not theirs.
    """
    named = [i for i in microarchs.ids() if _has_flags(i)]
    listed = [i for i in microarchs.ids() if _is_listed(i)]
    return next(iter(named + listed), None)


def _table(core: str) -> dict[str, Any]:
    loaded = microarchs.load(core)
    table: dict[str, Any] = loaded.parameters.get("host", {})
    return table if loaded.isa == toolchain.host_isa() else {}


def _has_flags(core: str) -> bool:
    table = _table(core)
    flags = table.get("flags", [])
    return bool(flags) and _vendor(table) and features().issuperset(flags)


def _is_listed(core: str) -> bool:
    table = _table(core)
    if not table or table.get("flags"):
        return False
    info = cpuinfo()
    if "parts" in table:
        part = int(info.get("CPU part", "0"), 0)
        return _vendor(table) and part in table["parts"]
    family, model = int(info.get("cpu family", -1)), int(info.get("model", -1))
    ranges = table.get("models", [])
    return (
        _vendor(table)
        and family in table.get("family", [])
        and any(low <= model <= high for low, high in ranges)
    )


def _vendor(table: dict[str, Any]) -> bool:
    info = cpuinfo()
    if "implementer" in table:
        return bool(int(info.get("CPU implementer", "0"), 0) == table["implementer"])
    return bool(info.get("vendor_id") == table.get("vendor"))


def machine() -> str:
    """Return a short name for the machine: its CPU's name, and that it is a guest."""
    info = cpuinfo()
    name = info.get("model name") or f"{platform.machine()} part {info.get('CPU part', '?')}"
    name = re.sub(r"\s+", " ", name)
    return f"{name} (guest)" if "hypervisor" in features() else name
