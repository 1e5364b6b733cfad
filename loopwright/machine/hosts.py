"""A machine: its CPU and core, and the facts that affect measurements there."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from loopwright import microarchs, paths, toolchain
from loopwright.errors import InputError
from loopwright.machine import harness
from loopwright.microarchs import Microarch

_CPUS = "/sys/devices/system/cpu"
_CACHES = range(5)

# The files of a machine in a banner; cpuN is the CPU that measurements are pinned to.
FACT_FILES = (
    "/proc/cpuinfo",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/perf_user_access",
    "/proc/sys/kernel/nmi_watchdog",
    "/sys/bus/event_source/devices/cpu/rdpmc",
    "/sys/bus/event_source/devices/cpu/type",
    "/sys/bus/event_source/devices/armv8_pmuv3_0/type",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/hypervisor/type",
    f"{_CPUS}/online",
    f"{_CPUS}/isolated",
    f"{_CPUS}/nohz_full",
    f"{_CPUS}/smt/active",
    f"{_CPUS}/smt/control",
    f"{_CPUS}/intel_pstate/no_turbo",
    f"{_CPUS}/cpufreq/boost",
    f"{_CPUS}/cpuN/cpufreq/scaling_driver",
    f"{_CPUS}/cpuN/cpufreq/scaling_governor",
    f"{_CPUS}/cpuN/topology/thread_siblings_list",
    *(
        f"{_CPUS}/cpuN/cache/index{index}/{name}"
        for index in _CACHES
        for name in ("level", "type", "size", "ways_of_associativity")
    ),
)

# CPUID bits by the names of /proc/cpuinfo: leaf, register (eax, ebx, ecx, edx), bit. Intel SDM
# volume 2A, CPUID; AMD APM volume 3, appendix E. Only those that are used here.
_CPUID_BITS = {
    "hypervisor": ("00000001_0", 2, 31),
    "avx2": ("00000007_0", 1, 5),
    "bmi2": ("00000007_0", 1, 8),
    "erms": ("00000007_0", 1, 9),
    "avx512f": ("00000007_0", 1, 16),
    "adx": ("00000007_0", 1, 19),
    "smap": ("00000007_0", 1, 20),
    "fsrm": ("00000007_0", 3, 4),
    "amx_fp16": ("00000007_1", 0, 21),
}


@dataclass(frozen=True)
class Facts:
    """A machine: its ISA, the CPU that measurements are pinned to, and how to read its files.

    identity holds registers that were read on it: CPUID leaves ("cpuid_LEAF_SUBLEAF": eax, ebx,
    ecx, edx in hexadecimal) or "midr_el1". read returns a file's text without the final newline,
    None if there is none.
    """

    isa: str
    cpu: int
    identity: Mapping[str, str]
    read: Callable[[str], str | None]

    @classmethod
    def live(cls, root: Path) -> Self:
        """Return this machine, from its files below root."""

        def read(path: str) -> str | None:
            try:
                return (root / path.lstrip("/")).read_text().rstrip("\n")
            except (OSError, UnicodeDecodeError):
                return None

        return cls(toolchain.host_isa(), min(os.sched_getaffinity(0)), {}, read)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the machine of an answer to a job of facts."""
        return cls(record["isa"], record["cpu"], record["identity"], record["files"].get)

    def of_cpu(self, path: str) -> str | None:
        """Read a file of the CPU that measurements are pinned to, below its folder."""
        return self.read(f"{_CPUS}/cpu{self.cpu}/{path}")

    def of_cpus(self, path: str) -> str | None:
        """Read a file below the folder of all CPUs."""
        return self.read(f"{_CPUS}/{path}")

    @cached_property
    def cpuinfo(self) -> dict[str, str]:
        """The fields of the first CPU in /proc/cpuinfo; empty for another ISA."""
        first = (self.read("/proc/cpuinfo") or "").split("\n\n")[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        fields = {key.strip(): value.strip() for key, value in pairs}
        identifying = {"x86_64": "vendor_id", "arm64": "CPU part"}.get(self.isa, "")
        return fields if identifying in fields else {}

    @cached_property
    def features(self) -> frozenset[str]:
        """The CPU's features by their names in /proc/cpuinfo, from CPUID where that is missing."""
        flags = self.cpuinfo.get("flags") or self.cpuinfo.get("Features")
        if flags:
            return frozenset(flags.split())
        return frozenset(
            name
            for name, (leaf, register, bit) in _CPUID_BITS.items()
            if self._leaf(leaf)[register] >> bit & 1
        )

    @property
    def vendor(self) -> str:
        """The CPU's vendor_id; of an arm64 one the implementer, e.g. 0x41."""
        if self.isa == "arm64":
            midr = self._midr()
            return self.cpuinfo.get("CPU implementer", "") if midr is None else f"{midr >> 24:#04x}"
        _, b, c, d = self._leaf("00000000_0")
        text = b"".join(r.to_bytes(4, "little") for r in (b, d, c)).decode("ascii", "replace")
        return text if b else self.cpuinfo.get("vendor_id", "")

    @property
    def family(self) -> int | None:
        """The family of an x86 CPU."""
        eax = self._leaf("00000001_0")[0]
        if not eax:
            return _parsed_number(self.cpuinfo.get("cpu family"))
        base = eax >> 8 & 0xF
        return base + (eax >> 20 & 0xFF) if base == 0xF else base

    @property
    def model(self) -> int | None:
        """The model of an x86 CPU, the part number of an arm64 one."""
        if self.isa == "arm64":
            midr = self._midr()
            return (
                _parsed_number(self.cpuinfo.get("CPU part")) if midr is None else midr >> 4 & 0xFFF
            )
        eax = self._leaf("00000001_0")[0]
        if not eax:
            return _parsed_number(self.cpuinfo.get("model"))
        return eax >> 4 & 0xF | (eax >> 12 & 0xF0 if eax >> 8 & 0xF in (0x6, 0xF) else 0)

    @property
    def stepping(self) -> str | None:
        """The stepping of an x86 CPU, variant and revision of an arm64 one (r1p0)."""
        if self.isa == "arm64":
            midr = self._midr()
            revision = self.cpuinfo.get("CPU revision")
            return revision if midr is None else f"r{midr >> 20 & 0xF}p{midr & 0xF}"
        eax = self._leaf("00000001_0")[0]
        return str(eax & 0xF) if eax else self.cpuinfo.get("stepping")

    @property
    def name(self) -> str | None:
        """The CPU's own name; of an arm64 one None, or the machine's."""
        brand = b"".join(
            register.to_bytes(4, "little")
            for leaf in ("80000002_0", "80000003_0", "80000004_0")
            for register in self._leaf(leaf)
        )
        text = brand.decode("ascii", "replace").strip("\0 ") or self.cpuinfo.get("model name")
        return re.sub(r"\s+", " ", text) if text else None

    @property
    def guest(self) -> bool:
        """True if the machine is known to be a virtual one."""
        return "hypervisor" in self.features or self.read("/sys/hypervisor/type") is not None

    def _leaf(self, name: str) -> tuple[int, ...]:
        registers = self.identity.get(f"cpuid_{name}", "").split()
        return tuple(int(r, 16) for r in registers) or (0, 0, 0, 0)

    def _midr(self) -> int | None:
        register = self.identity.get("midr_el1")
        return int(register, 16) if register else None


def _parsed_number(text: str | None) -> int | None:
    try:
        return int(text or "", 0)
    except ValueError:
        return None


# Features that distinguish cores, and that no kernel or hypervisor can add.
_DISTINGUISHING = frozenset({"erms", "fsrm", "bmi2", "avx2", "adx", "smap"})


@dataclass(frozen=True)
class Recognition:
    """The id of a machine's core, None if no core.toml describes it, and a doubt about it."""

    core: str | None
    doubt: str = ""


def recognise(facts: Facts) -> Recognition:
    """Return the core of a machine.

    Features and sizes of caches decide before family and model where a core.toml names them: guests
    report models that are not theirs, and kernels show few of the features of AMX. A machine with a
    core's model and a feature that the core lacks is not that core.
    """
    cores = microarchs.select("all", facts.isa)
    tables = {core.id: table for core in cores if (table := core.parameters.get("host"))}
    model = _model_text(facts)
    visible = facts.features | {f"{name} {size}" for name, size, _ in _cache_sizes(facts)}
    for core, table in tables.items():
        for signs in table.get("signs", []):
            if _is_vendor(facts, table) and visible.issuperset(signs):
                reason = f"by its features ({', '.join(signs)}); {model} is not {core}'s"
                return Recognition(core, "" if _is_listed(facts, table) else reason)
    for core, table in tables.items():
        if not table.get("signs") and _is_vendor(facts, table) and _is_listed(facts, table):
            return _with_doubt(facts, core, model)
    return Recognition(None)


def recognition_table(facts: Facts) -> dict[str, Any]:
    """Return the [host] table of a core.toml for such machines, {} if there is none."""
    if facts.model is None or not facts.vendor:
        return {}
    if facts.isa == "arm64":
        return {"implementer": int(facts.vendor, 0), "parts": [facts.model]}
    return {
        "vendor": facts.vendor,
        "family": [facts.family],
        "models": [[facts.model, facts.model]],
    }


def _with_doubt(facts: Facts, core: str, model: str) -> Recognition:
    """Return the recognition of a machine by its model, after a comparison of features."""
    core_features = microarchs.load(core).features & _DISTINGUISHING
    visible = facts.features & _DISTINGUISHING
    if visible - core_features:
        extra = ", ".join(sorted(visible - core_features))
        return Recognition(None, f"{model} is {core}'s, but that core has no {extra}")
    # Without features there is nothing to compare.
    if facts.features and facts.isa == "x86_64" and core_features - visible:
        hidden = ", ".join(sorted(core_features - visible))
        return Recognition(core, f"{core} has {hidden}, which this machine does not show")
    return Recognition(core)


def _is_vendor(facts: Facts, table: dict[str, Any]) -> bool:
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


def _model_text(facts: Facts) -> str:
    if facts.isa == "arm64":
        return f"implementer {facts.vendor} part {facts.model or 0:#x}"
    return f"family {facts.family} model {facts.model}"


HOST = "host"  # stands for this machine's core in a list of cores
TARGETS = "targets"  # stands for the targets, the same on every machine
PMU = "perf-rdpmc"  # the clock that counts core cycles


def here() -> Facts:
    """Return the facts of this machine."""
    return _facts_below(paths.sysroot())


@cache
def _facts_below(root: Path) -> Facts:
    return Facts.live(root)


def features() -> frozenset[str]:
    """Return this CPU's features, by their names in /proc/cpuinfo."""
    return here().features


def lacks(isa: str, needs: Iterable[str]) -> list[str]:
    """Return the needed features that this host lacks; none for an ISA that is emulated here."""
    if toolchain.host_isa() != isa:
        return []
    return [name for name in needs if name not in features()]


def microarch() -> str | None:
    """Return the id of this host's core, or None if no core.toml describes it."""
    return recognise(here()).core


def marked(core: str, mark: str = " (this machine)") -> str:
    """Return a core's id for tables: "zen4 (this machine)" if this machine is one."""
    return f"{core}{mark}" if core and core == microarch() else core


def cores(spec: str | None, isa: str | None = None) -> list[Microarch]:
    """Resolve "ID[,ID]", "all" or None to cores of the given ISA; "host" is this machine's core.

    "targets" are the targets alone, None the targets and this machine's core. InputError if a
    named core is unknown or of another ISA, and for host where no core.toml describes this machine.
    """
    if spec == TARGETS:
        return microarchs.select(None, isa)
    host_core = microarch()
    if spec is None:
        chosen = microarchs.select(None, isa)
        of_host = [microarchs.load(host_core)] if host_core else []
        return chosen + [c for c in of_host if c not in chosen and isa in (None, c.isa)]
    names = [name.strip() for name in spec.split(",")]
    if HOST in names and host_core is None:
        raise InputError(
            f"no core.toml describes this machine ({machine()}): name a core, "
            "or make one of it with `loopwright calibrate`"
        )
    resolved = [host_core if host_core and name == HOST else name for name in names]
    return microarchs.select(",".join(dict.fromkeys(resolved)), isa)


def machine(facts: Facts | None = None) -> str:
    """Return a short name for a machine (this one): its CPU's name, marked if it is a guest."""
    facts = facts or here()
    board = facts.read("/sys/class/dmi/id/product_name")
    part = f"{facts.isa} part {facts.model:#x}" if facts.model is not None else f"{facts.isa} CPU"
    name = facts.name or (f"{board}, {part}" if board else part)
    return f"{name} (guest)" if facts.guest else name


def slug(machine: str) -> str:
    """Return a machine's name in the form of a folder's name."""
    return re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-")


def of_banner(banner: Mapping[str, Any]) -> tuple[Facts, Recognition]:
    """Return the machine of a run's banner; ValueError if it is invalid."""
    try:
        facts = Facts.of(banner)
        texts = {**banner["identity"], **banner["files"]}
        if not all(isinstance(v, str) for v in texts.values()) or type(banner["cpu"]) is not int:
            raise TypeError("a fact of the machine is not text")
        # Everything that is computed from it later.
        recognition = recognise(facts)
        machine(facts)
        describe_facts(facts)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"no facts of a machine: {error}") from None
    return facts, recognition


