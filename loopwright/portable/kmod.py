"""The kernel module: variants run in the kernel, with its own macros and real user memory."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import files, kernels, paths, toolchain
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.kernels.contracts import EFFECTS
from loopwright.machine import harness
from loopwright.measuring import readings
from loopwright.paths import VERSION

_HEAD = "/* SPDX-License-Identifier: GPL-2.0-or-later */\n/* Written by loopwright kmod. */\n"
_OBJECTS = (
    "module", "run", "check", "effect", "measure", "meter", "readings", "judge", "chain_calls",
    "records", "select", "arch", "chains", "list",
)  # fmt: skip
_FEATURES = {
    "x86_64": {
        name: f"boot_cpu_has(X86_FEATURE_{name.upper()})" for name in ("erms", "fsrm", "adx")
    },
    "arm64": {"pan": "cpus_have_cap(ARM64_HAS_PAN)"},
}
_WIDE = {"eax": "rax", "ebx": "rbx", "ecx": "rcx", "edx": "rdx", "esi": "rsi", "edi": "rdi"}


@dataclass(frozen=True)
class ModuleVariant:
    """A variant at one code offset in the module.

    number names its files and symbols; object is the hash of its code in user space, source the
    text of its source file.
    """

    number: str
    variant: Variant
    isa: str
    contract: Contract
    offset: int
    object: str
    source: str

    @property
    def since(self) -> tuple[int, int]:
        """The first Linux version with everything that its text uses."""
        versions = [r.since.split(".") for r in self.variant.requires]
        return max(((int(v[0]), int(v[1])) for v in versions), default=(0, 0))

    @property
    def gate(self) -> str:
        """The one who opens user memory: the routine if it has stac and clac, else its caller."""
        if self.isa != "x86_64" or not self.contract.faulting:
            return "GATE_NONE"
        own = "X86_FEATURE_SMAP" in self.variant.alternatives
        return "GATE_ROUTINE" if own else "GATE_CALLER"

    @property
    def needs(self) -> list[str]:
        """The CPU features that it needs."""
        return sorted({*self.variant.needs})

    @property
    def lacks(self) -> list[str]:
        """The CPU features that a CPU must lack to choose it."""
        lacks = {*self.variant.switched_off}
        if _COPY_HEADER in self.source:
            # The code of copy_to_user() depends on the features of the CPU.
            taken = {a.removeprefix("X86_FEATURE_").lower() for a in self.variant.alternatives}
            lacks |= set() if "fsrm" in taken else {"fsrm", "erms"} - taken
        return sorted(lacks)

    @property
    def untaken(self) -> list[str]:
        """The features whose alternatives it leaves at the old instruction.

        The kernel decides on those that guard user memory, and against speculation.
        """
        named = set(re.findall(r"\bX86_FEATURE_\w+", self.source))
        kept = {*self.variant.alternatives, "X86_FEATURE_SMAP", "X86_FEATURE_LFENCE_RDTSC"}
        return sorted(named - kept)

    def guarded(self, body: str) -> str:
        """Return text that a kernel older than its first version leaves out."""
        if self.since == (0, 0):
            return body
        major, minor = self.since
        condition = f"LINUX_VERSION_CODE >= KERNEL_VERSION({major}, {minor}, 0)"
        return f"#include <linux/version.h>\n#if {condition}\n{body}#endif\n"


def _wide(isa: str, register: str) -> str:
    """Return the assembler's name of a contract's register in 64 bits."""
    if isa == "arm64":
        return "x" + register[1:]
    return "%" + _WIDE.get(register, register.removesuffix("d") if "r" in register else register)


def _place(v: ModuleVariant, line: str) -> str:
    """Return lines that put a function at its code offset; @ in line stands for a directive.

    A kernel may pad functions before their start, by their alignment. They are then placed earlier
    by as much.
    """

    fill = ", 0x90" if v.isa == "x86_64" else ""  # objtool rejects unreachable bytes

    def place(skip: int) -> str:
        words = [".text", ".balign 64", *([f".skip {skip}{fill}"] if skip else [])]
        return "".join(line.replace("@", word) + "\n" for word in words)

    padded = "defined(CONFIG_CALL_PADDING) && CONFIG_FUNCTION_ALIGNMENT == 16"
    return f"#if {padded}\n{place((v.offset - 16) % 64)}#else\n{place(v.offset)}#endif\n"


def _wrapper(v: ModuleVariant) -> str:
    """Return the file that builds a variant under its own name."""
    include = f"kernels/{v.variant.kernel}/{v.variant.source.name}"
    renamed = f"#define {v.contract.symbol} loopwright_v{v.number}\n"
    unexported = "#undef EXPORT_SYMBOL\n#define EXPORT_SYMBOL(symbol)\n"
    if v.variant.source.suffix == ".S":
        features = "#include <asm/cpufeatures.h>\n" if v.isa == "x86_64" else ""
        off = "".join(f"#undef {x}\n#define {x} ALT_NOT(X86_FEATURE_ALWAYS)\n" for x in v.untaken)
        body = (
            "#include <linux/export.h>\n#include <linux/linkage.h>\n#include <asm/alternative.h>\n"
            f"{features}{off}{unexported}{renamed}\n" + _place(v, "\t@")
        )
        return _HEAD + v.guarded(body + f'#include "{include}"\n')
    if v.isa != "x86_64":
        raise InputError(f"{include}: the module builds C variants for x86_64 alone")
    if v.untaken:
        raise InputError(f"{include}: the module cannot turn {', '.join(v.untaken)} off in C")
    body = (
        "/* Constants that are patched at boot then stand in the code, as in the kernel's own. */\n"
        "#undef MODULE\n"
        f"{renamed}"
        "/* What the variant defines anew is out of its way under another name. */\n"
        "#include <linux/fs.h>\n#define epoll_put_uevent kernel_epoll_put_uevent\n"
        "#include <linux/eventpoll.h>\n"
        "#undef epoll_put_uevent\n"
        "#include <linux/bitops.h>\n#include <linux/export.h>\n#include <linux/uaccess.h>\n"
        + ('#include "kstat.h"\n' if "kstat" in v.source else "")
        + unexported
        + '#pragma GCC diagnostic ignored "-Wmissing-prototypes"\n\n'
        + _place(v, 'asm("\\t@\\n");')
    )
    return _HEAD + v.guarded(body + f'#include "{include}"\n')


def _caller(v: ModuleVariant) -> str:
    """Return the file with the two callers of a variant."""
    c = v.contract
    results = [c.returns[role] for role in ("uncopied", "stored", "sum") if role in c.returns]
    if not results or not set(c.inputs) <= {"dst", "src", "count", "sum"} or len(c.zeroed) > 1:
        raise InputError(f"{v.variant.id}: the module has no caller for a contract like this")
    names = {
        "TARGET": f"loopwright_v{v.number}",
        "ONCE": f"loopwright_once_{v.number}",
        "LOOP": f"loopwright_loop_{v.number}",
        **{f"IN_{role.upper()}": _wide(v.isa, register) for role, register in c.inputs.items()},
        **({"ZEROED": _wide(v.isa, c.zeroed[0])} if c.zeroed else {}),
        "OUT_RESULT": _wide(v.isa, results[0]),
        **({"GATED": ""} if v.gate == "GATE_CALLER" else {}),
    }
    body = "".join(f"#define {k} {v}".rstrip() + "\n" for k, v in names.items())
    return _HEAD + v.guarded(body + '#include "caller.S"\n')


def _condition(v: ModuleVariant) -> str:
    """Return the C expression that is true on CPUs that can run a variant."""
    expressions = _FEATURES[v.isa]
    if unsupported := [x for x in (*v.needs, *v.lacks) if x not in expressions]:
        raise InputError(
            f"{v.variant.id}: the module does not know how to look for {unsupported[0]}"
        )
    conditions = [*(expressions[x] for x in v.needs), *(f"!{expressions[x]}" for x in v.lacks)]
    return " && ".join(conditions) or "true"


def _definition(v: ModuleVariant) -> str:
    """Return the definition of a variant's struct in list.c."""
    n, contract = v.number, v.contract
    needs = ", ".join([*v.needs, *(f"no {x}" for x in v.lacks)])
    fields = "".join(
        f"\t{{{f.dst}, {f.size}, {-1 if f.src is None else f.src}}},\n" for f in contract.fields
    )
    table = f"static const struct field fields_{n}[] = {{\n{fields}}};\n" if fields else ""
    sides = " | ".join(f"BIT(SIDE_{s.upper()})" for s in contract.faulting) or "0"
    body = (
        f"void loopwright_once_{n}(struct call *call, unsigned long times);\n"
        f"void loopwright_loop_{n}(struct call *call, unsigned long times);\n"
        f"extern const char loopwright_v{n}[];\n{table}"
        f"static void once_{n}(struct call *call, unsigned long times)\n"
        f"{{\n\tloopwright_once_{n}(call, times);\n}}\n"
        f"static void loop_{n}(struct call *call, unsigned long times)\n"
        f"{{\n\tloopwright_loop_{n}(call, times);\n}}\n"
        f"static bool runs_{n}(void)\n{{\n\treturn {_condition(v)};\n}}\n"
        f"static struct variant variant_{n} = {{\n"
        f'\t.id = "{v.variant.id}",\n\t.object = "kernel:{v.object}",\n\t.needs = "{needs}",\n'
        f"\t.runs = runs_{n},\n\t.once = once_{n},\n\t.loop = loop_{n},\n"
        f"\t.entry = loopwright_v{n},\n\t.offset = {v.offset},\n"
        f"\t.effect = EFFECT_{contract.effect.upper()},\n\t.gate = {v.gate},\n"
        f"\t.counted = {str('count' in contract.inputs).lower()},\n"
        f"\t.faulting = {sides},\n\t.exact = {str(contract.uncopied == 'exact').lower()},\n"
        f"\t.guards = {str(bool(contract.guards)).lower()},\n"
        f"\t.record = {{{contract.dst_record}, {contract.src_record}}},\n"
    )
    if fields:
        body += f"\t.fields = fields_{n},\n\t.nfields = ARRAY_SIZE(fields_{n}),\n"
    return v.guarded(body + "};\n") + "\n"


