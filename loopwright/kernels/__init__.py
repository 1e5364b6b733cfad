"""Kernels and their variants, read from kernels/<arch>/<family>/kernel.toml.

A kernel is a family of routines with alternative implementations. Each routine has one contract
that all of its variants honour; a family with a single contract has a single routine.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from loopwright import files, paths
from loopwright.errors import InputError, misplaced, unknown
from loopwright.kernels import contracts
from loopwright.kernels.contracts import Contract as Contract

_X86_64_FEATURES = """
3dnowprefetch abm adx aes amx_bf16 amx_complex amx_fp16 amx_int8 amx_tile apx avx avx10_1
avx2 avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2
avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx512bw avx512cd avx512dq avx512er
avx512f avx512ifma avx512pf avx512vbmi avx512vl avx_ifma avx_ne_convert avx_vnni
avx_vnni_int16 avx_vnni_int8 bmi1 bmi2 cldemote clflush clflushopt clwb clzero cmov
cmpccxadd cx16 cx8 enqcmd erms f16c fma fma4 fpu fsgsbase fsrc fsrm fsrs fxsr fzrm gfni hle
hypervisor ibt invpcid la57 lfence_rdtsc lm misalignsse mmx mmxext monitor movbe movdir64b
movdiri mpx mwaitx nopl nx ospke pclmulqdq pcid pdpe1gb pku pni popcnt prefetchi ptwrite
rdpid rdpru rdrand rdseed rdtscp rep_good retpoline rethunk rtm serialize sha512 sha_ni sm3
sm4 smap smep sse sse2 sse4_1 sse4_2 sse4a ssse3 svm syscall tbm topoext tsc umip unret
user_shstk vaes vmmcall vmx vpclmulqdq waitpkg wbnoinvd x2apic xenpv xgetbv1 xop xsave
xsavec xsaveopt xsaves
"""
_ARM64_FEATURES = """
aes asimd asimddp asimdfhm asimdhp asimdrdm atomics bf16 bti cpuid crc32 cssc dcpodp dcpop
dgh dit ebf16 ecv epan evtstrm fcma flagm flagm2 fp fphp frint hbc i8mm ilrcpc jscvt lrcpc
lrcpc3 lse128 mops mte mte3 paca pacg pan pmull rng rpres sb sha1 sha2 sha3 sha512 sm3 sm4
sme sme2 ssbs sve sve2 sve2p1 sveaes svebf16 svebitperm svei8mm svepmull svesha3 svesm4
uao uscat wfxt
"""
CPU_FEATURES = {
    "x86_64": frozenset(_X86_64_FEATURES.split()),
    "arm64": frozenset(_ARM64_FEATURES.split()),
}


def check_features(names: Iterable[str], isa: str, path: Path) -> tuple[str, ...]:
    """Return names of CPU features; InputError with the kernel.toml for an unknown one."""
    features = tuple(names)
    for name in features:
        if name not in CPU_FEATURES[isa]:
            message = str(unknown("CPU feature", name, CPU_FEATURES[isa]))
            if name.removeprefix("no") in CPU_FEATURES[isa]:
                message += f'; that {name[2:]} is off is switched_off = ["{name[2:]}"]'
            raise InputError(f"{path}: {message}")
    return features


_REQUIRED_KEYS = {  # by the kind of an edit
    "function": ("name",),
    "region": ("end", "start"),
    "macro": ("name",),
    "line": ("new", "old"),
}


@dataclass(frozen=True)
class Edit:
    """One change to one file of a tree; its new text is taken from source, a file of the kernel.

    function replaces a function, by name. region replaces the lines from the one that begins with
    start up to the one that begins with end. macro replaces .macro name to .endm, or inserts it
    after the macro named after if the tree has none of that name. line replaces the text old, which
    occurs once in the file, by new; optional skips it where old is missing. was is the file's path
    in older trees.
    """

    kind: str
    file: str
    was: str = ""
    name: str = ""
    start: str = ""
    end: str = ""
    after: str = ""
    old: str = ""
    new: str = ""
    optional: bool = False
    source: Path | None = None


@dataclass(frozen=True)
class Requirement:
    """A name that a variant's text uses, the tree's file that defines it, and its first version."""

    name: str
    file: str
    since: str


@dataclass(frozen=True)
class Step:
    """A transformation on the way to a variant that `improve` found, or its starting point.

    cycles are the predicted cycles of a call at that time, by core; bytes is the code's length.
    """

    name: str
    bytes: int
    cycles: Mapping[str, float]


@dataclass(frozen=True)
class Upstream:
    """The place of a routine in a Linux tree.

    replaces lists the functions whose ABI the routine shares, the preferred one first. prefix
    begins a patch's subject. callers lists the files whose inline assembly calls the routine.
    unused_with lists CPU features with which Linux does not call it. prototype is its declaration
    in C: with one its ABI is the same in every tree.
    """

    file: str
    replaces: tuple[str, ...]
    since: str
    note: str
    prefix: str
    callers: tuple[str, ...]
    unused_with: tuple[str, ...]
    prototype: str = ""


def read_upstream(table: dict[str, Any], symbol: str, path: Path) -> Upstream:
    """Read an [upstream] table of the kernel.toml at path."""
    return Upstream(
        file=_tree_path(table.get("file"), path),
        replaces=tuple(table.get("replaces", (symbol,))),
        since=str(table.get("since", "")),
        note=str(table.get("note", "")),
        prefix=str(table.get("prefix", "")),
        callers=tuple(_tree_path(file, path) for file in table.get("callers", ())),
        unused_with=tuple(table.get("unused_with", ())),
        prototype=str(table.get("prototype", "")),
    )


def _requirement(table: dict[str, Any], path: Path) -> Requirement:
    since = str(table.get("since", ""))
    return Requirement(_string(table, "name", path), _tree_path(table.get("file"), path), since)


def read_steps(entries: Iterable[dict[str, Any]], path: Path) -> tuple[Step, ...]:
    """Read a variant's steps; InputError with the kernel.toml."""
    try:
        return tuple(
            Step(
                str(entry["name"]),
                int(entry["bytes"]),
                {core: float(cycles) for core, cycles in entry["cycles"].items()},
            )
            for entry in entries
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path}: 'steps' are tables of name, bytes and cycles by core") from None


