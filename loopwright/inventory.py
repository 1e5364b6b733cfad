"""The verb doctor: installed and missing parts, and the machine's readiness to measure."""

import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopwright import kernels, paths, toolchain
from loopwright.errors import InputError, extras
from loopwright.machine import hosts
from loopwright.machine.hosts import Facts
from loopwright.measuring.store import Store
from loopwright.predicting.model import Model
from loopwright.predicting.models import MODELS
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True)
class Setting:
    """One setting: its files below the root, the best value, and the reason.

    serves is True for a value that is good enough. command is the shell command for the best one.
    """

    name: str
    pattern: str
    wanted: str
    serves: Callable[[str], bool]
    why: str
    command: str

    def files(self, root: Path) -> list[Path]:
        """Return the files that exist here: one, or one for each CPU."""
        return sorted(p for p in root.glob(self.pattern) if p.is_file())


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _at_most(most: int) -> Callable[[str], bool]:
    return lambda value: value.lstrip("-").isdecimal() and int(value) <= most


def _sysctl(name: str, value: str) -> str:
    return f"sudo sysctl kernel.{name}={value}"


def _echo(value: str, pattern: str) -> str:
    return f"echo {value} | sudo tee /{pattern}"


# SMT comes last: switching it off removes the files of CPUs.
SETTINGS = (
    Setting("paranoid", "proc/sys/kernel/perf_event_paranoid", "2", _at_most(2),
            "above 2, a user may not count cycles", _sysctl("perf_event_paranoid", "2")),
    Setting("rdpmc", "sys/bus/event_source/devices/cpu/rdpmc", "1", _is("1", "2"),
            "at 0, user space may not read the cycle counter",
            _echo("1", "sys/bus/event_source/devices/cpu/rdpmc")),
    Setting("user-access", "proc/sys/kernel/perf_user_access", "1", _is("1"),
            "at 0, user space may not read the cycle counter (arm64)",
            _sysctl("perf_user_access", "1")),
    Setting("watchdog", "proc/sys/kernel/nmi_watchdog", "0", _is("0"),
            "the watchdog takes a counter and interrupts", _sysctl("nmi_watchdog", "0")),
    Setting("governor", f"{_CPUS}/cpu[0-9]*/cpufreq/scaling_governor", "performance",
            _is("performance"), "others change the clock while a burst runs",
            _echo("performance", f"{_CPUS}/cpu*/cpufreq/scaling_governor")),
    Setting("turbo", f"{_CPUS}/intel_pstate/no_turbo", "1", _is("1"),
            "turbo changes the clock with the load of other cores",
            _echo("1", f"{_CPUS}/intel_pstate/no_turbo")),
    Setting("boost", f"{_CPUS}/cpufreq/boost", "0", _is("0"),
            "boost changes the clock with the load of other cores",
            _echo("0", f"{_CPUS}/cpufreq/boost")),
    Setting("smt", f"{_CPUS}/smt/control", "off",
            _is("off", "forceoff", "notsupported", "notimplemented"),
            "another thread on the core takes part of it", _echo("off", f"{_CPUS}/smt/control")),
)  # fmt: skip


