"""Kernels that run the module: Linux 6.12 with checks of errors built in, booted in QEMU."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from linux_trees import whole_tree

from loopwright import paths, toolchain
from loopwright.linux import boot_tier
from loopwright.linux.boot_tier import Machine
from loopwright.linux.build import configured, hold
from loopwright.portable import kmod

PATIENCE = 300  # seconds for a guest; its checks take 10 on an idle machine
_COMMON = (
    "64BIT", "SMP", "PRINTK", "TTY", "BLK_DEV_INITRD", "BINFMT_ELF", "PROC_FS", "SYSFS",
    "DEBUG_FS", "FUTEX", "POSIX_TIMERS", "MULTIUSER", "MODULES", "MODULE_UNLOAD", "PERF_EVENTS",
    "EPOLL", "EVENTFD", "KALLSYMS", "BUG", "DEBUG_KERNEL", "PROVE_LOCKING", "DEBUG_ATOMIC_SLEEP",
    "DEBUG_LIST", "SOFTLOCKUP_DETECTOR", "CC_OPTIMIZE_FOR_PERFORMANCE",
)  # fmt: skip
_OPTIONS = {
    "x86_64": ("SERIAL_8250", "SERIAL_8250_CONSOLE", "X86_MPPARSE", "CPU_MITIGATIONS"),
    "arm64": (
        "SERIAL_AMBA_PL011", "SERIAL_AMBA_PL011_CONSOLE", "ARM64_PAN", "HW_PERF_EVENTS", "ARM_PMU",
        "ARM_PMUV3", "HOTPLUG_CPU",
    ),
}  # fmt: skip
# Options by the page size in KiB.
_PAGES = {4: [], 64: ["-d ARM64_4K_PAGES", "-e ARM64_64K_PAGES"]}
_IMAGES = {
    "x86_64": ("bzImage", "arch/x86/boot/bzImage"),
    "arm64": ("Image", "arch/arm64/boot/Image"),
}
# Machines that run the module: ISA, QEMU's CPU, and features that the module has to find.
MACHINES = [
    ("x86_64", "max,+smap", {"smap": True}),
    ("x86_64", "max,-smap,-erms", {"smap": False, "erms": False}),
    ("arm64", "max,pauth-impdef=on", {"pan": True}),
    ("arm64", "cortex-a72", {"pan": False}),
]
A_VARIANT = {"x86_64": "x86_64/put_event/masked", "arm64": "arm64/copy_user/to_user_pairs"}
# Writes that the module refuses; {} is the id of a variant.
WRONG = [
    "select variant={} count=1 count=2",
    "select variant={}",
    "select count=1",
    "select variant={} count=-1",
    "select variant={} count=+1",
    "select variant={} count=0x10",
    "select variant={} count=65537",
    "select variant={} count=4294967297",
    "select variant={} count=1 samples=11",
    "select variant={} count=1 samples=257",
    "select variant={} count=1 dst_align=4096",
    "select variant={} count=1 offset=16",
    "select variant={} count=1 user=none",
    "select variant={} count=1 user=kernel",
    "select variant={} count=1 address=0",
    "select variant={} count=1 ",
    "select  variant={} count=1",
    "select variant={}x count=1",
    "select variant={} count=1\tsamples=12",
    "select variant=../../etc/passwd count=1",
    f"select variant={{}} count=1 {'x' * 300}",
    "select ",
    "cpu 2",
    "cpu -1",
    "cpu 4294967296",
    "cpu 0,1",
    "cpu ",
    "run code",
    "run check ",
    "run ",
    f"run {'measure' * 4}",
]
# Messages of a kernel that noticed an error; those of lock checking begin with "INFO:".
_COMPLAINT = re.compile(r"(?m)^.*(?:WARNING:|BUG:|INFO: |Oops|Call Trace|Call trace).*$")


@dataclass(frozen=True)
class Session:
    """A guest's console: returned has the result of each step, read the records that one read."""

    console: str

    @property
    def returned(self) -> dict[str, str]:
        return dict(re.findall(r"(?m)^loopwright: (.*) -> (\w+)$", self.console))

    def read(self, step: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(step) if line.startswith("{")]

    def lines(self, step: str) -> list[str]:
        return re.findall(rf"(?m)^loopwright: {re.escape(step)}\|(.*)$", self.console)

    def line(self, step: str) -> str:
        return self.lines(step)[0]

    @property
    def complaints(self) -> list[str]:
        return _COMPLAINT.findall(self.console)


def kernel(isa: str, pages: int = 4) -> Path:
    """The build folder of a kernel with pages of so many KiB; about 4 minutes the first time."""
    for tool in ("qemu-system-x86_64", "qemu-system-aarch64"):
        if not shutil.which(tool):
            pytest.skip(f"booting kernels needs {tool}: `scripts/setup --boot`")
    options = [f"-e {name}" for name in (*_COMMON, *_OPTIONS[isa])] + _PAGES[pages]
    name = f"{isa}-kmod" if pages == 4 else f"{isa}-kmod-{pages}k"
    with hold(whole_tree("6.12")) as overlay:
        overlay.put({})
        build = configured(overlay, isa, name, "tinyconfig", options)
        done = build.make(_IMAGES[isa][0], "modules", jobs=toolchain.cpus())
    assert not done.returncode, done.stdout[-2000:]
    return build.folder


def boot(
    build: Path,
    module: kmod.Built,
    cpu: str,
    steps: list[str],
    programs: Mapping[str, bytes] = MappingProxyType({}),
) -> Session:
    """Do the steps in a guest of two CPUs that has the module, and programs by name.

    build is a kernel's build folder, or its image.
    """
    # A step is named by its text: equal steps need a further word to tell them apart.
    assert len(set(steps)) == len(steps)
    machine = Machine("kmod", module.isa, cpu, cpus=2)
    files = {"loopwright.ko": module.module.read_bytes(), "steps": "\n".join(steps).encode()}
    files |= programs
    ramdisk = boot_tier.initrd(module.isa, paths.HARNESS / "guest" / "kmod.c", files)
    # An emulated IO-APIC is too slow for the kernel's test of its timer.
    words = ["no_timer_check"] if module.isa == "x86_64" else []
    image = build / _IMAGES[module.isa][1] if build.is_dir() else build
    command = boot_tier.qemu_command(machine, image, ramdisk, words)
    try:
        return Session(boot_tier.boot(command, PATIENCE))
    finally:
        ramdisk.unlink()


def session(built, cpu: str, steps):
    """Run steps in a guest and return its session; assert that the kernel complained of nothing."""
    folder, module = built
    guest = boot(folder, module, cpu, steps)
    assert guest.complaints == []
    assert guest.returned["load"] == "0"
    assert guest.returned["unload"] == "0"
    return guest
