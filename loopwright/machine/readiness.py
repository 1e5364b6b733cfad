"""Readiness of this machine to measure: clock, limits, and how to lift them.

Rows for `loopwright doctor`: part, state, detail, fix.
"""

from collections.abc import Iterator
from typing import Any

from loopwright import paths
from loopwright.machine import hosts, settings
from loopwright.machine.hosts import Facts
from loopwright.machine.settings import SETTINGS, Setting, journal

_UNKNOWN = "not known here"
_TOLD = (  # of hosts.describe, beside what has a row of its own
    "machine",
    "cpu",
    "isa",
    "vendor",
    "family",
    "model",
    "stepping",
    "microcode",
    "cpus",
    "kernel",
    "hypervisor",
    "pinned_to_cpu",
)


def rows() -> Iterator[dict[str, str]]:
    """Yield what bears on measurements here: the machine, its clock, its settings."""
    found, facts = hosts.describe(), hosts.here()
    yield _row("host microarch", str(found["microarch"] or _UNKNOWN))
    if found["microarch_doubt"]:
        yield _row("host microarch", found["microarch_doubt"], state="limited")
    for key in _TOLD:
        value = found.get(key)
        yield _row(f"host {key.replace('_', ' ')}", _UNKNOWN if value is None else str(value))
    yield clock_row(found, facts)
    for setting in SETTINGS:
        yield setting_row(setting, facts)
    yield _sibling(found)
    yield _isolation(found)
    yield _row(
        "address randomisation", "no matter: code is placed by its offset, data by alignment"
    )
    left = journal()
    if left is not None:
        yield _row(
            "settings left changed",
            f"{len(left['changes'])} files, since {left['command']!r} was run by process "
            f"{left['pid']}",
            "loopwright tune --restore (as root, where that process is gone)",
            state="limited",
        )


def _row(part: str, detail: str, fix: str = "", state: str = "ok") -> dict[str, str]:
    return {"part": part, "state": state, "detail": detail, "fix": fix}


def clock_row(found: dict[str, Any], facts: Facts) -> dict[str, str]:
    """Say which clock there is, and why not the PMU."""
    clock, refused = found["clock"], found["clock_refused"]
    if found["pmu"] and not refused:
        return _row("clock", f"{clock}: core cycles, counted by the PMU")
    why = found["pmu_refused"] or refused
    if refused:
        return _row("clock", f"nothing is measured: {refused}", _mend(why, facts), "limited")
    step = found["clock_granularity_ticks"] / found["clock_ticks_a_second"] * 1e9
    detail = f"{clock}, in steps of {step:.3g} ns, bursts of {found['burst_us']:.0f} us; {why}"
    return _row("clock", detail, _mend(why, facts), "limited")


def _mend(why: str, facts: Facts) -> str:
    """Return what brings a PMU within reach, by what the harness said of it."""
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
    """Say what a setting holds, and how to change it where that would help."""
    held = {p: settings.value(p) for p in setting.files(paths.sysroot())}
    part = f"setting {setting.name}"
    if not held:
        where = "its host decides, or there is none" if facts.guest else "this machine has none"
        return _row(part, f"not visible: {where}")
    values = ", ".join(sorted({v or "unreadable" for v in held.values()}))
    if all(v is not None and setting.serves(v) for v in held.values()):
        return _row(part, values)
    detail = f"{values}: {setting.why}"
    return _row(
        part,
        detail,
        f"{setting.command}; or for one command: sudo loopwright tune -- ...",
        "limited",
    )


def _sibling(found: dict[str, Any]) -> dict[str, str]:
    siblings = found["siblings"]
    if siblings is None:
        return _row("SMT siblings", _UNKNOWN)
    alone = siblings.isdecimal()
    if alone:
        seen = "; its host may put a neighbour there" if found["hypervisor"] else ""
        return _row("SMT siblings", f"CPU {siblings} has no sibling{seen}")
    return _row(
        "SMT siblings",
        f"CPUs {siblings} share a core: what runs on one slows the others",
        _command("smt"),
        "limited",
    )


def _isolation(found: dict[str, Any]) -> dict[str, str]:
    if found["isolated"]:
        return _row("isolated CPUs", found["isolated"])
    return _row(
        "isolated CPUs",
        "none: other work and the timer interrupt bursts, which then are dropped",
        "isolcpus=N nohz_full=N on the kernel's command line, and taskset -c N loopwright ...",
    )