def setting_value(path: Path) -> str | None:
    """Return the value in a setting's file, None if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


_UNKNOWN = "not known here"
_HOST_KEYS = (  # keys of hosts.describe without a row of their own
    "machine", "cpu", "isa", "vendor", "family", "model", "stepping", "microcode", "cpus", "kernel",
    "hypervisor", "pinned_to_cpu",
)  # fmt: skip


def readiness_rows() -> Iterator[dict[str, str]]:
    """Yield a row for the machine, its clock and each setting."""
    host, facts = hosts.describe(), hosts.here()
    yield _readiness_row("host microarch", str(host["microarch"] or _UNKNOWN))
    if host["microarch_doubt"]:
        yield _readiness_row("host microarch", host["microarch_doubt"], state="limited")
    for key in _HOST_KEYS:
        value = host.get(key)
        yield _readiness_row(
            f"host {key.replace('_', ' ')}", _UNKNOWN if value is None else str(value)
        )
    yield clock_row(host, facts)
    for setting in SETTINGS:
        yield setting_row(setting, facts)
    yield _siblings_row(host)
    yield _isolation_row(host)
    yield _readiness_row(
        "address randomisation", "no matter: code is placed by its offset, data by alignment"
    )


def _readiness_row(part: str, detail: str, fix: str = "", state: str = "ok") -> dict[str, str]:
    return {"part": part, "state": state, "detail": detail, "fix": fix}


def clock_row(host: dict[str, Any], facts: Facts) -> dict[str, str]:
    """Return the row of the clock, with the reason for not using the PMU."""
    clock, refused = host["clock"], host["clock_refused"]
    if host["pmu"] and not refused:
        return _readiness_row("clock", f"{clock}: core cycles, counted by the PMU")
    why = host["pmu_refused"] or refused
    if refused:
        return _readiness_row(
            "clock", f"nothing is measured: {refused}", _fix(why, facts), "limited"
        )
    step = host["clock_granularity_ticks"] / host["clock_ticks_a_second"] * 1e9
    detail = f"{clock}, in steps of {step:.3g} ns, bursts of {host['burst_us']:.0f} us; {why}"
    return _readiness_row("clock", detail, _fix(why, facts), "limited")


def _fix(why: str, facts: Facts) -> str:
    """Return the remedy for the harness's reason to use no PMU."""
    if "no PMU" in why:
        if facts.guest:
            return (
                "measure on bare metal (`loopwright kit` needs nothing there), or give this guest "
                "a PMU: QEMU -cpu host,pmu=on; libvirt <pmu state='on'/>"
            )
        return "switch the PMU on in the firmware, or boot a kernel with CONFIG_PERF_EVENTS"
    if "not implemented" in why:
        return "leave the emulator, or the container whose seccomp filter hides perf_event_open"
    if "ermission denied" in why or "not permitted" in why:
        return _command("paranoid")
    if "may not read" in why:
        return _command("user-access" if facts.isa == "arm64" else "rdpmc")
    return "" if not why else "see harness/README.md, Limits"


def _command(name: str) -> str:
    return next(s.command for s in SETTINGS if s.name == name)


def setting_row(setting: Setting, facts: Facts) -> dict[str, str]:
    """Return the row of a setting: its value, and the command that would improve it."""
    values = [setting_value(path) for path in setting.files(paths.sysroot())]
    part = f"setting {setting.name}"
    if not values:
        why = "its host decides, or there is none" if facts.guest else "this machine has none"
        return _readiness_row(part, f"not visible: {why}")
    listed = ", ".join(sorted({value or "unreadable" for value in values}))
    if all(value is not None and setting.serves(value) for value in values):
        return _readiness_row(part, listed)
    return _readiness_row(part, f"{listed}: {setting.why}", setting.command, "limited")


def _siblings_row(host: dict[str, Any]) -> dict[str, str]:
    siblings = host["siblings"]
    if siblings is None:
        return _readiness_row("SMT siblings", _UNKNOWN)
    if siblings.isdecimal():
        doubt = "; its host may put a neighbour there" if host["hypervisor"] else ""
        return _readiness_row("SMT siblings", f"CPU {siblings} has no sibling{doubt}")
    return _readiness_row(
        "SMT siblings",
        f"CPUs {siblings} share a core: what runs on one slows the others",
        _command("smt"),
        "limited",
    )


def _isolation_row(host: dict[str, Any]) -> dict[str, str]:
    if host["isolated"]:
        return _readiness_row("isolated CPUs", host["isolated"])
    return _readiness_row(
        "isolated CPUs",
        "none: other work and the timer interrupt bursts, which then are dropped",
        "isolcpus=N nohz_full=N on the kernel's command line, and taskset -c N loopwright ...",
    )


