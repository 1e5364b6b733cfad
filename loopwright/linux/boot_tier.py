"""Tier boot: a small kernel of the patched tree, booted under QEMU, with faults in its copies.

QEMU interprets: it proves what code does, never how fast it does it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from loopwright import kernels, toolchain
from loopwright.kernels.contracts import EFFECTS
from loopwright.linux import build, qemu, routines, trees
from loopwright.linux.build import Build, BuildError, Overlay, configured, hold
from loopwright.linux.qemu import Machine
from loopwright.linux.trees import Tree
from loopwright.linux.verification import (
    Check,
    CheckError,
    NotCovered,
    NotProven,
    PatchedVariant,
    Tier,
)

_ALWAYS = ("KUNIT", "RUNTIME_TESTING_MENU")  # of a kernel that runs them


@dataclass(frozen=True)
class Suite:
    """A suite of KUnit: its name, its source, and the option that has it built."""

    name: str
    file: str
    option: str


def suites_touching(subject: PatchedVariant) -> list[Suite]:
    """Return the suites whose sources call what the subject's routines are used by, or them."""
    names = set()
    for variant in subject.variants:
        names |= {*EFFECTS[kernels.contract_of(variant).effect].interfaces}
        names.add(routines.find(variant, subject.tree).name)
    return suites_calling(subject.tree, subject.isa, names)


def suites_calling(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return the suites whose sources call one of the functions named, or copy to or from a user.

    Those any kernel that boots has to keep.
    """
    wanted = sorted({*names, "copy_to_user", "copy_from_user"})
    called = rf"\b_*(?:{'|'.join(map(re.escape, wanted))})\("
    out = []
    for file in trees.files_holding(tree, isa, "kunit_test_suite", called):
        found = re.findall(
            r"\bstruct\s+kunit_suite\s+\w+\s*=\s*\{[^}]*?\.name\s*=\s*\"([^\"]+)\"",
            tree.read(file),
        )
        out += [Suite(name, file, _option(tree, file)) for name in found]
    return out


def small(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return those of the same that any small kernel can have: they need nothing but KUnit."""
    return [
        suite
        for suite in suites_calling(tree, isa, names)
        if suite.option and suite.file.startswith("lib/")
        if {*build.options_of_source(tree, isa, suite.file)} <= {suite.option, *_ALWAYS}
    ]


def _option(tree: Tree, file: str) -> str:
    """Return the option that has a source built, or nothing where it takes no option of its own."""
    path = PurePosixPath(file)
    makefile = str(path.parent / "Makefile")
    text = tree.read(makefile) if tree.has(makefile) else ""
    named = rf"obj-\$\(CONFIG_(\w+)\)\s*\+=[^\n]*\b{re.escape(path.stem)}\.o\b"
    found = re.search(named, text)
    return found[1] if found else ""


def judge_suite(suite: Suite, config: str, command: list[str], console: str) -> str:
    """Say how a suite ended on a console; CheckError where it failed or was not run.

    NotProven where the configuration (the text of a .config) cannot have it.
    """
    if not re.search(rf"(?m)^CONFIG_{suite.option}=y$", config):
        raise NotProven(f"{suite.file} is not part of this kernel: CONFIG_{suite.option}")
    name = re.escape(suite.name)
    ends = re.findall(rf"(?m)^(?:\[[ \d.]+\] *)?(not ok|ok) \d+ {name}\b", console)
    totals = re.findall(rf"# {name}: (pass:\d+ fail:\d+ skip:\d+ total:\d+)", console)
    if ends != ["ok"]:
        lines = [x.strip() for x in console.splitlines() if "not ok" in x or "EXPECTATION" in x]
        raise CheckError(f"KUnit: {(lines or [f'no result of {suite.name}'])[0]}", command, console)
    return totals[0] if totals else "ok"


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
        """Return the folder of the build."""
        return self._built[0].folder

    @property
    def config(self) -> str:
        """Return the text of its configuration."""
        return (self.folder / ".config").read_text()

    @property
    def machines(self) -> list[Machine]:
        """Return the machines that it is booted on."""
        return [machine for machine in qemu.MACHINES if machine.isa == self.isa]

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
        command = qemu.qemu_command(machine, image, qemu.initrd(self.isa), _counts(self))
        command += watched
        up = partial(self._up, machine, command, console)
        if not (yield Check(f"boot: {machine.name}", up)):
            return
        for suite in self.suites:
            said = partial(judge_suite, suite, self.config, command, console[0])
            yield Check(f"KUnit {suite.name}: {machine.name}", said)
        for sweep in _SWEEPS:
            run = _Sweep(sweep, command, console[0])
            yield Check(f"sweep {sweep}: {machine.name}", run.judge)

    def _up(self, machine: Machine, command: list[str], console: list[str]) -> str:
        if machine.needs and not any(machine.needs in text for text in self.files.values()):
            raise NotCovered(f"this kernel knows no {machine.needs}")
        said = qemu.boot(command)
        if self.fails and (found := self.fails.search(said)):
            raise CheckError(f"the kernel says: {found[0].strip()}", command, said)
        _as_meant(machine, said, command)
        console.append(said)
        return f"-cpu {machine.cpu} up, and down again by itself"


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: one build, then on each machine its features, KUnit, the sweep."""
    qemu.qemu_program(subject.isa)
    with hold(subject.tree) as overlay:
        kernel = Kernel(overlay, subject.isa, subject.files, suites_touching(subject))
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
    """Check the CPU features on a console against those of the machine."""
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
        """Return the count of cases that held; CheckError with the first that did not."""
        found = re.search(rf"loopwright: {self.name} cases (\d+) failed (\d+) ?(.*)", self.console)
        if "loopwright: setup failed" in self.console or found is None:
            raise CheckError("the guest could not set it up", self.command, self.console)
        cases, failed, first = int(found[1]), int(found[2]), found[3].strip()
        if failed or not cases:
            said = f"{failed} of {cases} cases fail, first: {first}"
            raise CheckError(said, self.command, self.console)
        return f"{cases} cases of sizes and fault positions"
