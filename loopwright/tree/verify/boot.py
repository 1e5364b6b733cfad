"""Tier boot: a small kernel of the patched tree, booted under QEMU, with faults in its copies.

QEMU interprets: it proves what code does, never how fast it does it.
"""

import re
from functools import partial

from loopwright import toolchain
from loopwright.tree.verify import guest, kunit, machines
from loopwright.tree.verify.building import Build, BuildError, configured
from loopwright.tree.verify.kunit import Suite
from loopwright.tree.verify.machines import Machine
from loopwright.tree.verify.outcomes import Check, CheckError, NotCovered, Tier
from loopwright.tree.verify.overlay import Overlay, hold
from loopwright.tree.verify.subject import PatchedVariant

_COMMON = (
    "64BIT", "PRINTK", "TTY", "BLK_DEV_INITRD", "BINFMT_ELF", "RUNTIME_TESTING_MENU", "KUNIT",
    "EPOLL", "EVENTFD", "PROC_FS", "SYSFS", "FUTEX", "POSIX_TIMERS",
    "MULTIUSER",
)  # fmt: skip
_OPTIONS = {
    "x86_64": ("SERIAL_8250", "SERIAL_8250_CONSOLE", "X86_FEATURE_NAMES"),
    "arm64": ("SERIAL_AMBA_PL011", "SERIAL_AMBA_PL011_CONSOLE", "ARM64_PAN"),
}
_IMAGES = {
    "x86_64": ("bzImage", "arch/x86/boot/bzImage"),
    "arm64": ("Image", "arch/arm64/boot/Image"),
}
_SWEEPS = ("write", "read", "zero", "epoll")


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: one build, then on each machine its features, KUnit, the sweep."""
    machines.program(subject.isa)
    with hold(subject.tree) as overlay:
        builds: list[Build] = []
        suites = kunit.touching(subject)
        if not (yield Check("kernel", lambda: _build(subject, overlay, suites, builds))):
            return
        for machine in machines.MACHINES:
            if machine.isa == subject.isa:
                yield from _machine(subject, builds[0], suites, machine)


def _machine(subject: PatchedVariant, build: Build, suites: list[Suite], machine: Machine) -> Tier:
    console: list[str] = []
    command = machines.command(
        machine, build.folder / _IMAGES[subject.isa][1], guest.initrd(subject.isa), _counts(subject)
    )
    check = Check(f"boot: {machine.name}", lambda: _boot(subject, machine, command, console))
    if not (yield check):
        return
    config = (build.folder / ".config").read_text()
    for suite in suites:
        said = partial(kunit.judge, suite, config, command, console[0])
        yield Check(f"KUnit {suite.name}: {machine.name}", said)
    for sweep in _SWEEPS:
        run = _Sweep(sweep, command, console[0])
        yield Check(f"sweep {sweep}: {machine.name}", run.judge)


def _counts(subject: PatchedVariant) -> list[str]:
    """Return for the guest whose counts are exact and whose may lack progress.

    arm64 counts as not copied what it had not confirmed, and __clear_user() on 6.1 and arm64
    whole words.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", subject.tree.version)[:2])
    if subject.isa == "arm64":
        return ["lw_exact=write", "lw_coarse=zero"]
    if (major, minor) < (6, 4):
        return ["lw_exact=write,read", "lw_coarse=zero"]
    return ["lw_exact=write,read,zero"]


def _build(
    subject: PatchedVariant, overlay: Overlay, suites: list[Suite], builds: list[Build]
) -> str:
    """Build the kernel of the changed tree; what earlier builds left is brought up to date."""
    overlay.put(subject.files)
    isa = subject.isa
    tests = sorted({suite.option for suite in suites if suite.option})
    options = [f"-e {name}" for name in (*_COMMON, *_OPTIONS[isa], *tests)]
    build = configured(overlay, isa, f"{isa}-boot", "tinyconfig", options)
    target, image = _IMAGES[isa]
    done = build.make(target, jobs=toolchain.cpus())
    command = build.command(target, jobs=toolchain.cpus())
    if done.returncode:
        raise BuildError("the patched kernel does not build", command, done.stdout)
    builds.append(build)
    size = (build.folder / image).stat().st_size
    return f"{target} of {size / 1e6:.1f} MB from tinyconfig and {len(options)} options"


def _boot(subject: PatchedVariant, machine: Machine, command: list[str], console: list[str]) -> str:
    if machine.needs and not any(machine.needs in text for text in subject.files.values()):
        raise NotCovered(f"this kernel knows no {machine.needs}")
    said = machines.boot(command)
    lacking = re.search(r"TCG doesn't support requested feature: \S+", said)
    have = set((re.search(r"loopwright: (?:flags|Features)\s*:(.*)", said) or [""] * 2)[1].split())
    odd = [f"no {x}" for x in machine.flags if x not in have]
    odd += [x for x in machine.no_flags if x in have]
    odd += [f"no {machine.console!r}"] if machine.console and machine.console not in said else []
    odd += [machine.no_console] if machine.no_console and machine.no_console in said else []
    if odd and lacking:
        raise NotCovered(f"this QEMU cannot play it: {', '.join(odd)}")
    if odd:
        raise CheckError(f"the kernel does not see the CPU meant: {', '.join(odd)}", command, said)
    console.append(said)
    return f"-cpu {machine.cpu} up, and down again by itself"


class _Sweep:
    """One sweep of the guest over sizes and fault positions."""

    def __init__(self, name: str, command: list[str], console: str) -> None:
        self.name, self.command, self.console = name, command, console

    def judge(self) -> str:
        """Return how many cases held; CheckError with the first that did not."""
        found = re.search(rf"loopwright: {self.name} cases (\d+) failed (\d+) ?(.*)", self.console)
        if "loopwright: setup failed" in self.console or found is None:
            raise CheckError("the guest could not set it up", self.command, self.console)
        cases, failed, first = int(found[1]), int(found[2]), found[3].strip()
        if failed or not cases:
            said = f"{failed} of {cases} cases fail, first: {first}"
            raise CheckError(said, self.command, self.console)
        return f"{cases} cases of sizes and fault positions"