def _edit(table: dict[str, Any], path: Path) -> Edit:
    kind = _string(table, "kind", path)
    if kind not in _REQUIRED_KEYS:
        raise InputError(f"{path}: edit kind {kind!r} is none of {', '.join(_REQUIRED_KEYS)}")
    for key in _REQUIRED_KEYS[kind]:
        _string(table, key, path)
    source = table.get("source")
    if source is not None:
        source = (path.parent / source).resolve()
        if not source.is_relative_to(path.parent.resolve()) or not source.is_file():
            raise InputError(f"{path}: edit source {table['source']!r} is no file beside it")
    return Edit(
        kind=kind,
        file=_tree_path(table.get("file"), path),
        was=_tree_path(table.get("was", ""), path),
        optional=bool(table.get("optional", False)),
        source=source,
        **{key: table.get(key, "") for key in ("name", "start", "end", "after", "old", "new")},
    )


def _string(table: dict[str, Any], key: str, path: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise InputError(f"{path}: {key!r} is missing or no string in {table}")
    return value


def _tree_path(file: object, path: Path) -> str:
    """Return a path inside a Linux tree; InputError if it is none, or leaves the tree."""
    if not isinstance(file, str):
        raise InputError(f"{path}: 'file' is missing or no string")
    if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
        raise InputError(f"{path}: file {file!r} leaves the kernel tree")
    return file


ISAS = ("x86_64", "arm64")


@dataclass(frozen=True)
class Routine:
    """One contract, its place in Linux, and the variant that Linux has today.

    unhit is "", or the reason why some accesses of its variants are never the first to fault.
    """

    name: str
    contract: Contract
    upstream: Upstream | None
    baseline: str
    summary: str
    unhit: str = ""


OWN_CODE = "tree:"
"""The beginning of the names of a Linux tree's own code, such as tree:6.12.117."""


def is_own_code(variant: str) -> bool:
    """True if a variant's name is that of a Linux tree's own code."""
    return variant.startswith(OWN_CODE)


@dataclass(frozen=True)
class Variant:
    """One implementation of a routine's contract.

    needs lists CPU features without which it cannot run or is not chosen; switched_off those that
    must be off for it to be chosen (a core may have them). alternatives lists the features whose
    ALTERNATIVE() sites are taken when it is assembled. may_change holds the registers that it
    changes in addition to those of the contract. merged is the Linux commit that has it, or "".
    unpatchable is "", or the reason why no patch can be made from it. subject and why are the texts
    of its patch; edits is empty if a patch replaces the routine's function. loop and guards, where
    given, override those of the contract. unreached is "", or the reason why no call can reach some
    of its code. steps are the transformations that led to it, if any.
    """

    kernel: str
    routine: str
    name: str
    summary: str
    source: Path
    needs: tuple[str, ...]
    alternatives: tuple[str, ...]
    may_change: tuple[str, ...]
    merged: str
    unpatchable: str
    subject: str
    why: str
    requires: tuple[Requirement, ...]
    edits: tuple[Edit, ...]
    loop: str | int = ""
    guards: tuple[str, ...] = ()
    switched_off: tuple[str, ...] = ()
    unreached: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.kernel}/{self.name}"


