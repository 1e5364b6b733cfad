"""Kernels and their variants, read from kernels/<arch>/<family>/kernel.toml.

A kernel is a family of routines that kernel developers choose between. Each routine has one
contract that all of its variants honour; a family with a single contract has a single routine.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from loopwright import paths
from loopwright.errors import InputError, unknown
from loopwright.kernels import contracts, cpu_features, registers, upstream
from loopwright.kernels.contracts import Contract as Contract
from loopwright.kernels.upstream import Edit, Requirement, Upstream

ISAS = ("x86_64", "arm64")


@dataclass(frozen=True)
class Routine:
    """One contract, its place in Linux, and the variant that Linux has today.

    unhit says why some accesses of its variants never are the first to fault.
    """

    name: str
    contract: Contract
    upstream: Upstream | None
    baseline: str
    summary: str
    unhit: str = ""


@dataclass(frozen=True)
class Variant:
    """One way to fulfil a routine's contract.

    needs lists CPU features without which it cannot run or is not chosen, switched_off those that
    must be off for it to be chosen (a core may have them); alternatives the
    feature names of ALTERNATIVE() sites that are taken when it is assembled. may_change holds the
    registers that it changes beside those of the contract. unpatchable is empty, or says why no
    patch can be made from it. subject and why are what a patch says of itself;
    edits is empty where a patch replaces the routine's function. loop names its main loop as the
    contract's does, which it goes before. guards names the sides whose address it checks itself.
    unreached is empty, or says why no call can reach some of its code.
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

    @property
    def id(self) -> str:
        """Return KERNEL/VARIANT."""
        return f"{self.kernel}/{self.name}"


@dataclass(frozen=True)
class Kernel:
    """A family of routines and their variants."""

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
    """Return the ids of all kernels, sorted; InputError where there is none."""
    root = paths.kernels_root()
    found = sorted(p.parent.relative_to(root).as_posix() for p in root.glob("*/*/kernel.toml"))
    if not found:
        raise InputError(f"{root} holds no kernel: no ARCH/FAMILY/kernel.toml below it")
    return found


def load(kernel_id: str) -> Kernel:
    """Read one kernel; InputError where it is unknown or its kernel.toml is wrong."""
    wanted = PurePosixPath(kernel_id).as_posix()
    path = paths.kernels_root() / wanted / "kernel.toml"
    # Not by ids(), which lists folders: this is asked for every variant of every prediction.
    if wanted.count("/") != 1 or not path.is_file():
        raise unknown("kernel", kernel_id, ids())
    beside = tuple(sorted(entry.name for entry in path.parent.iterdir()))
    return _read(path, wanted, path.read_bytes(), beside)


def select(spec: str) -> tuple[Kernel, list[Variant]]:
    """Resolve KERNEL or KERNEL/VARIANT to the kernel and the variants meant."""
    known = ids()
    if spec.rstrip("/") in known:
        kernel = load(spec.rstrip("/"))
        return kernel, list(kernel.variants.values())
    head, _, name = spec.rpartition("/")
    if head not in known:
        every = known + [v.id for k in known if head == k for v in load(k).variants.values()]
        raise unknown("kernel", spec, every)
    kernel = load(head)
    if name not in kernel.variants:
        raise unknown("variant", name, kernel.variants)
    return kernel, [kernel.variants[name]]


def contract_of(variant: Variant) -> Contract:
    """Return the contract of a variant: with what it alone changes, its loop and what it guards."""
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