def describe() -> dict[str, Any]:
    """Return the record of this host that accompanies every measurement.

    Unreadable facts are None: a guest does not see its host's governor or neighbours.
    """
    return {
        **describe_facts(here()),
        "cpus": len(os.sched_getaffinity(0)),
        "hypervisor": _hypervisor(),
        "stolen_ticks": steal(),
        **_clock(toolchain.host_isa()),
    }


def describe_facts(facts: Facts) -> dict[str, Any]:
    """Return the description of a machine by its facts only; missing ones are None."""
    recognition = recognise(facts)
    release = facts.read("/proc/sys/kernel/osrelease")
    return {
        "machine": machine(facts),
        "cpu": facts.name,
        "isa": facts.isa,
        "microarch": recognition.core,
        "microarch_doubt": recognition.doubt,
        "vendor": facts.vendor or None,
        "family": facts.family,
        "model": facts.model,
        "stepping": facts.stepping,
        "microcode": facts.cpuinfo.get("microcode"),
        "features": sorted(facts.features),
        "caches": {name: f"{size}, {ways} ways" for name, size, ways in _cache_sizes(facts)},
        "kernel": f"Linux {release}" if release else None,
        "smt": facts.of_cpus("smt/active"),
        "siblings": facts.of_cpu("topology/thread_siblings_list"),
        "governor": facts.of_cpu("cpufreq/scaling_governor"),
        "boost": _boost(facts),
        "nmi_watchdog": facts.read("/proc/sys/kernel/nmi_watchdog"),
        "isolated": facts.of_cpus("isolated"),
    }


def _cache_sizes(facts: Facts) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the name, the size and the ways of each cache, such as "L1d", "32K", "8"."""
    for index in _CACHES:
        level, kind, size, ways = (
            facts.of_cpu(f"cache/index{index}/{name}")
            for name in ("level", "type", "size", "ways_of_associativity")
        )
        if level:
            suffix = {"Data": "d", "Instruction": "i"}.get(kind or "", "")
            yield f"L{level}{suffix}", size, ways


def _hypervisor() -> str | None:
    """Return the name of this machine's hypervisor, if it gives one."""
    name = here().read("/sys/hypervisor/type")
    if "hypervisor" not in features():
        return name
    detect = shutil.which("systemd-detect-virt")
    if detect:
        done = subprocess.run([detect, "--vm"], capture_output=True, text=True, check=False)
        return done.stdout.strip() or None
    return name or "yes, unnamed"


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
    """Return the harness's clock here, its CPU, and the reason for no better clock."""
    try:
        record = next(harness.run(isa, harness.clock_job("clock")))
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
