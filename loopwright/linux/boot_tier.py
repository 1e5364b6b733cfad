"""Tier boot: a small kernel of the patched tree, booted under QEMU, with faults in its copies.

QEMU emulates: it shows the behaviour of code, never its speed.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from loopwright import files, kernels, paths, toolchain
from loopwright.errors import InputError
from loopwright.kernels.contracts import EFFECTS
from loopwright.linux import build, routines, trees
from loopwright.linux.build import BuildError, Overlay, configured, hold
from loopwright.linux.trees import Tree
from loopwright.linux.verification import (
    Check,
    CheckError,
    NotCovered,
    NotProven,
    PatchedVariant,
    Tier,
)

TIMEOUT = 300  # seconds; a boot takes 2 to 10, on a loaded machine many times that
_PROGRAMS = {
    "x86_64": ("qemu-system-x86_64", "qemu-system-x86"),
    "arm64": ("qemu-system-aarch64", "qemu-system-arm"),
}
_QEMU_OPTIONS = (
    "-accel", "tcg", "-m", "256", "-nodefaults", "-no-reboot", "-display", "none", "-serial",
    "stdio",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """One CPU to boot on.

    flags and no_flags are features that its kernel has to list or not, console and no_console texts
    that have to be on its console or not.
    """

    name: str
    isa: str
    cpu: str
    append: str = ""
    flags: tuple[str, ...] = ()
    no_flags: tuple[str, ...] = ()
    console: str = ""
    no_console: str = ""
    cpus: int = 1
    needs: str = ""  # a command-line option that the patched kernel must support


_PAN = "detected: Privileged Access Never"
MACHINES = (
    Machine("SMAP, neither ERMS nor FSRM", "x86_64", "EPYC-Rome,-erms,-fsrm",
            flags=("smap",), no_flags=("erms", "fsrm")),
    Machine("SMAP and ERMS, no FSRM", "x86_64", "EPYC-Rome,+erms,-fsrm",
            flags=("smap", "erms"), no_flags=("fsrm",)),
    Machine("SMAP, ERMS and FSRM", "x86_64", "EPYC-Rome,+erms,+fsrm",
            flags=("smap", "erms", "fsrm")),
    Machine("no SMAP, ERMS, FSRM", "x86_64", "EPYC-Rome,-smap,-erms,-fsrm",
            no_flags=("smap", "erms", "fsrm")),
    Machine("PAN", "arm64", "max,pauth-impdef=on", console=_PAN),
    Machine("PAN, as Neoverse N1", "arm64", "neoverse-n1", console=_PAN),
    Machine("no PAN, as Cortex-A72", "arm64", "cortex-a72", no_console=_PAN),
    Machine("PAN off by arm64.nopan", "arm64", "max,pauth-impdef=on", append="arm64.nopan",
            no_console=_PAN, needs="arm64.nopan"),
)  # fmt: skip


def qemu_program(isa: str) -> str:
    """Return QEMU for an ISA; InputError with the package's name where it is missing."""
    name, package = _PROGRAMS[isa]
    program = shutil.which(name)
    if not program:
        raise InputError(f"{name} is missing, which boots kernels: `apt install {package}`")
    return program


def qemu_version(isa: str) -> str:
    """Return the version of QEMU for an ISA, e.g. "QEMU 7.2.22"."""
    done = subprocess.run(
        [qemu_program(isa), "--version"], capture_output=True, text=True, check=False
    )
    version = re.search(r"version (\S+)", done.stdout)
    return f"QEMU {version[1]}" if version else "QEMU"


def qemu_command(machine: Machine, kernel: Path, initrd: Path, words: list[str]) -> list[str]:
    """Return the command that boots a kernel; words are added to the kernel's command line."""
    board = ["-M", "virt"] if machine.isa == "arm64" else []
    console = "ttyAMA0" if machine.isa == "arm64" else "ttyS0"
    command_line = ["console=" + console, "panic=-1", "nokaslr", *words, machine.append]
    return [
        qemu_program(machine.isa), *board, *_QEMU_OPTIONS, "-cpu", machine.cpu,
        "-smp", f"{machine.cpus},sockets={machine.cpus}", "-kernel", str(kernel),
        "-initrd", str(initrd), "-append", " ".join(filter(None, command_line)),
    ]  # fmt: skip


