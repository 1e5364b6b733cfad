"""What a machine is that code runs on: its CPU, and what bears on measurements."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from loopwright import harness, microarchs, paths, toolchain
from loopwright.errors import InputError
from loopwright.machine.facts import Facts
from loopwright.machine.recognise import Recognition, recognise
from loopwright.microarchs import Microarch

HOST = "host"  # stands for this machine's core in a list of cores
TARGETS = "targets"  # stands for the targets alone, which are the same on every machine
PMU = "perf-rdpmc"  # the clock that counts core cycles


def here() -> Facts:
    """Return the facts of this machine."""
    return _below(paths.sysroot())


@cache
def _below(root: Path) -> Facts:
    return Facts.live(root)


def features() -> frozenset[str]:
    """Return this CPU's features, by the names of /proc/cpuinfo."""
    return here().features


def lacks(isa: str, needs: Iterable[str]) -> list[str]:
    """Return those of the features needed that this host has not; none where it emulates."""
    if toolchain.host_isa() != isa:
        return []
    return [name for name in needs if name not in features()]


def microarch() -> str | None:
    """Return the id of the core that this host is, or None where no core.toml describes it."""
    return recognise(here()).core


def marked(core: str) -> str:
    """Return a core's id as tables show it: "zen4 (this machine)" where this machine is one."""
    return f"{core} (this machine)" if core and core == microarch() else core


def cores(spec: str | None, isa: str | None = None) -> list[Microarch]:
    """Resolve "ID[,ID]", "all" or None to cores of the given ISA; "host" is this machine's core.

    "targets" are the targets alone, None the targets and this machine's core. InputError where a
    named core is unknown or of another ISA, and for host where no core.toml describes this machine.
    """
    if spec == TARGETS:
        return microarchs.select(None, isa)
    own = microarch()
    if spec is None:
        chosen = microarchs.select(None, isa)
        mine = [microarchs.load(own)] if own else []
        return chosen + [c for c in mine if c not in chosen and isa in (None, c.isa)]
    names = [name.strip() for name in spec.split(",")]
    if HOST in names and own is None:
        raise InputError(
            f"no core.toml describes this machine ({machine()}): name a core, "
            "or make one of it with `loopwright calibrate`"
        )
    resolved = [own if own and name == HOST else name for name in names]
    return microarchs.select(",".join(dict.fromkeys(resolved)), isa)


def machine(facts: Facts | None = None) -> str:
    """Return a short name for a machine (this one): its CPU's name, and that it is a guest."""
    of = facts or here()
    board = of.read("/sys/class/dmi/id/product_name")
    part = f"{of.isa} part {of.model:#x}" if of.model is not None else f"{of.isa} CPU"
    name = of.name or (f"{board}, {part}" if board else part)
    return f"{name} (guest)" if of.guest else name


def slug(machine: str) -> str:
    """Return what a machine is called as the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-")


def of_banner(banner: Mapping[str, Any]) -> tuple[Facts, Recognition]:
    """Return the machine that a run's banner is about; ValueError where it says what cannot be."""
    try:
        facts = Facts.of(banner)
        texts = {**banner["identity"], **banner["files"]}
        if not all(isinstance(v, str) for v in texts.values()) or type(banner["cpu"]) is not int:
            raise TypeError("a fact of the machine is no text")
        # All that is ever asked of it.
        found = recognise(facts)
        machine(facts)
        describe_facts(facts)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"no facts of a machine: {error}") from None
    return facts, found


def describe() -> dict[str, Any]:
    """Return the record of this host that belongs to every measurement.

    What cannot be read is None: a guest does not see its host's governor or neighbours.
    """
    return {
        **describe_facts(here()),
        "cpus": len(os.sched_getaffinity(0)),
        "hypervisor": _hypervisor(),
        "stolen_ticks": steal(),
        **_clock(toolchain.host_isa()),
    }


def describe_facts(facts: Facts) -> dict[str, Any]:
    """Return what facts alone say of a machine, None where they say nothing."""
    found = recognise(facts)
    release = facts.read("/proc/sys/kernel/osrelease")
    return {
        "machine": machine(facts),
        "cpu": facts.name,
        "isa": facts.isa,
        "microarch": found.core,
        "microarch_doubt": found.doubt,
        "vendor": facts.vendor or None,
        "family": facts.family,
        "model": facts.model,
        "stepping": facts.stepping,
        "microcode": facts.cpuinfo.get("microcode"),
        "features": sorted(facts.features),
        "caches": _caches(facts),
        "kernel": f"Linux {release}" if release else None,
        "smt": facts.of_cpus("smt/active"),
        "siblings": facts.of_cpu("topology/thread_siblings_list"),
        "governor": facts.of_cpu("cpufreq/scaling_governor"),
        "boost": _boost(facts),
        "nmi_watchdog": facts.read("/proc/sys/kernel/nmi_watchdog"),
        "isolated": facts.of_cpus("isolated"),
    }


def _caches(facts: Facts) -> dict[str, str]:
    """Return the CPU's caches, e.g. {"L1d": "32K, 8 ways"}."""
    found = {}
    for index in range(5):
        level, kind, size, ways = (
            facts.of_cpu(f"cache/index{index}/{name}")
            for name in ("level", "type", "size", "ways_of_associativity")
        )
        if level:
            suffix = {"Data": "d", "Instruction": "i"}.get(kind or "", "")
            found[f"L{level}{suffix}"] = f"{size}, {ways} ways"
    return found


def _hypervisor() -> str | None:
    """Return what virtualizes this machine, as far as it says so."""
    named = here().read("/sys/hypervisor/type")
    if "hypervisor" not in features():
        return named
    detect = shutil.which("systemd-detect-virt")
    if detect:
        said = subprocess.run([detect, "--vm"], capture_output=True, text=True, check=False)
        return said.stdout.strip() or None
    return named or "yes, unnamed"


def _boost(facts: Facts) -> str | None:
    no_turbo = facts.of_cpus("intel_pstate/no_turbo")
    if no_turbo is not None:
        return "0" if no_turbo == "1" else "1"
    return facts.of_cpus("cpufreq/boost")


def steal() -> int | None:
    """Return the ticks since boot that a hypervisor took from all CPUs."""
    fields = (here().read("/proc/stat") or "").split("\n", 1)[0].split()
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
        "pmu": record["clock"] == PMU,
        "pmu_refused": record["passed_over"],
    }
