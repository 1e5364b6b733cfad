"""Which blocks on which cores at which code offsets a call is about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright.cores.microarchs import Microarch
from loopwright.errors import InputError, unknown
from loopwright.machine import hosts
from loopwright.predicting import subjects
from loopwright.predicting.call_sizes import Alignments, Calls, Sizes
from loopwright.predicting.subjects import Subject

if TYPE_CHECKING:
    from loopwright.code.pieces import Piece
    from loopwright.predicting.calls import Progress

NOTIONS = ("loop", "unrolled")
CALL = "call"
EVERY = "all"

Selected = Iterator[tuple[Microarch, list[Subject]]]


@dataclass(frozen=True)
class Question:
    """What a prediction is asked of; loopwright.predict says what each field is."""

    spec: str | None = None
    _: KW_ONLY
    hex: str | None = None
    blocks: Path | str | None = None
    asm: str | None = None
    obj: Path | str | None = None
    isa: str | None = None
    microarch: str | None = None
    model: str | None = None
    notion: str | None = None
    offset: int | str | None = None
    parameters: Mapping[str, str] | None = None
    sizes: Sizes | None = None
    align: Alignments | None = None
    progress: "Progress | None" = None
    dask: str | None = None

    @property
    def calls(self) -> Calls | None:
        """The whole calls asked about, None where loops are; InputError for what is neither."""
        if self.sizes is None:
            if self.align is not None:
                raise InputError("--align is of whole calls: give it with --sizes")
            if self.notion == CALL:
                raise InputError("the notion call is of calls of some size: give --sizes 64,256")
            return None
        if self.spec is None:
            raise InputError("--sizes is of whole calls: give it with KERNEL[/VARIANT]")
        if self.dask is not None:
            raise InputError("--dask is for loops and blocks, not for whole calls; leave it out")
        if self.notion not in (None, CALL):
            raise InputError(f"--sizes is of the notion call, not {self.notion}; leave one out")
        return Calls.of(self.sizes, self.align)

    @property
    def key(self) -> list[str]:
        """The columns that identify a subject."""
        return ["kernel", "routine", "variant"] if self.spec is not None else ["id"]

    @property
    def offsets(self) -> Sequence[int | None]:
        """The code offsets asked for, None for the code's own; InputError outside 0..63."""
        if self.offset is None:
            return [None]
        if self.offset == EVERY:
            return list(subjects.OFFSETS)
        if str(self.offset).isdecimal() and int(self.offset) in subjects.OFFSETS:
            return [int(self.offset)]
        raise InputError(
            f"offset {self.offset!r} is not in 0..63; give a number of bytes mod 64, or all"
        )

    def select(self) -> Selected:
        """Return each core with what is to be predicted for it.

        Exactly one of spec (KERNEL[/VARIANT] or "all"), hex, blocks (a CSV), asm (assembly text,
        of isa) and obj (FILE[:SYMBOL]) is given; InputError for anything else, and for a microarch
        or notion that is not known.
        """
        subject = (self.spec, self.hex, self.blocks, self.asm, self.obj)
        if sum(given is not None for given in subject) != 1:
            raise InputError(
                "give one of KERNEL[/VARIANT], --hex HEX, --blocks FILE.csv, --asm FILE and "
                "--obj FILE[:SYMBOL]"
            )
        if self.isa is not None and self.asm is None:
            raise InputError("--isa is for assembly text: give it with --asm FILE")
        if self.notion is not None and self.notion not in NOTIONS:
            raise unknown("notion", self.notion, (*NOTIONS, CALL))
        for core, about in self._selected():
            yield core, [subject.on(core) for subject in about]

    def _selected(self) -> Selected:
        if self.spec is not None:
            return _of_kernels(self.spec, self.microarch, self.notion)
        if self.asm is not None:
            return _of_assembly(self.asm, self.isa, self.microarch, self.notion)
        if self.obj is not None:
            return _of_object(str(self.obj), self.microarch, self.notion)
        if self.hex is not None:
            return _of_hex(self.hex, self.microarch, self.notion)
        return _of_blocks(Path(self.blocks or ""), self.microarch, self.notion)


def _of_kernels(spec: str, microarch: str | None, notion: str | None) -> Selected:
    from loopwright import kernels

    if spec == EVERY:
        for core in hosts.cores(microarch):
            chosen = [k for k in kernels.every() if k.isa == core.isa]
            variants = [v for kernel in chosen for v in kernel.variants.values()]
            yield core, subjects.of_variants(variants, core, notion)
        return
    kernel, variants = kernels.select(spec)
    for core in hosts.cores(microarch, kernel.isa):
        yield core, subjects.of_variants(variants, core, notion)


def _of_hex(text: str, microarch: str | None, notion: str | None) -> Selected:
    for core, about in _of_rows([subjects.BlockRow("hex", text, 0)], microarch, notion):
        for subject in about:
            if not subject.code:
                raise InputError(subject.error)
        yield core, about


def _of_blocks(path: Path, microarch: str | None, notion: str | None) -> Selected:
    rows = list(subjects.read_csv(path))
    if not rows:
        raise InputError(f"{path} holds no block: there is no row below its header")
    return _of_rows(rows, microarch, notion)


def _of_rows(rows: list[subjects.BlockRow], microarch: str | None, notion: str | None) -> Selected:
    isa = None if microarch not in (None, EVERY) else "x86_64"
    cores = hosts.cores(microarch, isa)
    found = {one: subjects.of_rows(rows, one, notion) for one in {core.isa for core in cores}}
    for core in cores:
        yield core, found[core.isa]


def _of_assembly(text: str, isa: str | None, microarch: str | None, notion: str | None) -> Selected:
    from loopwright.code import snippet

    if isa is None and microarch not in (None, EVERY):
        isa = hosts.cores(microarch)[0].isa
    yield from _of_pieces(snippet.pieces(text, isa), microarch, notion)


def _of_object(spec: str, microarch: str | None, notion: str | None) -> Selected:
    from loopwright.code import objects

    yield from _of_pieces(objects.pieces(spec), microarch, notion)


def _of_pieces(found: Sequence["Piece"], microarch: str | None, notion: str | None) -> Selected:
    for core in hosts.cores(microarch, found[0].isa):
        yield core, [subjects.of_piece(piece, core, notion) for piece in found]
