"""What a machine says of itself: its files and registers, read here or in a banner from elsewhere.

All that is concluded about a machine is concluded from Facts, so that a result file from a machine
that was never logged into is read as this one is.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from loopwright import toolchain

_CPUS = "/sys/devices/system/cpu"
_CACHES = range(5)

# What a banner has of the files of its machine; cpuN is the CPU that measurements are pinned to.
FILES = (
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
# volume 2A, CPUID; AMD APM volume 3, appendix E. Only those that decide something here.
_BITS = {
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
    None where there is none.
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
        """Return the machine that an answer to a job of facts describes."""
        return cls(record["isa"], record["cpu"], record["identity"], record["files"].get)

    def of_cpu(self, path: str) -> str | None:
        """Read a file of the CPU that measurements are pinned to, below its folder."""
        return self.read(f"{_CPUS}/cpu{self.cpu}/{path}")

    def of_cpus(self, path: str) -> str | None:
        """Read a file below the folder of all CPUs."""
        return self.read(f"{_CPUS}/{path}")

    @cached_property
    def cpuinfo(self) -> dict[str, str]:
        """What /proc/cpuinfo says of the first CPU; empty where it is another ISA's."""
        first = (self.read("/proc/cpuinfo") or "").split("\n\n")[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        found = {key.strip(): value.strip() for key, value in pairs}
        own = {"x86_64": "vendor_id", "arm64": "CPU part"}.get(self.isa, "")
        return found if own in found else {}

    @cached_property
    def features(self) -> frozenset[str]:
        """The CPU's features by the names of /proc/cpuinfo, from CPUID where that is not there."""
        said = self.cpuinfo.get("flags") or self.cpuinfo.get("Features")
        if said:
            return frozenset(said.split())
        return frozenset(
            n for n, (leaf, at, bit) in _BITS.items() if self._leaf(leaf)[at] >> bit & 1
        )

    @property
    def vendor(self) -> str:
        """The CPU's vendor_id; of an arm64 one the implementer, e.g. 0x41."""
        if self.isa == "arm64":
            midr = self._midr()
            return self.cpuinfo.get("CPU implementer", "") if midr is None else f"{midr >> 24:#04x}"
        _, b, c, d = self._leaf("00000000_0")
        said = b"".join(r.to_bytes(4, "little") for r in (b, d, c)).decode("ascii", "replace")
        return said if b else self.cpuinfo.get("vendor_id", "")

    @property
    def family(self) -> int | None:
        """The family of an x86 CPU."""
        eax = self._leaf("00000001_0")[0]
        if not eax:
            return _number(self.cpuinfo.get("cpu family"))
        base = eax >> 8 & 0xF
        return base + (eax >> 20 & 0xFF) if base == 0xF else base

    @property
    def model(self) -> int | None:
        """The model of an x86 CPU, the part number of an arm64 one."""
        if self.isa == "arm64":
            midr = self._midr()
            return _number(self.cpuinfo.get("CPU part")) if midr is None else midr >> 4 & 0xFFF
        eax = self._leaf("00000001_0")[0]
        if not eax:
            return _number(self.cpuinfo.get("model"))
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
        """The CPU's name as it gives it; of an arm64 one None, or the machine's."""
        text = b"".join(
            register.to_bytes(4, "little")
            for leaf in ("80000002_0", "80000003_0", "80000004_0")
            for register in self._leaf(leaf)
        )
        said = text.decode("ascii", "replace").strip("\0 ") or self.cpuinfo.get("model name")
        return re.sub(r"\s+", " ", said) if said else None

    @property
    def guest(self) -> bool:
        """Say whether the machine is known to be a virtual one."""
        return "hypervisor" in self.features or self.read("/sys/hypervisor/type") is not None

    def _leaf(self, name: str) -> tuple[int, ...]:
        registers = self.identity.get(f"cpuid_{name}", "").split()
        return tuple(int(r, 16) for r in registers) or (0, 0, 0, 0)

    def _midr(self) -> int | None:
        said = self.identity.get("midr_el1")
        return int(said, 16) if said else None


def _number(text: str | None) -> int | None:
    try:
        return int(text or "", 0)
    except ValueError:
        return None
