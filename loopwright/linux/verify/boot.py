"""Tier boot: a small kernel of the patched tree, booted under QEMU, with faults in its copies.

QEMU interprets: it proves what code does, never how fast it does it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from loopwright import toolchain
from loopwright.linux.trees import Tree
from loopwright.linux.verify import guest, kunit, machines
from loopwright.linux.verify.building import Build, BuildError, configured
from loopwright.linux.verify.kunit import Suite
from loopwright.linux.verify.machines import Machine
from loopwright.linux.verify.outcomes import Check, CheckError, NotCovered, Tier
from loopwright.linux.verify.overlay import Overlay, hold
from loopwright.linux.verify.subject import PatchedVariant

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


@dataclass
class Kernel:
    """A small kernel of a tree with changed files: what is built, and what its guests are asked.

    options are set beside those that a guest needs, as scripts/config takes them ("-e CRYPTO");
    suites are KUnit's. A line of a console that fails matches says that the kernel found an error.
    """

    overlay: Overlay
    isa: str
    files: Mapping[str, str]
    suites: Sequence[Suite]
    options: Sequence[str] = ()
    fails: re.Pattern[str] | None = None
    _built: list[Build] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        """Return the tree that it is made of."""
        return self.overlay.tree

    @property
    def folder(self) -> Path:
        """Return where it was built."""
        return self._built[0].folder

    @property
    def config(self) -> str:
        """Return the text of its configuration."""
        return (self.folder / ".config").read_text()

    @property
    def machines(self) -> list[Machine]:
        """Return the machines that it is booted on."""
        return [machine for machine in machines.MACHINES if machine.isa == self.isa]

    def build(self) -> str:
        """Build it; what earlier builds left is brought up to date."""
        self.overlay.put(self.files)
        tests = sorted({suite.option for suite in self.suites if suite.option})
        names = dict.fromkeys((*_COMMON, *_OPTIONS[self.isa], *tests))
        options = list(dict.fromkeys((*(f"-e {name}" for name in names), *self.options)))
        build = configured(self.overlay, self.isa, f"{self.isa}-boot", "tinyconfig", options)
        target, image = _IMAGES[self.isa]
        done = build.make(target, jobs=toolchain.cpus())
        if done.returncode:
            command = build.command(target, jobs=toolchain.cpus())
            raise BuildError("the patched kernel does not build", command, done.stdout)
        self._built.append(build)
        size = (build.folder / image).stat().st_size
        return f"{target} of {size / 1e6:.1f} MB from tinyconfig and {len(options)} options"

    def boot(self, machine: Machine, watched: Sequence[str] = ()) -> Tier:
        """Yield the checks on a machine: its features, KUnit, the sweeps.

        watched are options of QEMU that have it log what ran.
        """
        console: list[str] = []
        image = self.folder / _IMAGES[self.isa][1]
        command = machines.command(machine, image, guest.initrd(self.isa), _counts(self))
        command += watched
        up = partial(self._up, machine, command, console)
        if not (yield Check(f"boot: {machine.name}", up)):
            return
        for suite in self.suites:
            said = partial(kunit.judge, suite, self.config, command, console[0])
            yield Check(f"KUnit {suite.name}: {machine.name}", said)
        for sweep in _SWEEPS:
            run = _Sweep(sweep, command, console[0])
            yield Check(f"sweep {sweep}: {machine.name}", run.judge)

    def _up(self, machine: Machine, command: list[str], console: list[str]) -> str:
        if machine.needs and not any(machine.needs in text for text in self.files.values()):
            raise NotCovered(f"this kernel knows no {machine.needs}")
        said = machines.boot(command)
        if self.fails and (found := self.fails.search(said)):
            raise CheckError(f"the kernel says: {found[0].strip()}", command, said)
        _as_meant(machine, said, command)
        console.append(said)
        return f"-cpu {machine.cpu} up, and down again by itself"


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: one build, then on each machine its features, KUnit, the sweep."""
    machines.program(subject.isa)
    with hold(subject.tree) as overlay:
        kernel = Kernel(overlay, subject.isa, subject.files, kunit.touching(subject))
        if not (yield Check("kernel", kernel.build)):
            return
        for machine in kernel.machines:
            yield from kernel.boot(machine)


def _counts(kernel: Kernel) -> list[str]:
    """Return for the guest whose counts are exact and whose may lack progress.

    arm64 counts as not copied what it had not confirmed, and __clear_user() on 6.1 and arm64
    whole words.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", kernel.tree.version)[:2])
    if kernel.isa == "arm64":
        return ["lw_exact=write", "lw_coarse=zero"]
    if (major, minor) < (6, 4):
        return ["lw_exact=write,read", "lw_coarse=zero"]
    return ["lw_exact=write,read,zero"]


def _as_meant(machine: Machine, said: str, command: list[str]) -> None:
    """Hold what a console says of the CPU to what the machine is meant to be."""
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
