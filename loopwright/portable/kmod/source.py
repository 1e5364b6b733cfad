"""Write the sources of the module: a folder that builds with make and kernel headers alone.

Each variant is built from the text in kernels/, against the kernel's own headers, under a name of
its own, with a caller that passes registers as its contract says.
"""

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loopwright import files, harness, kernels, paths
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.kernels import Contract, Variant
from loopwright.measuring import sweeps
from loopwright.portable.kmod import generated
from loopwright.version import VERSION

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

    With a variant goes the baseline of its routine.

    offsets are where behind a 64-byte boundary each one's code starts. A folder that holds
    anything but such sources is left alone: InputError.
    """
    parts = _parts(isa, specs, offsets)
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise InputError(f"{folder} holds other files; name a new folder with -o")
    folder = folder.absolute()
    with files.staged(folder.parent) as beside:
        _fill(beside / folder.name, isa, parts)
    return parts


def _parts(isa: str, specs: Sequence[str], offsets: Sequence[int]) -> list[PlacedSource]:
    wrong = [n for n in offsets if n not in OFFSETS]
    if wrong or not offsets:
        raise InputError(
            f"offset {', '.join(map(str, wrong)) or 'none'}: the kernel aligns functions to 16 "
            f"bytes; give some of {', '.join(map(str, OFFSETS))}"
        )
    chosen: list[Variant] = []
    for spec in specs or [k for k in kernels.ids() if k.startswith(f"{isa}/")]:
        kernel, found = kernels.select(spec)
        if kernel.isa != isa:
            raise InputError(f"{spec} is of {kernel.isa}, and the module is for {isa}")
        # A verdict on a variant needs its baseline, measured in the same run.
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
        (folder / f"c{part.number}.S").write_text(_caller(isa, part))
    entries = [_entry(isa, p) for p in parts]
    (folder / "list.c").write_text(generated.listing(isa, entries, _digest(parts)))
    (folder / "Kbuild").write_text(
        generated.kbuild([p.number for p in parts], sorted(p.stem for p in SHARED.glob("*.c")))
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
    """Copy a family's sources; what stands in for the kernel there gives way to the kernel."""
    if into.exists():
        return
    into.mkdir(parents=True)
    for source in sorted(family.iterdir()):
        if source.suffix in (".S", ".c", ".h"):
            own = FOLDER / isa / source.name
            shutil.copy2(own if own.is_file() else source, into / source.name)


def _wrapped(isa: str, part: PlacedSource) -> str:
    include = f"kernels/{part.variant.kernel}/{part.variant.source.name}"
    body = generated.assembly if part.variant.source.suffix == ".S" else generated.c
    return body(
        isa,
        include=include,
        symbol=(part.contract.symbol, f"loopwright_v{part.number}"),
        offset=part.offset,
        never=_never(part),
        since=since(part),
        kstat="kstat" in part.source,
    )


def _never(part: PlacedSource) -> list[str]:
    """Return the features whose alternatives the variant leaves as the old instruction.

    What guards user memory, and against speculation, is the kernel's to decide.
    """
    named = set(re.findall(r"\bX86_FEATURE_\w+", part.source))
    kept = {*part.variant.alternatives, "X86_FEATURE_SMAP", "X86_FEATURE_LFENCE_RDTSC"}
    return sorted(named - kept)


def since(part: PlacedSource) -> tuple[int, int]:
    """Return the first Linux version that has what the variant's text uses."""
    versions = [r.since.split(".") for r in part.variant.requires]
    return max(((int(v[0]), int(v[1])) for v in versions), default=(0, 0))


def _gate(isa: str, part: PlacedSource) -> str:
    """Return who opens user memory: the routine where it has stac and clac, else its caller."""
    if isa != "x86_64" or not part.contract.faulting:
        return "GATE_NONE"
    own = "X86_FEATURE_SMAP" in part.variant.alternatives
    return "GATE_ROUTINE" if own else "GATE_CALLER"


def _caller(isa: str, part: PlacedSource) -> str:
    c = part.contract
    registers = {f"IN_{role.upper()}": generated.wide(isa, reg) for role, reg in c.inputs.items()}
    results = [c.returns[role] for role in ("uncopied", "stored", "sum") if role in c.returns]
    if not results or not set(c.inputs) <= {"dst", "src", "count", "sum"} or len(c.zeroed) > 1:
        raise InputError(f"{part.variant.id}: the module has no caller for a contract like this")
    if c.zeroed:
        registers["ZEROED"] = generated.wide(isa, c.zeroed[0])
    registers["OUT_RESULT"] = generated.wide(isa, results[0])
    gated = _gate(isa, part) == "GATE_CALLER"
    return generated.caller(part.number, registers, gated=gated, since=since(part))


def _entry(isa: str, part: PlacedSource) -> generated.ListedVariant:
    c, v = part.contract, part.variant
    need, lack = set(v.needs), set[str]()
    if _COPY in part.source:
        # What copy_to_user() runs is up to the features of the CPU.
        taken = {a.removeprefix("X86_FEATURE_").lower() for a in v.alternatives}
        lack = set() if "fsrm" in taken else {"fsrm", "erms"} - taken
    lack |= {*v.switched_off}
    requires = [r for r in v.requires if tuple(map(int, r.since.split("."))) == since(part)]
    return generated.ListedVariant(
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
