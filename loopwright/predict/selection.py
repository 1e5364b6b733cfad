"""Which blocks on which cores at which code offsets a call is about."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from loopwright import kernels, microarchs, snippet
from loopwright.errors import InputError, unknown
from loopwright.microarchs import Microarch
from loopwright.predict import subjects
from loopwright.predict.subjects import Subject

NOTIONS = ("loop", "unrolled")
EVERY = "all"

Selected = Iterator[tuple[Microarch, list[Subject]]]


def select(
    spec: str | None,
    text: str | None,
    blocks: Path | str | None,
    asm: str | None,
    isa: str | None,
    microarch: str | None,
    notion: str | None,
) -> Selected:
    """Return each core with what is to be predicted for it.

    Exactly one of spec (KERNEL[/VARIANT] or "all"), text (hex), blocks (a CSV) and asm (assembly
    text, of isa) is given; InputError for anything else, and for a microarch or notion that is
    not known.
    """
    if sum(given is not None for given in (spec, text, blocks, asm)) != 1:
        raise InputError("give one of KERNEL[/VARIANT], --hex HEX, --blocks FILE.csv or --asm FILE")
    if isa is not None and asm is None:
        raise InputError("--isa is for assembly text: give it with --asm FILE")
    if notion is not None and notion not in NOTIONS:
        raise unknown("notion", notion, NOTIONS)
    if spec == EVERY:
        return _of_all_kernels(microarch, notion)
    if spec is not None:
        return _of_kernel(spec, microarch, notion)
    if asm is not None:
        return _of_assembly(asm, isa, microarch, notion)
    return _of_blocks(text, blocks, microarch, notion)


def key(spec: str | None) -> list[str]:
    """Return the columns that identify a subject."""
    return ["kernel", "routine", "variant"] if spec is not None else ["id"]


def offsets(offset: int | str | None) -> Sequence[int | None]:
    """Resolve a code offset, "all" or None (the code's own); InputError outside 0..63."""
    if offset is None:
        return [None]
    if offset == EVERY:
        return list(subjects.OFFSETS)
    if str(offset).isdecimal() and int(offset) in subjects.OFFSETS:
        return [int(offset)]
    raise InputError(f"offset {offset!r} is not in 0..63; give a number of bytes mod 64, or all")


def _of_all_kernels(microarch: str | None, notion: str | None) -> Selected:
    for core in microarchs.select(microarch):
        chosen = [k for k in kernels.every() if k.isa == core.isa]
        variants = [v for kernel in chosen for v in kernel.variants.values()]
        yield core, [subjects.of_variant(v, core, notion) for v in variants]


def _of_kernel(spec: str, microarch: str | None, notion: str | None) -> Selected:
    kernel, variants = kernels.select(spec)
    for core in microarchs.select(microarch, kernel.isa):
        yield core, [subjects.of_variant(v, core, notion) for v in variants]


def _of_blocks(
    text: str | None, blocks: Path | str | None, microarch: str | None, notion: str | None
) -> Selected:
    isa = None if microarch not in (None, EVERY) else "x86_64"
    for core in microarchs.select(microarch, isa):
        if text is not None:
            yield core, [subjects.of_hex(text, core.isa, notion, {"id": "hex"}, 0)]
        elif blocks is not None:
            yield core, [_lenient(row, core, notion) for row in subjects.read_csv(Path(blocks))]


def _of_assembly(text: str, isa: str | None, microarch: str | None, notion: str | None) -> Selected:
    if isa is None and microarch not in (None, EVERY):
        isa = microarchs.select(microarch)[0].isa
    found = snippet.pieces(text, isa)
    for core in microarchs.select(microarch, found[0].isa):
        yield core, [subjects.of_piece(piece, core, notion) for piece in found]


def _lenient(row: subjects.Row, core: Microarch, notion: str | None) -> Subject:
    """Return a row's subject; one that is no code stays in the table, with the error."""
    identity = {"id": row.id}
    try:
        return subjects.of_hex(row.hex, core.isa, notion, identity, row.offset)
    except InputError as error:
        return Subject(identity, core.isa, b"", notion or "unrolled", row.offset, error=str(error))
