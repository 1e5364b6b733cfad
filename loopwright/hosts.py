"""What the machine is that code runs on here: its CPU, and what bears on measurements."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from loopwright import harness, microarchs, toolchain
from loopwright.errors import InputError

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


def describe() -> dict[str, Any]:
    """Return the record of the host that belongs to every measurement.

    What cannot be read is None: a guest does not see its host's governor or neighbours.
    """
    info = cpuinfo()
    isa = toolchain.host_isa()
    return {
        "machine": machine(),
        "cpu": info.get("model name"),
        "isa": isa,
        "microarch": microarch(),
        "vendor": info.get("vendor_id") or info.get("CPU implementer"),
        "family": info.get("cpu family"),
        "model": info.get("model") or info.get("CPU part"),
        "stepping": info.get("stepping") or info.get("CPU revision"),
        "microcode": info.get("microcode"),
        "features": sorted(features()),
        "caches": _caches(),
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()}",
        "hypervisor": _hypervisor(),
        "smt": _read(_CPUS / "smt" / "active"),
        "governor": _read(_CPUS / "cpu0" / "cpufreq" / "scaling_governor"),
        "boost": _boost(),
        "isolated": _read(_CPUS / "isolated"),
        "stolen_ticks": steal(),
        **_clock(isa),
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _caches() -> dict[str, str]:
    """Return the first CPU's caches, e.g. {"L1d": "32K, 8 ways"}."""
    found = {}
    for index in sorted((_CPUS / "cpu0" / "cache").glob("index*")):
        level, kind = _read(index / "level"), _read(index / "type")
        suffix = {"Data": "d", "Instruction": "i"}.get(kind or "", "")
        ways = _read(index / "ways_of_associativity")
        found[f"L{level}{suffix}"] = f"{_read(index / 'size')}, {ways} ways"
    return found


def _hypervisor() -> str | None:
    """Return what virtualizes this machine, as far as it says so."""
    if "hypervisor" not in features():
        return _read(Path("/sys/hypervisor/type"))
    detect = shutil.which("systemd-detect-virt")
    if detect:
        said = subprocess.run([detect, "--vm"], capture_output=True, text=True, check=False)
        return said.stdout.strip() or None
    return _read(Path("/sys/hypervisor/type")) or "yes, unnamed"


def _boost() -> str | None:
    no_turbo = _read(_CPUS / "intel_pstate" / "no_turbo")
    if no_turbo is not None:
        return "0" if no_turbo == "1" else "1"
    return _read(_CPUS / "cpufreq" / "boost")


def steal() -> int | None:
    """Return the ticks since boot that a hypervisor took from all CPUs."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) if len(fields) > 8 else None


def _clock(isa: str) -> dict[str, Any]:
    """Ask the harness which clock it measures with here, pinned where, and why no better one."""
    try:
        record = next(harness.run(isa, "job clock\nid clock\nend\n"))
    except (InputError, KeyError) as error:
        return {"clock": None, "clock_refused": str(error), "pmu": False, "pmu_refused": ""}
    return {
        "clock": record["clock"] or None,
        "clock_refused": record["refused"],
        "clock_granularity_ticks": record["granularity_ticks"],
        "clock_ticks_a_second": record["ticks_a_second"],
        "burst_us": record["burst_us"],
        "pinned_to_cpu": record["cpu"],
        "pmu": record["clock"] == "perf-rdpmc",
        "pmu_refused": record["passed_over"],
    }
