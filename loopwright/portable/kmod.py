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
from loopwright.measuring import sweeps
from loopwright.version import VERSION

_HEAD = "/* SPDX-License-Identifier: GPL-2.0-or-later */\n/* Written by loopwright kmod. */\n"
_CORE = (
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
class ListedVariant:
    """One variant of the module's list; need and lack are CPU features."""

    number: str
    id: str
    object: str
    offset: int
    contract: Contract
    gate: str
    need: tuple[str, ...]
    lack: tuple[str, ...]
    since: tuple[int, int]
    requires: str


def wide(isa: str, register: str) -> str:
    """Return the assembler's name of a contract's register in 64 bits."""
    if isa == "arm64":
        return "x" + register[1:]
    return "%" + _WIDE.get(register, register.removesuffix("d") if "r" in register else register)


def _guarded(since: tuple[int, int], body: str) -> str:
    if since == (0, 0):
        return body
    condition = f"LINUX_VERSION_CODE >= KERNEL_VERSION({since[0]}, {since[1]}, 0)"
    return f"#include <linux/version.h>\n#if {condition}\n{body}#endif\n"


def _never(features: Sequence[str]) -> str:
    lines = [f"#undef {x}\n#define {x} ALT_NOT(X86_FEATURE_ALWAYS)\n" for x in features]
    return "".join(lines)


def _place(isa: str, offset: int, line: str) -> str:
    """Return lines that put a function offset bytes after a 64-byte boundary, formatted by line.

    A kernel may pad functions before their start by their alignment; they are then placed as much
    earlier.
    """

    fill = ", 0x90" if isa == "x86_64" else ""  # objtool rejects unreachable bytes

    def place(skip: int) -> str:
        words = [".text", ".balign 64", *([f".skip {skip}{fill}"] if skip else [])]
        return "".join(line.replace("@", word) + "\n" for word in words)

    padded = "defined(CONFIG_CALL_PADDING) && CONFIG_FUNCTION_ALIGNMENT == 16"
    return f"#if {padded}\n{place((offset - 16) % 64)}#else\n{place(offset)}#endif\n"


def assembly(
    isa: str,
    *,
    include: str,
    symbol: tuple[str, str],
    offset: int,
    never: Sequence[str],
    since: tuple[int, int],
    kstat: bool,
) -> str:
    """Return the file that builds a variant written in assembly, under its own name."""
    del kstat
    features = "#include <asm/cpufeatures.h>\n" if isa == "x86_64" else ""
    body = (
        "#include <linux/export.h>\n#include <linux/linkage.h>\n#include <asm/alternative.h>\n"
        f"{features}{_never(never)}"
        "#undef EXPORT_SYMBOL\n#define EXPORT_SYMBOL(symbol)\n"
        f"#define {symbol[0]} {symbol[1]}\n\n"
        + _place(isa, offset, "\t@")
        + f'#include "{include}"\n'
    )
    return _HEAD + _guarded(since, body)


def c(
    isa: str,
    *,
    include: str,
    symbol: tuple[str, str],
    offset: int,
    never: Sequence[str],
    since: tuple[int, int],
    kstat: bool,
) -> str:
    """Return the file that builds a variant written in C, under its own name."""
    if isa != "x86_64":
        raise InputError(f"{include}: the module builds C variants for x86_64 alone")
    if never:
        raise InputError(f"{include}: the module cannot turn {', '.join(never)} off in C")
    body = (
        "/* Constants that are patched at boot then stand in the code, as in the kernel's own. */\n"
        "#undef MODULE\n"
        f"#define {symbol[0]} {symbol[1]}\n"
        "/* What the variant defines anew is out of its way under another name. */\n"
        "#include <linux/fs.h>\n#define epoll_put_uevent kernel_epoll_put_uevent\n"
        "#include <linux/eventpoll.h>\n"
        "#undef epoll_put_uevent\n"
        "#include <linux/bitops.h>\n#include <linux/export.h>\n#include <linux/uaccess.h>\n"
        + ('#include "kstat.h"\n' if kstat else "")
        + "#undef EXPORT_SYMBOL\n#define EXPORT_SYMBOL(symbol)\n"
        '#pragma GCC diagnostic ignored "-Wmissing-prototypes"\n\n'
        + _place(isa, offset, 'asm("\\t@\\n");')
        + f'#include "{include}"\n'
    )
    return _HEAD + _guarded(since, body)


def caller(number: str, registers: dict[str, str], *, gated: bool, since: tuple[int, int]) -> str:
    """Return the file with the two callers of a variant."""
    names = {
        "TARGET": f"loopwright_v{number}",
        "ONCE": f"loopwright_once_{number}",
        "LOOP": f"loopwright_loop_{number}",
        **registers,
        **({"GATED": ""} if gated else {}),
    }
    body = "".join(f"#define {k} {v}".rstrip() + "\n" for k, v in names.items())
    return _HEAD + _guarded(since, body + '#include "caller.S"\n')


def _condition(isa: str, entry: ListedVariant) -> str:
    known = _FEATURES[isa]
    unknown = [x for x in (*entry.need, *entry.lack) if x not in known]
    if unknown:
        raise InputError(f"{entry.id}: the module does not know how to look for {unknown[0]}")
    terms = [known[x] for x in entry.need] + [f"!{known[x]}" for x in entry.lack]
    return " && ".join(terms) or "true"


def _needs(entry: ListedVariant) -> str:
    return ", ".join([*entry.need, *(f"no {x}" for x in entry.lack)])


def _variant(isa: str, e: ListedVariant) -> str:
    n, contract = e.number, e.contract
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
        f"static bool runs_{n}(void)\n{{\n\treturn {_condition(isa, e)};\n}}\n"
        f"static struct variant variant_{n} = {{\n"
        f'\t.id = "{e.id}",\n\t.object = "kernel:{e.object}",\n\t.needs = "{_needs(e)}",\n'
        f"\t.runs = runs_{n},\n\t.once = once_{n},\n\t.loop = loop_{n},\n"
        f"\t.entry = loopwright_v{n},\n\t.offset = {e.offset},\n"
        f"\t.effect = EFFECT_{contract.effect.upper()},\n\t.gate = {e.gate},\n"
        f"\t.counted = {str('count' in contract.inputs).lower()},\n"
        f"\t.faulting = {sides},\n\t.exact = {str(contract.uncopied == 'exact').lower()},\n"
        f"\t.guards = {str(bool(contract.guards)).lower()},\n"
        f"\t.record = {{{contract.dst_record}, {contract.src_record}}},\n"
    )
    if fields:
        body += f"\t.fields = fields_{n},\n\t.nfields = ARRAY_SIZE(fields_{n}),\n"
    return _guarded(e.since, body + "};\n") + "\n"