def _left_out(v: ModuleVariant) -> str:
    """Return the entry in left_out of a variant, for kernels that are too old for it."""
    late = [r for r in v.variant.requires if tuple(map(int, r.since.split("."))) == v.since]
    names, version = ", ".join(r.name for r in late), ".".join(map(str, v.since))
    line = f'\t{{"{v.variant.id}", "{names} is in Linux {version} and later"}},\n'
    return v.guarded("#else\n" + line).replace("#include <linux/version.h>\n", "")


def _listing(variants: Sequence[ModuleVariant]) -> str:
    """Return list.c: the variants built in, those the kernel is too old for, and a hash."""
    members = [
        v.guarded(f"\t&variant_{v.number},\n").replace("#include <linux/version.h>\n", "")
        for v in variants
    ]
    late = {v.variant.id: v for v in variants if v.since != (0, 0)}
    return (
        _HEAD + '#include "kmod.h"\n\n#include <asm/cpufeature.h>\n#include <linux/bits.h>\n'
        "#include <linux/kernel.h>\n#include <linux/version.h>\n\n"
        + "".join(map(_definition, variants))
        + f"struct variant *const variants[] = {{\n{''.join(members)}}};\n"
        + "const unsigned int variants_count = ARRAY_SIZE(variants);\n\n"
        + f"const struct left_out left_out[] = {{\n{''.join(map(_left_out, late.values()))}"
        + "\t{},\n};\nconst unsigned int left_out_count = ARRAY_SIZE(left_out) - 1;\n"
        + f'const char sources[] = "{_digest(variants)}";\n'
    )


