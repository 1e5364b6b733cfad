"""Contracts: the required effect of every variant of a routine, and its registers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopwright.errors import InputError


@dataclass(frozen=True)
class Effect:
    """The reference semantics of calls, and the properties that the tools depend on.

    inputs are roles that a contract must name, optional those that it may; returns the results that
    it may name, of which a call without faults needs those of needed. faulting are the sides of
    which an access may fault unless the contract says otherwise, and reports is the result that a
    contract with such sides has to name. moves are the accesses by which a loop moves a call's
    bytes, loads or stores, and the number of sides. interfaces are functions through which the rest
    of Linux calls such routines. in_module is True if the kernel module supports the effect.
    """

    inputs: tuple[str, ...]
    optional: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    faulting: tuple[str, ...] = ()
    reports: str = ""
    moves: tuple[str, int] = ("stores", 1)
    interfaces: tuple[str, ...] = ()
    in_module: bool = False


# In the order of harness/job.h, enum effect.
EFFECTS = {
    "copy": Effect(
        inputs=("dst", "src"),
        optional=("count",),
        returns=("uncopied", "stored", "dst"),
        faulting=("dst", "src"),
        interfaces=("copy_to_user", "copy_from_user"),
        in_module=True,
    ),
    "clear": Effect(
        inputs=("dst",),
        optional=("count",),
        returns=("uncopied", "stored", "dst"),
        faulting=("dst",),
        interfaces=("clear_user",),
        in_module=True,
    ),
    "checksum": Effect(
        inputs=("src",),
        optional=("count", "sum"),
        returns=("sum",),
        needed=("sum",),
        moves=("loads", 1),
        interfaces=("csum_partial", "ip_compute_csum", "csum_and_copy_from_user"),
        in_module=True,
    ),
    "store_fields": Effect(
        inputs=("dst",),
        optional=("src", "count"),
        returns=("stored", "uncopied"),
        faulting=("dst",),
        interfaces=("put_user", "unsafe_put_user", "copy_to_user"),
        in_module=True,
    ),
    "set": Effect(
        inputs=("dst", "value", "count"),
        returns=("dst", "uncopied"),
        reports="uncopied",
        interfaces=("memset",),
    ),
    "move": Effect(
        inputs=("dst", "src", "count"),
        returns=("dst", "uncopied"),
        reports="uncopied",
        interfaces=("memmove",),
    ),
    "compare": Effect(
        inputs=("dst", "src", "count"),
        returns=("order", "faulted"),
        needed=("order",),
        reports="faulted",
        moves=("loads", 2),
        interfaces=("memcmp", "bcmp"),
    ),
    "scan": Effect(
        inputs=("src",),
        optional=("value", "count"),
        returns=("length", "found", "faulted"),
        reports="faulted",
        moves=("loads", 1),
        interfaces=("strlen", "strnlen", "memchr"),
    ),
}
MOST_BYTES = 4096  # largest call of fixed size that the checked memory has room for
LINE = 64  # bytes of a cache line, to which figures of loops are normalised


@dataclass(frozen=True)
class Field:
    """One field that a store_fields routine writes: byte offsets and size; src None stores zero."""

    dst: int
    size: int
    src: int | None


@dataclass(frozen=True)
class Contract:
    """The obligations of every variant of a routine.

    inputs and returns map roles (see EFFECTS) to registers. may_change holds registers and "flags"
    in addition to those of inputs and returns. faulting names the sides ("dst", "src") on which an
    access may fault. overread is the number of bytes after src that may be read by instructions
    with an exception-table entry. uncopied is "exact" or "at_least": whether the returned count of
    bytes not done may over-report, and over_report is the largest excess in bytes (None: any). unit
    is the unit of a prediction: an "iteration" of the main loop, or a "call" of a routine without a
    loop. zeroed holds registers that are zero at the start. src_record and dst_record are the bytes
    of a record of store_fields, and fields its parts.

    bytes is the size of a call of fixed size, 0 where a count gives it: such a copy or clear is a
    single record of one field, by store_fields. align is the alignment of addresses. loop names the
    main loop, by its label or its number in the order of addresses; "" leaves the choice to
    loops.choose. guards names the sides ("dst") whose address the routine checks or masks itself,
    so that it accesses nothing outside of user space.
    """

    symbol: str
    effect: str
    inputs: dict[str, str]
    returns: dict[str, str]
    may_change: tuple[str, ...]
    faulting: tuple[str, ...]
    overread: int
    uncopied: str
    unit: str
    zeroed: tuple[str, ...]
    src_record: int
    dst_record: int
    fields: tuple[Field, ...]
    bytes: int = 0
    align: int = 1
    loop: str | int = ""
    guards: tuple[str, ...] = ()
    over_report: int | None = None

    def allowed(self, alignments: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the alignments of destination and source that it allows, each once.

        A side that the routine lacks has alignment 0. InputError if none remains.
        """
        has_dst, has_src = ("dst" in self.inputs), ("src" in self.inputs)
        pairs = dict.fromkeys((dst * has_dst, src * has_src) for dst, src in alignments)
        allowed = [pair for pair in pairs if not any(side % self.align for side in pair)]
        if not allowed:
            raise InputError(
                f"{self.symbol}: its addresses are multiples of {self.align}; give "
                "alignments that are, as 0:0"
            )
        return allowed

    @property
    def counted(self) -> bool:
        """True if calls differ in their bytes or records: by a count, or by the byte found."""
        return "count" in self.inputs or self.effect == "scan"

    @property
    def terminated(self) -> bool:
        """True if only the byte searched for ends a call, as in strlen."""
        return self.effect == "scan" and "count" not in self.inputs

    @property
    def count_bytes(self) -> int:
        """The bytes that one unit of a call's count stands for: those of a record, or one."""
        return self.dst_record if self.effect == "store_fields" else 1

    @property
    def unit_bytes(self) -> int:
        """The bytes for which figures of its variants are compared.

        They are a record's where the routine stores records, a call's where it has no loop, else
        those of a cache line.
        """
        if self.fields and not self.bytes:
            return sum(f.size for f in self.fields)
        return self.bytes if self.bytes and self.unit == "call" else LINE

    @property
    def registers(self) -> tuple[str, ...]:
        """All registers that it names, `flags` among them."""
        roles = (*self.inputs.values(), *self.returns.values())
        return (*roles, *self.zeroed, *self.may_change)

    @property
    def unit_name(self) -> str:
        if self.unit == "call":
            return f"a call ({self.unit_bytes} bytes)"
        if self.fields and not self.bytes:
            return f"a record of {self.unit_bytes} bytes"
        return f"{self.unit_bytes} bytes"