def _left_out(e: ListedVariant) -> str:
    version = f"{e.since[0]}.{e.since[1]}"
    line = f'\t{{"{e.id}", "{e.requires} is in Linux {version} and later"}},\n'
    return _guarded(e.since, "#else\n" + line).replace("#include <linux/version.h>\n", "")


def listing(isa: str, entries: Sequence[ListedVariant], sources: str) -> str:
    """Return list.c: the variants built in, those the kernel is too old for, and a hash."""
    members = [
        _guarded(e.since, f"\t&variant_{e.number},\n").replace("#include <linux/version.h>\n", "")
        for e in entries
    ]
    late = {e.id: e for e in entries if e.since != (0, 0)}
    return (
        _HEAD + '#include "kmod.h"\n\n#include <asm/cpufeature.h>\n#include <linux/bits.h>\n'
        "#include <linux/kernel.h>\n#include <linux/version.h>\n\n"
        + "".join(_variant(isa, e) for e in entries)
        + f"struct variant *const variants[] = {{\n{''.join(members)}}};\n"
        + "const unsigned int variants_count = ARRAY_SIZE(variants);\n\n"
        + f"const struct left_out left_out[] = {{\n{''.join(map(_left_out, late.values()))}"
        + "\t{},\n};\nconst unsigned int left_out_count = ARRAY_SIZE(left_out) - 1;\n"
        + f'const char sources[] = "{sources}";\n'
    )