def _kbuild(variants: Sequence[ModuleVariant]) -> str:
    """Return the Kbuild file: variants are compiled as leaf code, without instrumentation."""
    objects = [f"{name}.o" for name in _OBJECTS]
    objects += [f"common/{name}.o" for name in sorted(p.stem for p in SHARED.glob("*.c"))]
    lines = ["# Written by loopwright kmod.", "obj-m := loopwright.o", "ccflags-y := -I$(src)"]
    lines += ["asflags-y := -I$(src)"]
    for number in (v.number for v in variants):
        objects += [f"v{number}.o", f"c{number}.o"]
        lines.append(f"CFLAGS_REMOVE_v{number}.o := $(CC_FLAGS_FTRACE)")
        lines += [
            f"{tool}_v{number}.o := n"
            for tool in ("KASAN_SANITIZE", "KCSAN_SANITIZE", "KMSAN_SANITIZE", "UBSAN_SANITIZE",
                         "KCOV_INSTRUMENT", "GCOV_PROFILE")
        ]  # fmt: skip
    lines.append("loopwright-y := " + " ".join(objects))
    return "\n".join(lines) + "\n"


FOLDER = paths.HARNESS / "kmod"
SHARED = paths.HARNESS / "common"
OFFSETS = (0, 16, 32, 48)  # the kernel aligns functions to 16 bytes
_MARK_FILE = ".loopwright-kmod"
_COPY_HEADER = "copy_to_user.h"


def write(
    folder: Path, isa: str, specs: Sequence[str] = (), offsets: Sequence[int] = (0,)
) -> list[ModuleVariant]:
    """Write the module's sources to folder: all variants of an ISA, or those of specs.

    The baseline of a variant's routine is always included. offsets are code offsets at which each
    variant is built. InputError for a folder that holds anything but such sources.
    """
    variants = _chosen_variants(isa, specs, offsets)
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK_FILE).is_file():
        raise InputError(f"{folder} holds other files; name a new folder with -o")
    folder = folder.absolute()
    with files.staged(folder.parent) as beside:
        _fill(beside / folder.name, isa, variants)
    return variants