_BUILD_PROGRAMS = ("make", "flex", "bison", "bc")  # of packages of the same names
_PROGRAMS = (  # use, program, package
    ("patch --verify boot", "qemu-system-x86_64", "qemu-system-x86"),
    ("patch --verify boot", "qemu-system-aarch64", "qemu-system-arm"),
    ("browser test", "chromium", "chromium"),
    ("browser test", "chromedriver", "chromium-driver"),
)


def doctor() -> "pd.DataFrame":
    """Return one row a part: state is "ok", "missing" or "limited"; fix how to get it."""
    return doctor_rows().frame()


def doctor_rows() -> Rows:
    """Return the rows of doctor."""
    rows = [_part_row(f"model {m.id}", m.version) for m in MODELS]
    rows += [_part_row(f"compiler {isa}", partial(_compiler_version, isa)) for isa in kernels.ISAS]
    rows += [_part_row(f"run {isa}", partial(_runner_version, isa)) for isa in kernels.ISAS]
    rows += [
        _part_row("git", partial(_program_version, "git", "apt install git")),
        _part_row("perl (checkpatch)", partial(_program_version, "perl", "apt install perl")),
        *(_part_row(f"kernel build: {p}", partial(_program_path, p, p)) for p in _BUILD_PROGRAMS),
        _part_row("kernel module: headers", _kernel_headers),
        *(
            _part_row(f"{use}: {program}", partial(_program_path, program, package))
            for use, program, package in _PROGRAMS
        ),
        _part_row("results store", _store_summary),
    ]
    rows += [
        _part_row(f"extra {name}", partial(_extra_modules, name, modules))
        for name, modules in extras().items()
    ]
    return Rows.of([*rows, *readiness_rows()])


def model_state(model: Model) -> dict[str, str]:
    """Return a model's version, or the way to install it."""
    row = _part_row(model.id, model.version)
    return {key: row[key] for key in ("state", "detail", "fix")}


def _part_row(part: str, find: Callable[[], str]) -> dict[str, str]:
    try:
        return {"part": part, "state": "ok", "detail": find(), "fix": ""}
    except InputError as error:
        detail, _, fix = str(error).partition(": ")
        return {"part": part, "state": "missing", "detail": detail, "fix": fix}


def _extra_modules(name: str, modules: list[str]) -> str:
    if missing := [module for module in modules if find_spec(module) is None]:
        raise InputError(f"{', '.join(missing)} not installed: pip install 'loopwright[{name}]'")
    return ", ".join(modules)


def _compiler_version(isa: str) -> str:
    return _first_line(toolchain.find(isa).gcc)


def _runner_version(isa: str) -> str:
    tools = toolchain.find(isa)
    if tools.native:
        return "this machine"
    if not shutil.which(tools.run[0]):
        raise InputError(f"no emulator for {isa}: install it with `apt install qemu-user`")
    return f"{_first_line(tools.run[0])} (correctness only, no timing)"


def _program_path(program: str, package: str) -> str:
    path = shutil.which(program)
    if not path:
        raise InputError(f"no {program}: install it with `apt install {package}`")
    return path


def _kernel_headers() -> str:
    """Return the folder of the running kernel's headers, which the kernel module needs."""
    release = platform.release()
    build = Path("/lib/modules") / release / "build"
    if not build.exists():
        package = "linux-headers-" + release
        raise InputError(f"no headers of {release}: install them with `apt install {package}`")
    return str(build)


def _store_summary() -> str:
    with closing(Store.open()) as store:
        return f"{store.path}: {len(store.runs())} runs"


def _program_version(program: str, fix: str) -> str:
    if not shutil.which(program):
        raise InputError(f"no {program}: install it with `{fix}`")
    return _first_line(program)


def _first_line(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[0].strip() if lines else program