def kbuild(numbers: Sequence[str], shared: Sequence[str]) -> str:
    """Return the Kbuild file: variants are compiled as leaf code, without instrumentation.

    numbers are those of the variants, shared the names of the sources in common/.
    """
    objects = [f"{name}.o" for name in _CORE] + [f"common/{name}.o" for name in shared]
    lines = ["# Written by loopwright kmod.", "obj-m := loopwright.o", "ccflags-y := -I$(src)"]
    lines += ["asflags-y := -I$(src)"]
    for number in numbers:
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
_MARK = ".loopwright-kmod"
_COPY = "copy_to_user.h"


@dataclass(frozen=True)
class PlacedSource:
    """One variant at one code offset; number names its files and symbols."""

    number: str
    variant: Variant
    contract: Contract
    offset: int
    object: str
    source: str


def write(
    folder: Path, isa: str, specs: Sequence[str] = (), offsets: Sequence[int] = (0,)
) -> list[PlacedSource]:
    """Write the module's sources to folder: all variants of an ISA, or those of specs.

    The baseline of a variant's routine is always included. offsets are those of each one's code
    from a 64-byte boundary. InputError for a folder that holds anything but such sources.
    """
    parts = _parts(isa, specs, offsets)
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise InputError(f"{folder} holds other files; name a new folder with -o")
    folder = folder.absolute()
    with files.staged(folder.parent) as beside:
        _fill(beside / folder.name, isa, parts)
    return parts


def _parts(isa: str, specs: Sequence[str], offsets: Sequence[int]) -> list[PlacedSource]:
    invalid = [n for n in offsets if n not in OFFSETS]
    if invalid or not offsets:
        raise InputError(
            f"offset {', '.join(map(str, invalid)) or 'none'}: the kernel aligns functions to 16 "
            f"bytes; give some of {', '.join(map(str, OFFSETS))}"
        )
    chosen: list[Variant] = []
    for spec in specs or [k for k in kernels.ids() if k.startswith(f"{isa}/")]:
        kernel, found = kernels.select(spec)
        if kernel.isa != isa:
            raise InputError(f"{spec} is of {kernel.isa}, and the module is for {isa}")
        known = [v for v in found if EFFECTS[kernels.contract_of(v).effect].in_module]
        if specs and (strange := [v for v in found if v not in known]):
            effect = kernels.contract_of(strange[0]).effect
            raise InputError(
                f"{spec}: the module does not know effect {effect!r}; leave it out: check and "
                "measure run such code in user space as the kernel does"
            )
        found = known
        # A verdict on a variant needs its baseline in the same run.
        bases = {kernel.routines[v.routine].baseline for v in found}
        found = [v for v in kernel.variants.values() if v in found or v.name in bases]
        chosen += [v for v in found if v not in chosen]
    if not chosen:
        raise InputError(f"there are no kernels of {isa}")
    pairs = [(v, offset) for v in chosen for offset in sorted(set(offsets))]
    return [
        PlacedSource(
            f"{number:03d}",
            v,
            kernels.contract_of(v),
            offset,
            assemble.user_code(v).sha256,
            v.source.read_text(encoding="utf-8"),
        )
        for number, (v, offset) in enumerate(pairs)
    ]