def _chosen_variants(isa: str, specs: Sequence[str], offsets: Sequence[int]) -> list[ModuleVariant]:
    invalid = [n for n in offsets if n not in OFFSETS]
    if invalid or not offsets:
        raise InputError(
            f"offset {', '.join(map(str, invalid)) or 'none'}: the kernel aligns functions to 16 "
            f"bytes; give some of {', '.join(map(str, OFFSETS))}"
        )
    chosen: list[Variant] = []
    for spec in specs or [k for k in kernels.ids() if k.startswith(f"{isa}/")]:
        kernel, named = kernels.select(spec)
        if kernel.isa != isa:
            raise InputError(f"{spec} is of {kernel.isa}, and the module is for {isa}")
        supported = [v for v in named if EFFECTS[kernels.contract_of(v).effect].in_module]
        if specs and (unsupported := [v for v in named if v not in supported]):
            effect = kernels.contract_of(unsupported[0]).effect
            raise InputError(
                f"{spec}: the module does not know effect {effect!r}; leave it out: check and "
                "measure run such code in user space as the kernel does"
            )
        # A verdict on a variant needs its baseline in the same run.
        baselines = {kernel.routines[v.routine].baseline for v in supported}
        chosen += [
            v
            for v in kernel.variants.values()
            if v not in chosen and (v in supported or v.name in baselines)
        ]
    if not chosen:
        raise InputError(f"there are no kernels of {isa}")
    pairs = [(v, offset) for v in chosen for offset in sorted(set(offsets))]
    return [
        ModuleVariant(
            f"{number:03d}",
            v,
            isa,
            kernels.contract_of(v),
            offset,
            assemble.user_code(v).sha256,
            v.source.read_text(encoding="utf-8"),
        )
        for number, (v, offset) in enumerate(pairs)
    ]


def _fill(folder: Path, isa: str, variants: Sequence[ModuleVariant]) -> None:
    (folder / SHARED.name).mkdir(parents=True)
    for source in sorted([*FOLDER.iterdir(), *(FOLDER / isa).iterdir()]):
        if source.is_file():
            shutil.copy2(source, folder / source.name)
    for source in SHARED.iterdir():
        shutil.copy2(source, folder / SHARED.name)
    shutil.copy2(paths.HARNESS / isa / "chains.S", folder / "harness_chains.S")
    script = folder / "run"
    text = script.read_text()
    for placeholder, value in {
        "@ISA@": isa,
        "@PROTOCOL@": str(harness.protocol()),
        "@VERSION@": VERSION,
        "@SOURCES@": _digest(variants),
        "@SIZES@": " ".join(str(size) for size in readings.SIZES if size),
        "@RECORDS@": " ".join(str(count) for count in readings.RECORDS if count),
        "@ALIGNMENTS@": " ".join(f"{dst}:{src}" for dst, src in readings.ALIGNMENTS),
    }.items():
        text = text.replace(placeholder, value)
    script.write_text(text)
    for v in variants:
        _copy_family(v.variant.source.parent, folder / "kernels" / v.variant.kernel, isa)
        suffix = v.variant.source.suffix
        (folder / f"v{v.number}{suffix}").write_text(_wrapper(v))
        (folder / f"c{v.number}.S").write_text(_caller(v))
    (folder / "list.c").write_text(_listing(variants))
    (folder / "Kbuild").write_text(_kbuild(variants))
    (folder / _MARK_FILE).touch()