def boot(command: list[str], timeout: float = TIMEOUT) -> str:
    """Run the command of a boot and return its console; CheckError if it takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        raise CheckError(f"it is not done after {timeout} s", command, output) from None
    console = done.stdout.replace("\r", "")
    if "loopwright: done" not in console:
        raise CheckError(f"it did not get through: {_cause(console)}", command, console)
    return console


def _cause(console: str) -> str:
    """Return the console's line that best explains its end."""
    lines = [x.strip() for x in console.splitlines() if x.strip()] or ["nothing on the console"]
    errors = [x for x in lines if re.search(r"BUG:|Oops|Kernel panic|general protection|rror", x)]
    return (errors or lines[-1:])[0]


_INIT = paths.HARNESS / "guest" / "init.c"
_INIT_FLAGS = ["-O2", "-static", "-std=gnu11", "-Wall", "-Wextra"]


def initrd(
    isa: str, source: Path = _INIT, extra_files: Mapping[str, bytes] = MappingProxyType({})
) -> Path:
    """Return the ramdisk for an ISA, made now if it does not exist yet.

    source is the C program that the kernel runs; extra_files are by name.
    """
    tools = toolchain.find(isa)
    contents = (repr(item).encode() for item in extra_files.items())
    ingredients = (source.read_bytes(), repr(_INIT_FLAGS).encode(), *contents)
    key = hashlib.sha256(b"".join(ingredients)).hexdigest()[:16]
    path = paths.build_dir() / "verify" / f"initrd-{isa}-{key}.cpio"

    def make(part: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "init")
            command = [tools.gcc, *_INIT_FLAGS, str(source), "-o", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
                raise InputError(f"the guest's program does not compile for {isa}: {reason}")
            entries = [("dev", 0o040755, b""), ("init", 0o100755, program.read_bytes())]
            entries += [(name, 0o100755, content) for name, content in extra_files.items()]
            part.write_bytes(_newc(entries))

    return files.made_once(path, make)


def _newc(files: list[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive of files (name, mode, content) in the kernel's format.

    See Documentation/driver-api/early-userspace/buffer-format.rst. The console is a device node,
    which needs no root in this format.
    """
    out = b""
    entries = [(name, mode, content, (0, 0)) for name, mode, content in files]
    entries.insert(1, ("dev/console", 0o020600, b"", (5, 1)))
    for number, (name, mode, content, device) in enumerate(
        [*entries, ("TRAILER!!!", 0, b"", (0, 0))]
    ):
        fields = [
            number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0,
        ]  # fmt: skip
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += header + b"\0" * (-len(header) % 4) + content + b"\0" * (-len(content) % 4)
    return out


# QEMU must not chain blocks to each other, or it would not log the entry of each.
_LOGGED = "nochain,exec"
_ENTERED = re.compile(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/")


def log_options(log: Path, addresses: Iterable[int]) -> list[str]:
    """Return options of QEMU that log each jump to one of the addresses.

    A block begins at the target of a jump, and nowhere else in code that falls through to it.
    """
    ranges = ",".join(f"{address:#x}+1" for address in sorted(addresses))
    return ["-d", _LOGGED, "-dfilter", ranges, "-D", str(log)]


def entered_counts(log: Path) -> Counter[int]:
    """Return the jumps to each address in such a log; all 0 without one."""
    counts: Counter[int] = Counter()
    if log.exists():
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if entered := _ENTERED.match(line):
                    counts[int(entered[1], 16)] += 1
    return counts


_KUNIT_OPTIONS = ("KUNIT", "RUNTIME_TESTING_MENU")  # options of every kernel with KUnit


@dataclass(frozen=True)
class Suite:
    """A suite of KUnit: its name, its source, and its configuration option."""

    name: str
    file: str
    option: str


def suites_touching(subject: PatchedVariant) -> list[Suite]:
    """Return the suites whose sources call the subject's routines or their interfaces."""
    names = set()
    for variant in subject.variants:
        names |= {*EFFECTS[kernels.contract_of(variant).effect].interfaces}
        names.add(routines.find(variant, subject.tree).name)
    return suites_calling(subject.tree, subject.isa, names)


def suites_calling(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return the suites whose sources call one of the functions, or copy to or from a user.

    The latter apply to any kernel that boots.
    """
    functions = sorted({*names, "copy_to_user", "copy_from_user"})
    call = rf"\b_*(?:{'|'.join(map(re.escape, functions))})\("
    out = []
    for file in trees.files_holding(tree, isa, "kunit_test_suite", call):
        suite_names = re.findall(
            r"\bstruct\s+kunit_suite\s+\w+\s*=\s*\{[^}]*?\.name\s*=\s*\"([^\"]+)\"", tree.read(file)
        )
        ways = build.ways_to_build(tree, file)
        option = next((way[0] for way in ways if len(way) == 1), "")  # "": it takes none of its own
        out += [Suite(name, file, option) for name in suite_names]
    return out


def suites_of_small_kernel(tree: Tree, isa: str, names: Collection[str]) -> list[Suite]:
    """Return the suites of suites_calling that need only KUnit: any small kernel can have them."""
    return [
        suite
        for suite in suites_calling(tree, isa, names)
        if suite.option and suite.file.startswith("lib/")
        if {*build.options_of_source(tree, isa, suite.file)} <= {suite.option, *_KUNIT_OPTIONS}
    ]


def judge_suite(suite: Suite, config: str, command: list[str], console: str) -> str:
    """Return the result of a suite on a console; CheckError if it failed or did not run.

    NotProven if the configuration (the text of a .config) cannot have it.
    """
    if not re.search(rf"(?m)^CONFIG_{suite.option}=y$", config):
        raise NotProven(f"{suite.file} is not part of this kernel: CONFIG_{suite.option}")
    name = re.escape(suite.name)
    verdicts = re.findall(rf"(?m)^(?:\[[ \d.]+\] *)?(not ok|ok) \d+ {name}\b", console)
    totals = re.findall(rf"# {name}: (pass:\d+ fail:\d+ skip:\d+ total:\d+)", console)
    if verdicts != ["ok"]:
        lines = [x.strip() for x in console.splitlines() if "not ok" in x or "EXPECTATION" in x]
        raise CheckError(f"KUnit: {(lines or [f'no result of {suite.name}'])[0]}", command, console)
    return totals[0] if totals else "ok"


_GUEST_OPTIONS = (
    "64BIT", "PRINTK", "TTY", "BLK_DEV_INITRD", "BINFMT_ELF", "RUNTIME_TESTING_MENU", "KUNIT",
    "EPOLL", "EVENTFD", "PROC_FS", "SYSFS", "FUTEX", "POSIX_TIMERS",
    "MULTIUSER",
)  # fmt: skip
_ISA_OPTIONS = {
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
    """A small kernel of a tree with changed files, and the tests of its guests.

    options are set in addition to those that a guest needs, as for scripts/config ("-e CRYPTO");
    suites are KUnit's. A line of a console that matches fails is an error of the kernel.
    """

    overlay: Overlay
    isa: str
    files: Mapping[str, str]
    suites: Sequence[Suite]
    options: Sequence[str] = ()
    fails: re.Pattern[str] | None = None
    folder: Path = field(init=False)  # of the build
    console: str = field(init=False)  # of the machine that was booted last

    @property
    def config(self) -> str:
        return (self.folder / ".config").read_text()

    @property
    def machines(self) -> list[Machine]:
        return [machine for machine in MACHINES if machine.isa == self.isa]

    def build(self) -> str:
        """Build it; files of earlier builds are updated."""
        self.overlay.put(self.files)
        suite_options = sorted({suite.option for suite in self.suites if suite.option})
        names = dict.fromkeys((*_GUEST_OPTIONS, *_ISA_OPTIONS[self.isa], *suite_options))
        options = list(dict.fromkeys((*(f"-e {name}" for name in names), *self.options)))
        build = configured(self.overlay, self.isa, f"{self.isa}-boot", "tinyconfig", options)
        target, image = _IMAGES[self.isa]
        done = build.make(target, jobs=toolchain.cpus())
        if done.returncode:
            command = build.command(target, jobs=toolchain.cpus())
            raise BuildError("the patched kernel does not build", command, done.stdout)
        self.folder = build.folder
        size = (build.folder / image).stat().st_size
        return f"{target} of {size / 1e6:.1f} MB from tinyconfig and {len(options)} options"

    def boot(self, machine: Machine, watched: Sequence[str] = ()) -> Tier:
        """Yield the checks on a machine: its features, KUnit, the sweeps.

        watched are options of QEMU that log executed code.
        """
        image = self.folder / _IMAGES[self.isa][1]
        command = qemu_command(machine, image, initrd(self.isa), _count_words(self))
        command += watched
        if not (yield Check(f"boot: {machine.name}", partial(self._up, machine, command))):
            return
        for suite in self.suites:
            judged = partial(judge_suite, suite, self.config, command, self.console)
            yield Check(f"KUnit {suite.name}: {machine.name}", judged)
        for sweep in _SWEEPS:
            swept = partial(judge_sweep, sweep, command, self.console)
            yield Check(f"sweep {sweep}: {machine.name}", swept)

    def _up(self, machine: Machine, command: list[str]) -> str:
        if machine.needs and not any(machine.needs in text for text in self.files.values()):
            raise NotCovered(f"this kernel knows no {machine.needs}")
        output = boot(command)
        if self.fails and (message := self.fails.search(output)):
            raise CheckError(f"the kernel says: {message[0].strip()}", command, output)
        _check_features(machine, output, command)
        self.console = output
        return f"-cpu {machine.cpu} up, and down again by itself"


def checks(subject: PatchedVariant) -> Tier:
    """Yield the tier's checks: one build, then on each machine its features, KUnit, the sweep."""
    qemu_program(subject.isa)
    with hold(subject.tree) as overlay:
        kernel = Kernel(overlay, subject.isa, subject.files, suites_touching(subject))
        if not (yield Check("kernel", kernel.build)):
            return
        for machine in kernel.machines:
            yield from kernel.boot(machine)


def _count_words(kernel: Kernel) -> list[str]:
    """Return the guest's options for counts that are exact, and for those in whole words.

    arm64 counts unconfirmed bytes as not copied, and __clear_user() on 6.1 and arm64 counts whole
    words.
    """
    major, minor = (int(n) for n in re.findall(r"\d+", kernel.overlay.tree.version)[:2])
    if kernel.isa == "arm64":
        return ["lw_exact=write", "lw_coarse=zero"]
    if (major, minor) < (6, 4):
        return ["lw_exact=write,read", "lw_coarse=zero"]
    return ["lw_exact=write,read,zero"]


def _check_features(machine: Machine, output: str, command: list[str]) -> None:
    """Check the CPU features on a console against those of the machine.

    NotCovered if QEMU cannot emulate them.
    """
    lacking = re.search(r"TCG doesn't support requested feature: \S+", output)
    match = re.search(r"loopwright: (?:flags|Features)\s*:(.*)", output)
    features = match[1].split() if match else []
    differences = [f"no {x}" for x in machine.flags if x not in features]
    differences += [x for x in machine.no_flags if x in features]
    if machine.console not in output:  # "" is in any
        differences.append(f"no {machine.console!r}")
    if machine.no_console and machine.no_console in output:
        differences.append(machine.no_console)
    if differences and lacking:
        raise NotCovered(f"this QEMU cannot play it: {', '.join(differences)}")
    if differences:
        raise CheckError(
            f"the kernel does not see the CPU meant: {', '.join(differences)}", command, output
        )


def judge_sweep(sweep: str, command: list[str], console: str) -> str:
    """Return the number of cases of a sweep over sizes and fault positions that held.

    CheckError with the first one that did not.
    """
    match = re.search(rf"loopwright: {sweep} cases (\d+) failed (\d+) ?(.*)", console)
    if "loopwright: setup failed" in console or match is None:
        raise CheckError("the guest could not set it up", command, console)
    cases, failed, first = int(match[1]), int(match[2]), match[3].strip()
    if failed or not cases:
        raise CheckError(f"{failed} of {cases} cases fail, first: {first}", command, console)
    return f"{cases} cases of sizes and fault positions"