def _fill(folder: Path, isa: str, parts: Sequence[PlacedSource]) -> None:
    (folder / SHARED.name).mkdir(parents=True)
    for source in sorted([*FOLDER.iterdir(), *(FOLDER / isa).iterdir()]):
        if source.is_file():
            shutil.copy2(source, folder / source.name)
    for source in SHARED.iterdir():
        shutil.copy2(source, folder / SHARED.name)
    shutil.copy2(paths.HARNESS / isa / "chains.S", folder / "harness_chains.S")
    for place, value in {
        "@ISA@": isa,
        "@PROTOCOL@": str(harness.protocol()),
        "@VERSION@": VERSION,
        "@SOURCES@": _digest(parts),
        "@SIZES@": " ".join(str(size) for size in sweeps.SIZES if size),
        "@RECORDS@": " ".join(str(count) for count in sweeps.RECORDS if count),
        "@ALIGNMENTS@": " ".join(f"{dst}:{src}" for dst, src in sweeps.ALIGNMENTS),
    }.items():
        script = folder / "run"
        script.write_text(script.read_text().replace(place, value))
    for part in parts:
        _copy_family(part.variant.source.parent, folder / "kernels" / part.variant.kernel, isa)
        suffix = part.variant.source.suffix
        (folder / f"v{part.number}{suffix}").write_text(_wrapped(isa, part))
        (folder / f"c{part.number}.S").write_text(_source_caller(isa, part))
    entries = [_source_entry(isa, p) for p in parts]
    (folder / "list.c").write_text(listing(isa, entries, _digest(parts)))
    (folder / "Kbuild").write_text(
        kbuild([p.number for p in parts], sorted(p.stem for p in SHARED.glob("*.c")))
    )
    (folder / _MARK).touch()