@dataclass(frozen=True)
class Kernel:
    """A family of routines and their variants.

    threads names mailing-list threads of kernels/threads.toml; links and fixes hold the `Link:` and
    `Fixes:` lines of a patch.
    """

    id: str
    isa: str
    folder: Path
    summary: str
    threads: tuple[str, ...]
    links: tuple[str, ...]
    fixes: tuple[str, ...]
    routines: dict[str, Routine]
    variants: dict[str, Variant]

    def of_routine(self, routine: str) -> list[Variant]:
        """Return the variants of one routine, in the order of kernel.toml."""
        return [v for v in self.variants.values() if v.routine == routine]


def ids() -> list[str]:
    """Return the ids of all kernels, sorted; InputError if there is none."""
    root = paths.kernels_root()
    kernel_ids = sorted(p.parent.relative_to(root).as_posix() for p in root.glob("*/*/kernel.toml"))
    if not kernel_ids:
        raise InputError(f"{root} holds no kernel: no ARCH/FAMILY/kernel.toml below it")
    return kernel_ids


def load(kernel_id: str) -> Kernel:
    """Read one kernel; InputError if it is unknown or its kernel.toml is invalid."""
    normal_id = PurePosixPath(kernel_id).as_posix()
    path = paths.kernels_root() / normal_id / "kernel.toml"
    # ids() would list folders for every variant of every prediction.
    if normal_id.count("/") != 1 or not path.is_file():
        raise _unknown(kernel_id, ids())
    file_names = tuple(sorted(entry.name for entry in path.parent.iterdir()))
    return _read(path, normal_id, path.read_bytes(), file_names)


def select(spec: str) -> tuple[Kernel, list[Variant]]:
    """Return the kernel and the variants of KERNEL or KERNEL/VARIANT."""
    kernel_ids = ids()
    if spec.rstrip("/") in kernel_ids:
        kernel = load(spec.rstrip("/"))
        return kernel, list(kernel.variants.values())
    head, _, name = spec.rpartition("/")
    if head not in kernel_ids:
        names = kernel_ids + [
            v.id for k in kernel_ids if head == k for v in load(k).variants.values()
        ]
        raise _unknown(spec, names)
    kernel = load(head)
    if name not in kernel.variants:
        raise unknown("variant", name, kernel.variants)
    return kernel, [kernel.variants[name]]


def _unknown(name: str, names: Sequence[str]) -> InputError:
    """Return the error for a name of no kernel; for a file it names the option that takes it."""
    path = Path(name)
    if not path.is_file():
        return unknown("kernel", name, names)
    option = "--asm"
    with suppress(OSError), path.open("rb") as file:
        if file.read(8).startswith(files.CODE_MAGICS):
            option = "--obj"
    return misplaced(f"{name} is a file, not a kernel", option, name)


def contract_of(variant: Variant) -> Contract:
    """Return the contract of a variant, with its own registers, loop and guards."""
    contract = load(variant.kernel).routines[variant.routine].contract
    return replace(
        contract,
        may_change=(*contract.may_change, *variant.may_change),
        loop=variant.loop or contract.loop,
        guards=variant.guards or contract.guards,
    )


def every() -> Iterator[Kernel]:
    """Yield every kernel, by id."""
    for kernel_id in ids():
        yield load(kernel_id)