def _digest(variants: Sequence[ModuleVariant]) -> str:
    """Return a hash of the module's own sources and of the variants in it."""
    digest = hashlib.sha256(repr([(v.variant.id, v.object, v.offset) for v in variants]).encode())
    for folder in (FOLDER, SHARED):
        for source in sorted(v for v in folder.rglob("*") if v.suffix in (".c", ".h", ".S")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _copy_family(family: Path, into: Path, isa: str) -> None:
    """Copy a family's sources; stand-ins for the kernel are replaced by the kernel's own."""
    if into.exists():
        return
    into.mkdir(parents=True)
    for source in sorted(family.iterdir()):
        if source.suffix in (".S", ".c", ".h"):
            kernel_source = FOLDER / isa / source.name
            shutil.copy2(kernel_source if kernel_source.is_file() else source, into / source.name)


MODULE = "loopwright.ko"
_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_ISA_OPTIONS = {"CONFIG_X86_64": "x86_64", "CONFIG_ARM64": "arm64"}


@dataclass(frozen=True)
class Built:
    """A module, its kernel release, its variants, and the compiler's warnings."""

    module: Path
    isa: str
    release: str
    variants: tuple[str, ...]
    left_out: tuple[str, ...]  # variants that this kernel is too old for
    warnings: tuple[str, ...]


def build(
    headers: Path, folder: Path, specs: Sequence[str] = (), offsets: Sequence[int] = (0,)
) -> Built:
    """Write the sources to folder and build them against headers, e.g. /lib/modules/.../build.

    InputError if modules cannot be built in headers, or the module does not compile.
    """
    isa, release = _isa_and_release(headers)
    variants = write(folder, isa, specs, offsets)
    warnings = compiled(headers, isa, folder)
    major, minor = (int(n) for n in release.split(".")[:2])
    late = tuple(dict.fromkeys(v.variant.id for v in variants if v.since > (major, minor)))
    ids = tuple(dict.fromkeys(v.variant.id for v in variants if v.variant.id not in late))
    return Built(folder / MODULE, isa, release, ids, late, warnings)


def compiled(headers: Path, isa: str, folder: Path) -> tuple[str, ...]:
    """Build the sources in folder and return the warnings; InputError with the first error."""
    tools = toolchain.find(isa)
    command = [
        "make", f"-j{toolchain.cpus()}", "-C", str(headers.resolve()), f"M={folder.resolve()}",
        f"ARCH={_ARCH[isa]}", f"CROSS_COMPILE={tools.gcc.removesuffix('gcc')}", "modules",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode or not (folder / MODULE).is_file():
        raise InputError(
            f"the module does not build against {headers}: "
            f"{_reason(done.stderr) or f'make ended with exit code {done.returncode}'}"
        )
    return tuple(x for x in done.stderr.splitlines() if re.search(r"(?i)\bwarning:", x))


def _reason(stderr: str) -> str:
    """Return the line that best explains a failed build; make's own lines come after it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    messages = [x for x in lines if not re.match(r"make(\[\d+\])?:", x)]
    return next(
        (x for x in messages if re.search(r"rror|not found|No such", x)), (lines or [""])[0]
    )


def _isa_and_release(headers: Path) -> tuple[str, str]:
    """Return the ISA and the release of the kernel that headers are of."""
    _check_links(headers)
    config = headers / "include/config/auto.conf"
    release = headers / "include/generated/utsrelease.h"
    missing = [x for x in (config, release, headers / "Makefile") if not x.is_file()]
    if missing:
        raise InputError(
            f"{headers} holds no kernel headers to build modules with: it has no "
            f"{missing[0].relative_to(headers)}; install linux-headers-$(uname -r) and name "
            "/lib/modules/$(uname -r)/build, or a configured build folder"
        )
    _check_includes(headers)
    chosen = set(re.findall(r"(?m)^(CONFIG_\w+)=y$", config.read_text()))
    isas = [isa for option, isa in _ISA_OPTIONS.items() if option in chosen]
    if not isas:
        raise InputError(f"{headers} is of an architecture that the module does not know")
    if "CONFIG_MODULES" not in chosen:
        raise InputError(f"the kernel of {headers} takes no modules: it lacks CONFIG_MODULES")
    [name] = re.findall(r'UTS_RELEASE "(\d+\.\d+.*)"', release.read_text()) or [""]
    if not name:
        raise InputError(f"{release} names no release of Linux")
    return isas[0], name


def _check_links(folder: Path) -> None:
    """Raise InputError for headers with a dangling link, as when only a part was moved."""
    for link in sorted(folder.iterdir() if folder.is_dir() else ()):
        if link.is_symlink() and not link.exists():
            raise InputError(
                f"{link} is a link to {link.readlink()}, which is not there: such headers are in "
                "several packages, and know each other by where they are installed; install them, "
                f"or put what is missing at {os.path.normpath(link.parent / link.readlink())}"
            )


def _check_includes(headers: Path) -> None:
    """Raise InputError for headers whose Makefile includes a missing folder, as Debian's may."""
    text = (headers / "Makefile").read_text(errors="replace")
    for name in re.findall(r"(?m)^include\s+(/\S+)", text):
        folder = Path(name).parent
        _check_links(folder)
        if not Path(name).is_file():
            raise InputError(
                f"{headers}/Makefile includes {name}, which is not there: such headers are in two "
                f"packages, and know each other by where they are installed; install both, or put "
                f"the other one at {folder} (or a link to it)"
            )
