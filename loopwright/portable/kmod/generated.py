"""The generated files of the module's sources, as text."""

from collections.abc import Sequence
from dataclasses import dataclass

from loopwright.errors import InputError
from loopwright.kernels import Contract

_HEAD = "/* SPDX-License-Identifier: GPL-2.0-or-later */\n/* Written by loopwright kmod. */\n"
_EFFECTS = {
    "copy": "EFFECT_COPY",
    "clear": "EFFECT_CLEAR",
    "checksum": "EFFECT_CHECKSUM",
    "store_fields": "EFFECT_STORE_FIELDS",
}
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
    """Return a register of a contract as the assembler names its 64 bits."""
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
    """Return lines that put a function offset bytes behind a 64-byte boundary, all through line.

    A kernel may pad functions by their alignment in front; then they start as much earlier.
    """

    fill = ", 0x90" if isa == "x86_64" else ""  # objtool wants no bytes that nothing reaches

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
    """Return the file that builds a variant written in assembly, under a name of its own."""
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
    """Return the file that builds a variant written in C, under a name of its own."""
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
        f"\t.effect = {_EFFECTS[contract.effect]},\n\t.gate = {e.gate},\n"
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
    """Return list.c: all that is built in, what a kernel is too old for, and a hash of sources."""
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