# Cached by content and by the names of the folder's files, which decide a variant's source: both
# may change while this process lives.
@cache
def _read(path: Path, kernel_id: str, content: bytes, file_names: tuple[str, ...]) -> Kernel:
    del file_names
    try:
        data = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None
    isa = kernel_id.split("/")[0]
    if isa not in ISAS:
        raise InputError(f"{path}: the folder above the family names the ISA: {' or '.join(ISAS)}")
    reader = _Reader(path)
    tables = data.get("routine") or {kernel_id.split("/")[-1]: {}}
    routines = {name: reader.routine(name, _merge(data, table)) for name, table in tables.items()}
    for routine in routines.values():
        contracts.check_registers(routine.contract.registers, isa, path)
    variants: dict[str, Variant] = {}
    for entry in contracts.get(data, "variant", list, path):
        variant = reader.variant(entry, kernel_id, routines)
        if variant.name in variants:
            raise InputError(f"{path}: variant {variant.name!r} stands there twice")
        contracts.check_registers(variant.may_change, isa, path)
        variants[variant.name] = variant
    for name, routine in routines.items():
        own = [v for v in variants.values() if v.routine == name]
        baseline = routine.baseline or _default_baseline(own)
        if baseline not in [v.name for v in own]:
            raise InputError(f"{path}: routine {name!r} has no variant {baseline!r}, its baseline")
        routines[name] = replace(routine, baseline=baseline)
    return Kernel(
        id=kernel_id,
        isa=isa,
        folder=path.parent,
        summary=contracts.get(data, "summary", str, path),
        threads=tuple(data.get("threads", ())),
        links=tuple(data.get("links", ())),
        fixes=tuple(data.get("fixes", ())),
        routines=routines,
        variants=variants,
    )


def _default_baseline(variants: list[Variant]) -> str:
    """Return the baseline of a routine's variants where kernel.toml names none.

    It is the last one merged into Linux that any CPU can run, else the first.
    """
    merged = [v.name for v in variants if v.merged and not (v.needs or v.switched_off)]
    return [*(v.name for v in variants[:1]), *merged][-1] if variants else ""


def _merge(data: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Return a routine's own table, completed by the family's keys and tables."""
    texts = {key: table.get(key, data.get(key, "")) for key in ("baseline", "summary", "unhit")}
    tables = {key: data.get(key, {}) | table.get(key, {}) for key in ("contract", "upstream")}
    return texts | tables


_TEXT_KEYS = ("merged", "unpatchable", "subject", "why", "unreached")  # of a variant; else ""


class _Reader:
    """Reads tables of one kernel.toml and names that file in every error."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def routine(self, name: str, table: dict[str, Any]) -> Routine:
        contract = contracts.read(table["contract"], self.path)
        place = table["upstream"]
        return Routine(
            name=name,
            contract=contract,
            upstream=read_upstream(place, contract.symbol, self.path) if place else None,
            baseline=table["baseline"],
            summary=table["summary"],
            unhit=str(table["unhit"]),
        )

    def variant(
        self, table: dict[str, Any], kernel_id: str, routines: dict[str, Routine]
    ) -> Variant:
        name, isa = contracts.get(table, "name", str, self.path), kernel_id.split("/")[0]
        routine = table.get("routine") or (next(iter(routines)) if len(routines) == 1 else "")
        if routine not in routines:
            raise InputError(
                f"{self.path}: variant {name!r} names none of the routines {', '.join(routines)}"
            )
        return Variant(
            kernel=kernel_id,
            routine=routine,
            name=name,
            summary=contracts.get(table, "summary", str, self.path),
            source=self.source(table, name),
            needs=check_features(table.get("needs", ()), isa, self.path),
            switched_off=check_features(table.get("switched_off", ()), isa, self.path),
            alternatives=tuple(table.get("alternatives", ())),
            may_change=tuple(table.get("may_change", ())),
            requires=tuple(
                _requirement(requirement, self.path) for requirement in table.get("requires", ())
            ),
            edits=tuple(_edit(edit, self.path) for edit in table.get("edits", ())),
            loop=contracts.loop_name(table.get("loop", ""), self.path),
            guards=contracts.guarded(table, self.path),
            steps=read_steps(table.get("steps", ()), self.path),
            **{key: str(table.get(key, "")) for key in _TEXT_KEYS},
        )

    def source(self, table: dict[str, Any], name: str) -> Path:
        folder = self.path.parent
        file = table.get("source")
        file_names = [file] if file else [f"{name}.S", f"{name}.c"]
        for file_name in file_names:
            if (folder / file_name).is_file():
                return folder / file_name
        raise InputError(f"{self.path}: variant {name!r} has no {' or '.join(file_names)}")
