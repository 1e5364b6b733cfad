"""Settings of a machine that bear on measurements: where they are, and what serves best.

Sources: kernel documentation (admin-guide/sysctl/kernel, arch/arm64/perf, admin-guide/pm/cpufreq,
admin-guide/pm/intel_pstate, ABI/testing/sysfs-devices-system-cpu), and perf_event_open(2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Setting:
    """One setting: its files below the root, the value that serves best, and why.

    serves says whether a value already does; a file with a value for which it does is left alone.
    command is what sets it by hand.
    """

    name: str
    pattern: str
    wanted: str
    serves: Callable[[str], bool]
    why: str
    command: str

    def files(self, root: Path) -> list[Path]:
        """Return the files that are here, one or one a CPU."""
        return sorted(p for p in root.glob(self.pattern) if p.is_file())


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _at_most(most: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdecimal() and int(value) <= most


def _sysctl(name: str, value: str) -> str:
    return f"sudo sysctl kernel.{name}={value}"


def _echo(value: str, pattern: str) -> str:
    return f"echo {value} | sudo tee /{pattern}"


# SMT comes last: the files of CPUs that it takes away are still there before, and come back first.
SETTINGS = (
    Setting(
        "paranoid",
        "proc/sys/kernel/perf_event_paranoid",
        "2",
        _at_most(2),
        "above 2, a user may not count cycles",
        _sysctl("perf_event_paranoid", "2"),
    ),
    Setting(
        "rdpmc",
        "sys/bus/event_source/devices/cpu/rdpmc",
        "1",
        _is("1", "2"),
        "at 0, user space may not read the cycle counter",
        _echo("1", "sys/bus/event_source/devices/cpu/rdpmc"),
    ),
    Setting(
        "user-access",
        "proc/sys/kernel/perf_user_access",
        "1",
        _is("1"),
        "at 0, user space may not read the cycle counter (arm64)",
        _sysctl("perf_user_access", "1"),
    ),
    Setting(
        "watchdog",
        "proc/sys/kernel/nmi_watchdog",
        "0",
        _is("0"),
        "the watchdog takes a counter and interrupts",
        _sysctl("nmi_watchdog", "0"),
    ),
    Setting(
        "governor",
        f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor",
        "performance",
        _is("performance"),
        "others change the clock while a burst runs",
        _echo("performance", f"{_CPUS}/cpu*/cpufreq/scaling_governor"),
    ),
    Setting(
        "turbo",
        f"{_CPUS}/intel_pstate/no_turbo",
        "1",
        _is("1"),
        "turbo changes the clock with the load of other cores",
        _echo("1", f"{_CPUS}/intel_pstate/no_turbo"),
    ),
    Setting(
        "boost",
        f"{_CPUS}/cpufreq/boost",
        "0",
        _is("0"),
        "boost changes the clock with the load of other cores",
        _echo("0", f"{_CPUS}/cpufreq/boost"),
    ),
    Setting(
        "smt",
        f"{_CPUS}/smt/control",
        "off",
        _is("off", "forceoff", "notsupported", "notimplemented"),
        "another thread on the core takes part of it",
        _echo("off", f"{_CPUS}/smt/control"),
    ),
)


@dataclass(frozen=True)
class Adjustment:
    """One file that does not hold what serves best."""

    setting: Setting
    path: Path
    now: str


def value(path: Path) -> str | None:
    """Return what a setting's file holds, None where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def changes(root: Path, keep: frozenset[str] = frozenset()) -> list[Adjustment]:
    """Return the files below root that do not serve, but for settings to keep, in order."""
    return [
        Adjustment(setting, path, now)
        for setting in SETTINGS
        if setting.name not in keep
        for path in setting.files(root)
        if (now := value(path)) is not None and not setting.serves(now)
    ]