def read(table: Mapping[str, Any], path: Path) -> Contract:
    """Return the contract of a table of the kernel.toml at path; InputError if invalid."""
    effect = get(table, "effect", str, path)
    if effect not in EFFECTS:
        raise InputError(f"{path}: effect {effect!r} is none of {', '.join(EFFECTS)}")
    unit = table.get("unit", "iteration")
    if unit not in ("iteration", "call"):
        raise InputError(f"{path}: unit {unit!r} must be iteration or call")
    uncopied = table.get("uncopied", "exact")
    if uncopied not in ("exact", "at_least"):
        raise InputError(f"{path}: uncopied {uncopied!r} must be exact or at_least")
    inputs = dict(get(table, "inputs", dict, path))
    size = _size(table, effect, inputs, path)
    _check_roles(table, effect, inputs, path)
    faulting = tuple(table.get("faulting", () if size else EFFECTS[effect].faulting))
    reports = EFFECTS[effect].reports
    if faulting and reports and reports not in table.get("returns", {}):
        raise InputError(
            f"{path}: effect {effect!r} with accesses that may fault ('faulting') needs a result "
            f"{reports}"
        )
    fields = tuple(Field(f["dst"], f["size"], f.get("src")) for f in table.get("fields", ()))
    return Contract(
        symbol=get(table, "symbol", str, path),
        effect="store_fields" if size else effect,
        inputs=inputs,
        returns=dict(table.get("returns", {})),
        may_change=tuple(get(table, "may_change", list, path)),
        faulting=faulting,
        overread=int(table.get("overread", 0)),
        uncopied=uncopied,
        unit=unit,
        zeroed=tuple(table.get("zeroed", ())),
        src_record=size if size and effect == "copy" else table.get("src_record", 0),
        dst_record=size or table.get("dst_record", 0),
        fields=(Field(0, size, 0 if effect == "copy" else None),) if size else fields,
        bytes=size,
        align=_align(table, path),
        loop=loop_name(table.get("loop", ""), path),
        guards=guarded(table, path),
        over_report=_over_report(table, uncopied, path),
    )