# Keyed by what is read: the file, and the names beside it, may change while this process lives.
@cache
def _read(path: Path, kernel_id: str, content: bytes, beside: tuple[str, ...]) -> Kernel:
    del beside
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
        registers.check(routine.contract.registers, isa, path)
    variants: dict[str, Variant] = {}
    for entry in reader.get(data, "variant", list):
        variant = reader.variant(entry, kernel_id, routines)
        if variant.name in variants:
            raise InputError(f"{path}: variant {variant.name!r} stands there twice")
        registers.check(variant.may_change, isa, path)
        variants[variant.name] = variant
    for name, routine in routines.items():
        mine = [v for v in variants.values() if v.routine == name]
        baseline = routine.baseline or _default_baseline(mine)
        if baseline not in [v.name for v in mine]:
            raise InputError(f"{path}: routine {name!r} has no variant {baseline!r}, its baseline")
        routines[name] = replace(routine, baseline=baseline)
    return Kernel(
        id=kernel_id,
        isa=isa,
        folder=path.parent,
        summary=reader.get(data, "summary", str),
        threads=tuple(data.get("threads", ())),
        links=tuple(data.get("links", ())),
        fixes=tuple(data.get("fixes", ())),
        routines=routines,
        variants=variants,
    )


def _default_baseline(variants: list[Variant]) -> str:
    """Return the variant that comparisons start from where kernel.toml names none.

    It is the last one merged into Linux that any CPU can run, else the first.
    """
    merged = [v.name for v in variants if v.merged and not (v.needs or v.switched_off)]
    return [*(v.name for v in variants[:1]), *merged][-1] if variants else ""


def _merge(data: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Return a routine's own table over the family's contract, upstream and baseline."""
    merged: dict[str, Any] = {"baseline": table.get("baseline", data.get("baseline", ""))}
    merged["summary"] = table.get("summary", data.get("summary", ""))
    merged["unhit"] = str(table.get("unhit", data.get("unhit", "")))
    merged["contract"] = {**data.get("contract", {}), **table.get("contract", {})}
    place = {**data.get("upstream", {}), **table.get("upstream", {})}
    merged["upstream"] = place or None
    return merged


class _Reader:
    """Reads tables of one kernel.toml and names that file in every error."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, table: dict[str, Any], key: str, kind: type) -> Any:
        if key not in table:
            raise InputError(f"{self.path}: {key!r} is missing")
        if not isinstance(table[key], kind):
            raise InputError(f"{self.path}: {key!r} must be a {kind.__name__}")
        return table[key]

    def routine(self, name: str, table: dict[str, Any]) -> Routine:
        contract = contracts.read(table["contract"], self.path)
        place = table["upstream"]
        place = place and upstream.read_upstream(place, contract.symbol, self.path)
        about = (table["baseline"], table["summary"], table["unhit"])
        return Routine(name, contract, place, *about)

    def variant(
        self, entry: dict[str, Any], kernel_id: str, routines: dict[str, Routine]
    ) -> Variant:
        name = self.get(entry, "name", str)
        routine = entry.get("routine") or (next(iter(routines)) if len(routines) == 1 else "")
        if routine not in routines:
            raise InputError(
                f"{self.path}: variant {name!r} names none of the routines {', '.join(routines)}"
            )
        return Variant(
            kernel=kernel_id,
            routine=routine,
            name=name,
            summary=self.get(entry, "summary", str),
            source=self.source(entry, name),
            needs=cpu_features.check(entry.get("needs", ()), kernel_id.split("/")[0], self.path),
            switched_off=cpu_features.check(
                entry.get("switched_off", ()), kernel_id.split("/")[0], self.path
            ),
            alternatives=tuple(entry.get("alternatives", ())),
            may_change=tuple(entry.get("may_change", ())),
            merged=str(entry.get("merged", "")),
            unpatchable=str(entry.get("unpatchable", "")),
            subject=str(entry.get("subject", "")),
            why=str(entry.get("why", "")),
            requires=upstream.read_requirements(entry.get("requires", ()), self.path),
            edits=upstream.read_edits(entry.get("edits", ()), self.path),
            loop=contracts.loop_name(entry.get("loop", ""), self.path),
            guards=contracts.guarded(entry, self.path),
            unreached=str(entry.get("unreached", "")),
        )

    def source(self, entry: dict[str, Any], name: str) -> Path:
        folder = self.path.parent
        given = entry.get("source")
        names = [given] if given else [f"{name}.S", f"{name}.c"]
        for candidate in names:
            if (folder / candidate).is_file():
                return folder / candidate
        raise InputError(f"{self.path}: variant {name!r} has no {' or '.join(names)}")