def _digest(parts: Sequence[PlacedSource]) -> str:
    """Return a hash of the module's own sources and of the variants in it."""
    digest = hashlib.sha256(repr([(p.variant.id, p.object, p.offset) for p in parts]).encode())
    for folder in (FOLDER, SHARED):
        for source in sorted(p for p in folder.rglob("*") if p.suffix in (".c", ".h", ".S")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def _copy_family(family: Path, into: Path, isa: str) -> None:
    """Copy a family's sources; stand-ins for the kernel are replaced by the kernel's own."""
    if into.exists():
        return
    into.mkdir(parents=True)
    for source in sorted(family.iterdir()):
        if source.suffix in (".S", ".c", ".h"):
            own = FOLDER / isa / source.name
            shutil.copy2(own if own.is_file() else source, into / source.name)


def _wrapped(isa: str, part: PlacedSource) -> str:
    include = f"kernels/{part.variant.kernel}/{part.variant.source.name}"
    body = assembly if part.variant.source.suffix == ".S" else c
    return body(
        isa,
        include=include,
        symbol=(part.contract.symbol, f"loopwright_v{part.number}"),
        offset=part.offset,
        never=_source_never(part),
        since=since(part),
        kstat="kstat" in part.source,
    )


def _source_never(part: PlacedSource) -> list[str]:
    """Return the features whose alternatives the variant leaves at the old instruction.

    The kernel decides on those that guard user memory, and against speculation.
    """
    named = set(re.findall(r"\bX86_FEATURE_\w+", part.source))
    kept = {*part.variant.alternatives, "X86_FEATURE_SMAP", "X86_FEATURE_LFENCE_RDTSC"}
    return sorted(named - kept)


def since(part: PlacedSource) -> tuple[int, int]:
    """Return the first Linux version with everything that the variant's text uses."""
    versions = [r.since.split(".") for r in part.variant.requires]
    return max(((int(v[0]), int(v[1])) for v in versions), default=(0, 0))


def _gate(isa: str, part: PlacedSource) -> str:
    """Return who opens user memory: the routine where it has stac and clac, else its caller."""
    if isa != "x86_64" or not part.contract.faulting:
        return "GATE_NONE"
    own = "X86_FEATURE_SMAP" in part.variant.alternatives
    return "GATE_ROUTINE" if own else "GATE_CALLER"


def _source_caller(isa: str, part: PlacedSource) -> str:
    c = part.contract
    registers = {f"IN_{role.upper()}": wide(isa, reg) for role, reg in c.inputs.items()}
    results = [c.returns[role] for role in ("uncopied", "stored", "sum") if role in c.returns]
    if not results or not set(c.inputs) <= {"dst", "src", "count", "sum"} or len(c.zeroed) > 1:
        raise InputError(f"{part.variant.id}: the module has no caller for a contract like this")
    if c.zeroed:
        registers["ZEROED"] = wide(isa, c.zeroed[0])
    registers["OUT_RESULT"] = wide(isa, results[0])
    gated = _gate(isa, part) == "GATE_CALLER"
    return caller(part.number, registers, gated=gated, since=since(part))


def _source_entry(isa: str, part: PlacedSource) -> ListedVariant:
    c, v = part.contract, part.variant
    need, lack = set(v.needs), set[str]()
    if _COPY in part.source:
        # The code of copy_to_user() depends on the features of the CPU.
        taken = {a.removeprefix("X86_FEATURE_").lower() for a in v.alternatives}
        lack = set() if "fsrm" in taken else {"fsrm", "erms"} - taken
    lack |= {*v.switched_off}
    requires = [r for r in v.requires if tuple(map(int, r.since.split("."))) == since(part)]
    return ListedVariant(
        number=part.number,
        id=v.id,
        object=part.object,
        offset=part.offset,
        contract=c,
        gate=_gate(isa, part),
        need=tuple(sorted(need)),
        lack=tuple(sorted(lack)),
        since=since(part),
        requires=", ".join(r.name for r in requires),
    )


MODULE = "loopwright.ko"
_ARCH = {"x86_64": "x86", "arm64": "arm64"}
_OPTIONS = {"CONFIG_X86_64": "x86_64", "CONFIG_ARM64": "arm64"}


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
    isa, release = _kernel(headers)
    parts = write(folder, isa, specs, offsets)
    warnings = compiled(headers, isa, folder)
    major, minor = (int(n) for n in release.split(".")[:2])
    late = tuple(dict.fromkeys(p.variant.id for p in parts if since(p) > (major, minor)))
    ids = tuple(dict.fromkeys(p.variant.id for p in parts if p.variant.id not in late))
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
    told = [x for x in lines if not re.match(r"make(\[\d+\])?:", x)]
    return next((x for x in told if re.search(r"rror|not found|No such", x)), (lines or [""])[0])


def _kernel(headers: Path) -> tuple[str, str]:
    """Return the ISA and the release of the kernel of some headers."""
    _links(headers)
    config = headers / "include/config/auto.conf"
    release = headers / "include/generated/utsrelease.h"
    missing = [x for x in (config, release, headers / "Makefile") if not x.is_file()]
    if missing:
        raise InputError(
            f"{headers} holds no kernel headers to build modules with: it has no "
            f"{missing[0].relative_to(headers)}; install linux-headers-$(uname -r) and name "
            "/lib/modules/$(uname -r)/build, or a configured build folder"
        )
    _includes(headers)
    chosen = set(re.findall(r"(?m)^(CONFIG_\w+)=y$", config.read_text()))
    isas = [isa for option, isa in _OPTIONS.items() if option in chosen]
    if not isas:
        raise InputError(f"{headers} is of an architecture that the module does not know")
    if "CONFIG_MODULES" not in chosen:
        raise InputError(f"the kernel of {headers} takes no modules: it lacks CONFIG_MODULES")
    [name] = re.findall(r'UTS_RELEASE "(\d+\.\d+.*)"', release.read_text()) or [""]
    if not name:
        raise InputError(f"{release} names no release of Linux")
    return isas[0], name


def _links(folder: Path) -> None:
    """Raise InputError for headers with a dangling link, as where only a part was moved."""
    for link in sorted(folder.iterdir() if folder.is_dir() else ()):
        if link.is_symlink() and not link.exists():
            raise InputError(
                f"{link} is a link to {link.readlink()}, which is not there: such headers are in "
                "several packages, and know each other by where they are installed; install them, "
                f"or put what is missing at {os.path.normpath(link.parent / link.readlink())}"
            )


def _includes(headers: Path) -> None:
    """Raise InputError for headers whose Makefile includes a missing folder, as Debian's may."""
    text = (headers / "Makefile").read_text(errors="replace")
    for name in re.findall(r"(?m)^include\s+(/\S+)", text):
        folder = Path(name).parent
        _links(folder)
        if not Path(name).is_file():
            raise InputError(
                f"{headers}/Makefile includes {name}, which is not there: such headers are in two "
                f"packages, and know each other by where they are installed; install both, or put "
                f"the other one at {folder} (or a link to it)"
            )


__all__ = ["OFFSETS", "Built", "build", "write"]
