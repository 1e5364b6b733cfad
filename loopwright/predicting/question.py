"""Which blocks on which cores at which code offsets a call is about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loopwright.errors import InputError, unknown
from loopwright.machine import hosts
from loopwright.microarchs import Microarch
from loopwright.predicting import subjects
from loopwright.predicting.call_sizes import Alignments, Calls, Sizes
from loopwright.predicting.subjects import Subject

if TYPE_CHECKING:
    import pandas as pd

    from loopwright.code.objects import Piece
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
    hex: str | bytes | None = None
    blocks: "Path | str | pd.DataFrame | None" = None
    asm: str | None = None
    obj: Path | str | None = None
    isa: str | None = None
    microarch: str | Sequence[str] | None = None
    model: str | Sequence[str] | None = None
    notion: str | None = None
    offset: int | str | None = None
    parameters: Mapping[str, str] | None = None
    sizes: Sizes | None = None
    align: Alignments | None = None
    progress: "Progress | None" = None
    dask: str | None = None

    def __post_init__(self) -> None:
        """Refuse values of other types."""
        for name in ("spec", "asm", "isa", "notion"):
            if not isinstance(given := getattr(self, name), str | None):
                raise InputError(f"{name} {given!r} is no text")
        if not isinstance(self.parameters, Mapping | None):
            raise InputError(f"parameters {self.parameters!r} is no dict of names and values")

    @property
    def cores(self) -> str | None:
        """The cores asked about as "ID[,ID]", None for those that are the default."""
        return listed("microarch", self.microarch)

    @property
    def models(self) -> str | None:
        """The models asked as "ID[,ID]", None for the simulator."""
        return listed("model", self.model)

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

    def rows(self) -> list[subjects.BlockRow]:
        """Return the blocks of a CSV, a DataFrame or hex, as they are asked about."""
        self._checked()
        if self.hex is None:
            return list(subjects.read_blocks(self.blocks))
        return [_hex_row(self.hex)]

    def pieces(self, isa: str | None = None) -> "list[Piece]":
        """Return the loops of assembly or of an object, in the ISA where one is named."""
        self._checked()
        if self.asm is not None:
            from loopwright.code import snippet

            return snippet.pieces(self.asm, isa)
        from loopwright.code import objects

        return objects.pieces(str(self.obj))

    def select(self) -> Selected:
        """Return each core with what is to be predicted for it.

        Exactly one of spec (KERNEL[/VARIANT] or "all"), hex, blocks (a CSV), asm (assembly text,
        of isa) and obj (FILE[:SYMBOL]) is given; InputError for anything else, and for a microarch
        or notion that is not known.
        """
        self._checked()
        if self.isa is not None and self.asm is None:
            raise InputError("--isa is for assembly text: give it with --asm FILE")
        if self.notion is not None and self.notion not in NOTIONS:
            raise unknown("notion", self.notion, (*NOTIONS, CALL))
        for core, about in self._selected():
            yield core, [subject.on(core) for subject in about]

    def _checked(self) -> None:
        """Refuse more or fewer subjects than one."""
        subject = (self.spec, self.hex, self.blocks, self.asm, self.obj)
        if sum(given is not None for given in subject) != 1:
            raise InputError(
                "give one of KERNEL[/VARIANT], --hex HEX, --blocks FILE.csv, --asm FILE and "
                "--obj FILE[:SYMBOL]"
            )

    def _selected(self) -> Selected:
        if self.spec is not None:
            return _of_kernels(self.spec, self.cores, self.notion)
        if self.asm is not None or self.obj is not None:
            isa = self.isa
            if isa is None and self.asm is not None and self.cores not in (None, EVERY):
                isa = hosts.cores(self.cores)[0].isa
            return _of_pieces(self.pieces(isa), self.cores, self.notion)
        if self.hex is not None:
            return _of_hex(self.hex, self.cores, self.notion)
        return _of_blocks(self.blocks, self.cores, self.notion)


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


def listed(name: str, given: str | Sequence[str] | None) -> str | None:
    """Return a list of ids as "ID[,ID]"; InputError where it is none."""
    if given is None or isinstance(given, str):
        return given
    ids = list(given) if isinstance(given, Iterable) else []
    if not ids or not all(isinstance(one, str) for one in ids):
        raise InputError(f'{name} {given!r} is no id, nor a list of them; give "zen2" or ["zen2"]')
    return ",".join(ids)


def _hex_row(text: str | bytes) -> subjects.BlockRow:
    if not isinstance(text, str | bytes):
        raise InputError(
            f'hex {text!r} is neither text nor bytes; give "4801d8" or b"\\x48\\x01\\xd8"'
        )
    return subjects.BlockRow("hex", text.hex() if isinstance(text, bytes) else text, 0)


def _of_hex(text: str | bytes, microarch: str | None, notion: str | None) -> Selected:
    for core, about in _of_rows([_hex_row(text)], microarch, notion):
        for subject in about:
            if not subject.code:
                raise InputError(subject.error)
        yield core, about


def _of_blocks(
    given: "Path | str | pd.DataFrame | None", microarch: str | None, notion: str | None
) -> Selected:
    rows = list(subjects.read_blocks(given))
    if not rows:
        path = given if isinstance(given, str | Path) else "the DataFrame"
        raise InputError(f"{path} holds no block: there is no row below its header")
    return _of_rows(rows, microarch, notion)


def _of_rows(rows: list[subjects.BlockRow], microarch: str | None, notion: str | None) -> Selected:
    isa = None if microarch not in (None, EVERY) else "x86_64"
    cores = hosts.cores(microarch, isa)
    found = {one: subjects.of_rows(rows, one, notion) for one in {core.isa for core in cores}}
    for core in cores:
        yield core, found[core.isa]


def _of_pieces(found: Sequence["Piece"], microarch: str | None, notion: str | None) -> Selected:
    for core in hosts.cores(microarch, found[0].isa):
        yield core, [subjects.of_piece(piece, core, notion) for piece in found]