def _check_roles(
    table: Mapping[str, Any], effect: str, inputs: Mapping[str, str], path: Path
) -> None:
    """Raise InputError for roles that an effect does not have, and for missing ones."""
    semantics, returns = EFFECTS[effect], table.get("returns", {})
    for kind, named, allowed in (
        ("input", inputs, (*semantics.inputs, *semantics.optional)),
        ("result", returns, semantics.returns),
    ):
        if wrong := sorted(set(named) - set(allowed)):
            raise InputError(
                f"{path}: effect {effect!r} has no {kind} {wrong[0]!r}; it has {', '.join(allowed)}"
            )
    missing = [role for role in semantics.inputs if role not in inputs]
    if missing:
        raise InputError(f"{path}: effect {effect!r} needs an input {missing[0]}")
    missing = [role for role in semantics.needed if role not in returns]
    if missing or (effect == "scan" and ("length" in returns) == ("found" in returns)):
        wanted = missing[0] if missing else "length or found"
        raise InputError(f"{path}: effect {effect!r} needs a result {wanted}")


def _over_report(table: Mapping[str, Any], uncopied: str, path: Path) -> int | None:
    limit = table.get("over_report")
    if limit is None:
        return None
    if uncopied == "exact":
        raise InputError(f"{path}: over_report needs uncopied = 'at_least'")
    if type(limit) is not int or limit < 0:
        raise InputError(f"{path}: over_report {limit!r} is not a number of bytes")
    return limit


def guarded(table: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the sides whose address a routine, or a variant, checks or masks itself."""
    sides = table.get("guards", [])
    if sides not in ([], ["dst"]):
        raise InputError(f'{path}: guards {sides!r} must be ["dst"] or left out')
    return tuple(sides)


def _size(table: Mapping[str, Any], effect: str, inputs: Mapping[str, str], path: Path) -> int:
    """Return the bytes of a call of fixed size, 0 where the contract has a count or records."""
    size = table.get("bytes", 0)
    if effect == "store_fields":
        if size:
            raise InputError(f"{path}: 'bytes' is of copy and clear; records have dst_record")
        return 0
    if "count" in inputs:
        if size:
            raise InputError(f"{path}: 'bytes' and an input count exclude each other")
        return 0
    if effect == "scan":
        return 0
    if effect not in ("copy", "clear"):
        raise InputError(f"{path}: effect {effect!r} needs an input count")
    if type(size) is not int or not 0 < size <= MOST_BYTES:
        raise InputError(
            f"{path}: effect {effect!r} has no input count: say how much a call moves by 'bytes', "
            f"from 1 to {MOST_BYTES}"
        )
    wrong = sorted(set(table.get("returns", {})) - {"stored"})
    if wrong:
        raise InputError(
            f"{path}: a call of fixed size returns 'stored' (1 where all is done) or nothing, "
            f"not {', '.join(wrong)}"
        )
    return size


def _align(table: Mapping[str, Any], path: Path) -> int:
    align = table.get("align", 1)
    if type(align) is not int or not 0 < align <= MOST_BYTES or align & (align - 1):
        raise InputError(f"{path}: align {align!r} is not a power of two from 1 to {MOST_BYTES}")
    return align


def loop_name(given: Any, path: Path) -> str | int:
    """Return the name of a main loop: a label, or a number from 1 on; InputError for others."""
    if isinstance(given, str) or (type(given) is int and given > 0):
        return given
    raise InputError(f"{path}: loop {given!r} is neither a label nor a number from 1 on")


def get(table: Mapping[str, Any], key: str, kind: type, path: Path) -> Any:
    """Return a value of the kernel.toml at path; InputError if missing or of another kind."""
    if key not in table:
        raise InputError(f"{path}: {key!r} is missing")
    if not isinstance(table[key], kind):
        raise InputError(f"{path}: {key!r} must be a {kind.__name__}")
    return table[key]


FLAGS = "flags"
_LEGACY = ("ax", "bx", "cx", "dx", "si", "di", "bp")
GENERAL = {
    "x86_64": frozenset(
        [f"{half}{name}" for half in "re" for name in _LEGACY]
        + [f"r{n}{half}" for n in range(8, 16) for half in ("", "d")]
    ),
    "arm64": frozenset(f"{half}{n}" for n in range(31) for half in "xw"),
}


def check_registers(names: Iterable[str], isa: str, path: Path) -> None:
    """Raise InputError for names other than general registers and flags; path is the file."""
    for name in names:
        if name not in GENERAL[isa] and name != FLAGS:
            raise InputError(
                f"{path}: {name!r} is not a general register of {isa}; vector registers may not "
                "be named: a routine has to leave them alone, as kernel code does"
            )
