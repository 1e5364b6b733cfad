"""The question of a prediction: blocks or calls, cores, and code offsets."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loopwright import files, histogram, kernels, microarchs
from loopwright.code import instructions, loops
from loopwright.code.binding import lacking, outline, outlines
from loopwright.code.instructions import Code, Flow, Instruction
from loopwright.errors import InputError, unknown
from loopwright.histogram import Histogram
from loopwright.kernels import Contract, Variant
from loopwright.machine import hosts
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Block
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd


Progress = Callable[[int, int], None]
"""A callback with the number of predicted calls and of all calls."""

OFFSETS = range(64)
_NO_BRANCH = "a loop ends in a branch and this block does not; ask for the unrolled notion"


@dataclass(frozen=True)
class Subject:
    """One thing to predict.

    key holds its identifying columns; natural is its own code offset; moved the bytes that one
    iteration (or call, or 64 bytes of a string instruction) copies, clears or reads, and
    least_cycles the lower bound by its loads and stores, None if unknown; needs the CPU features
    of its instructions; error is the reason why no model is asked.
    """

    key: dict[str, str]
    isa: str
    code: bytes
    notion: str
    natural: int
    moved: int | None = None
    least_cycles: float | None = None
    needs: frozenset[str] = frozenset()
    error: str = ""

    def on(self, core: Microarch) -> "Subject":
        """Return the subject for a core, with an error if the core lacks its instructions."""
        if self.error:
            return self
        if missing := lacking(self.isa, self.code, self.needs, core.features):
            return replace(self, error=f"{missing}, which {core.id} lacks")
        return replace(self, error=instructions.undecodable(self.isa, self.code))

    def block(self, offset: int | None) -> Block:
        """Return the subject as a block at a code offset (its own where None)."""
        return Block(self.isa, self.code, self.notion, self.natural if offset is None else offset)


def variant_subjects(
    variants: Sequence[Variant], core: Microarch, notion: str | None = None
) -> list[Subject]:
    """Return variants as the core would run them; one that does not assemble has an error.

    InputError if none of them assembles.
    """
    subjects: list[Subject] = []
    errors: list[InputError] = []
    for variant in variants:
        try:
            subjects.append(variant_subject(variant, core, notion))
        except InputError as error:
            errors.append(error)
            key = {"kernel": variant.kernel, "routine": variant.routine, "variant": variant.name}
            subjects.append(Subject(key, core.isa, b"", notion or "loop", 0, error=str(error)))
    if errors and len(errors) == len(variants):
        raise errors[0]
    return subjects


def variant_subject(variant: Variant, core: Microarch, notion: str | None = None) -> Subject:
    """Return a variant's main loop, or its whole call, as the core would run it."""
    from loopwright.code import assemble

    kernel = kernels.load(variant.kernel)
    contract = kernel.routines[variant.routine].contract
    code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
    missing = microarchs.missing(variant, core)
    error = f"needs {', '.join(missing)}, which {core.id} lacks" if missing else ""
    if contract.unit == "call":
        body, start = loops.straight(code.instructions, code.entry), code.entry
        moved = sum(f.size for f in contract.fields) or sum(i.written_bytes for i in body)
        error = error or _inner_loop_refusal(code, body)
        if notion == "loop":
            error = "a routine without a loop has calls to predict: the unrolled notion"
    else:
        loop = assemble.main_loop(variant, code)
        body, start = loop.instructions, loop.start
        moved = loops.STRING_BYTES if loop.kind == "string" else loops.moved_bytes(loop, contract)
    hot_code = b"".join(i.code for i in body)
    return Subject(
        key={"kernel": kernel.id, "routine": variant.routine, "variant": variant.name},
        isa=kernel.isa,
        code=hot_code,
        notion=notion or ("unrolled" if contract.unit == "call" else "loop"),
        natural=start % 64,
        moved=moved,
        least_cycles=_least_cycles(body, core),
        needs=outline(kernel.isa, hot_code).needs,
        error=error,
    )


def _inner_loop_refusal(code: Code, body: Sequence[Instruction]) -> str:
    """Return the reason why a call is not one pass through its instructions, or ""."""
    passed = {i.address for i in body}
    inside = [loop for loop in code.loops if {i.address for i in loop.instructions} <= passed]
    if not inside:
        return ""
    return (
        f"a call runs the loop at {inside[0].start:#x} a number of times that this model does "
        "not know; "
        'unit = "iteration" in the contract has the loop predicted'
    )


def _least_cycles(body: Sequence[Instruction], core: Microarch) -> float | None:
    """Return the lower bound of cycles by a core's load and store ports, where known."""
    if any(i.string or i.flow is Flow.CALL for i in body):
        return None
    counts = {
        "loads": sum(i.read_bytes > 0 for i in body),
        "stores": sum(i.written_bytes > 0 for i in body),
    }
    needed = [n / rate for kind, n in counts.items() if (rate := core.bound(kind))]
    return max(needed, default=None)


def row_subjects(rows: Sequence["BlockRow"], isa: str, notion: str | None) -> list[Subject]:
    """Return the subject of each row of hex; one of invalid code has an error.

    The notion defaults to loop where code ends in a branch, else to unrolled.
    """
    codes: list[bytes | InputError] = []
    for row in rows:
        try:
            codes.append(instructions.parse_hex(row.hex))
        except InputError as error:
            codes.append(error)
    code_outlines = iter(outlines(isa, [code for code in codes if isinstance(code, bytes)]))
    subjects = []
    for row, code in zip(rows, codes, strict=True):
        outlined = code if isinstance(code, InputError) else next(code_outlines)
        of_row = partial(Subject, {"id": row.id}, isa, natural=row.offset)
        if isinstance(code, InputError) or isinstance(outlined, InputError):
            subject = of_row(code=b"", notion=notion or "unrolled", error=str(outlined))
        else:
            branch = outlined.ends_in_branch
            subject = of_row(
                code=code,
                notion=notion or ("loop" if branch else "unrolled"),
                needs=outlined.needs,
                error=_NO_BRANCH if notion == "loop" and not branch else "",
            )
        subjects.append(subject)
    return subjects


def piece_subject(piece: loops.Piece, core: Microarch, notion: str | None) -> Subject:
    """Return a loop of pasted assembly as the core would run it."""
    branch = piece.notion == "loop"
    error = piece.error or (_NO_BRANCH if notion == "loop" and not branch else "")
    return Subject(
        key={"id": piece.id},
        isa=piece.isa,
        code=piece.code,
        notion=notion or piece.notion,
        natural=piece.offset,
        moved=piece.moved,
        least_cycles=_least_cycles(piece.instructions, core),
        needs=outline(piece.isa, piece.code).needs if piece.instructions else frozenset(),
        error=error,
    )


class BlockRow(NamedTuple):
    """One row of a blocks file; path has the stretches of a loop that run, by byte offsets."""

    id: str
    hex: str
    offset: int
    path: tuple[tuple[int, int], ...] = ()


def read_blocks(given: "Path | str | pd.DataFrame | None") -> Iterator[BlockRow]:
    """Yield the rows of a CSV, or of a DataFrame with the same columns; InputError for neither."""
    if isinstance(given, str | Path):
        yield from read_csv(Path(given))
        return
    if given is None or not hasattr(given, "columns"):
        raise InputError(f"blocks {given!r} is neither a file nor a DataFrame with id and hex")
    rows = Rows.of_frame(given)
    if missing := {"id", "hex"} - set(rows.columns):
        raise InputError(
            f"the DataFrame of blocks lacks {' and '.join(sorted(missing))}; "
            "it has the columns id, hex and optionally offset"
        )
    for n, row in enumerate(rows.records()):
        offset = str(row.get("offset") or 0).removesuffix(".0")
        code = row["hex"].hex() if isinstance(row["hex"], bytes) else str(row["hex"] or "")
        path = str(row.get("path") or "")
        yield _block_row(f"row {n} of the DataFrame", str(row["id"]), code, offset, path)


def read_csv(path: Path) -> Iterator[BlockRow]:
    """Yield the rows of a CSV with the columns id, hex and optionally offset and path."""
    try:
        file = files.finite(path).open(newline="", encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    with file:
        rows = csv.reader(file)
        try:
            at = {name: n for n, name in enumerate(next(rows, []))}
            if missing := {"id", "hex"} - at.keys():
                raise InputError(
                    f"{path}: the header lacks {' and '.join(sorted(missing))}; "
                    "a blocks file has the columns id, hex and optionally offset"
                )
            columns = [at.get(name, len(at)) for name in BlockRow._fields]
            for row in filter(None, rows):
                row += [""] * (len(at) + 1 - len(row))
                yield _block_row(f"{path}:{rows.line_num}", *(row[n] for n in columns))
        except UnicodeDecodeError:
            raise InputError(f"{path} is no UTF-8 text") from None
        except csv.Error as error:
            raise InputError(f"{path}:{rows.line_num}: {error}") from None


def _block_row(where: str, name: str, code: str, offset: str, path: str) -> BlockRow:
    """Return a row of these texts; path is such as "0-18 24-40"."""
    offset = offset.strip() or "0"
    if not offset.isdecimal() or int(offset) not in OFFSETS:
        raise InputError(f"{where}: offset {offset!r} is not in 0..63")
    ends = [stretch.split("-") for stretch in path.split()]
    if not all(len(pair) == 2 and all(n.isdecimal() for n in pair) for pair in ends):
        raise InputError(f"{where}: path {path!r} is none; it is like 0-18 24-40, in bytes")
    stretches = tuple((int(start), int(end)) for start, end in ends)
    return BlockRow(name, code, int(offset), stretches)


def code_offsets(given: int | str | Iterable[int] | None) -> Sequence[int | None]:
    """Return the code offsets asked for, None for the code's own; InputError outside 0..63."""
    if given is None:
        return [None]
    if given == EVERY:
        return list(OFFSETS)
    offsets = [given] if isinstance(given, str) or not isinstance(given, Iterable) else [*given]
    for offset in offsets:
        if not str(offset).isdecimal() or int(offset) not in OFFSETS:
            raise InputError(
                f"offset {offset!r} is not in 0..63; give a number of bytes mod 64, or all"
            )
    return [int(offset) for offset in offsets]


CountPoint = tuple[int, int, int]
"""A point: the count of a call (bytes or records) and the alignments of both sides."""

Sizes = Sequence[int] | str
Alignments = Sequence[tuple[int, int]] | str


@dataclass(frozen=True)
class Calls:
    """The calls to predict of every routine.

    weights is the share of a histogram's calls for each size; None if sizes were listed.
    open_from is the beginning of the histogram's bucket without an end, if any.
    """

    sizes: tuple[int, ...]
    alignments: tuple[tuple[int, int], ...]
    weights: dict[int, float] | None = None
    open_from: int | None = None

    @classmethod
    def of(cls, sizes: Sizes, align: Alignments | None) -> "Calls":
        """Return the calls for sizes and alignments.

        InputError for an invalid size or alignment, and an unreadable histogram.
        """
        pairs = tuple(dict.fromkeys(_alignments(align)))
        listed = _listed(sizes)
        if listed is None:
            weighing = histogram.read(str(sizes))
            weights = shares(weighing)
            return cls(tuple(sorted(weights)), pairs, weights, weighing.open_from)
        from loopwright.machine.emulator import MOST_BYTES

        for size in listed:
            if not 0 <= size <= MOST_BYTES:
                raise InputError(f"size {size} is not from 0 to {MOST_BYTES}")
        return cls(tuple(dict.fromkeys(listed)), pairs)

    def fits(self, contract: Contract) -> bool:
        """True if a routine takes these sizes: one of fixed size only its bytes, or 1."""
        return contract.counted or not {1, contract.count_bytes}.isdisjoint(self.sizes)

    def points(self, contract: Contract) -> list[CountPoint]:
        """Return the calls of a routine that its contract allows; one of fixed size has one size.

        InputError if no alignment is left.
        """
        allowed = contract.allowed(self.alignments)
        sizes = self.sizes if contract.counted else (1,)
        return [(size, dst, src) for size in sizes for dst, src in allowed]

    def note(self, point: CountPoint) -> str:
        """Return a note that a size stands for a whole bucket without an end, or ""."""
        if self.open_from is None or point[0] != self.open_from:
            return ""
        return f"{self.open_from} B stands for all calls of the histogram of that size or more"

    def weight(self, point: CountPoint) -> float | None:
        """Return the share of a histogram's calls that a call stands for."""
        return None if self.weights is None else self.weights.get(point[0])


def shares(sizes: Histogram) -> dict[int, float]:
    """Return the share of a histogram's calls by size; the sizes are those of its mean."""
    out: dict[int, float] = {}
    for point, count in sizes.points():
        size = int(point)
        out[size] = out.get(size, 0.0) + count / sizes.total
    return out


def _listed(sizes: Sizes) -> list[int] | None:
    """Return listed sizes; None if a file is named."""
    if not isinstance(sizes, str):
        return list(sizes)
    parts = [part.strip() for part in sizes.split(",") if part.strip()]
    if not parts:
        raise InputError(
            f"--sizes {sizes!r} names no size; give bytes as 64,256 or a file with a bpftrace "
            "histogram"
        )
    if not all(part.lstrip("+-").isdecimal() for part in parts):
        return None
    return [int(part) for part in parts]


def _alignments(align: Alignments | None) -> list[tuple[int, int]]:
    """Return pairs of alignments: destination and source."""
    if align is None:
        return [(0, 0)]
    from loopwright.machine.emulator import PAGE

    pairs = list(align) if not isinstance(align, str) else read_alignments(align)
    if not pairs:
        raise InputError("no alignment given; give destination:source, as 0:0,1:0")
    for dst, src in pairs:
        if not (0 <= dst < PAGE and 0 <= src < PAGE):
            raise InputError(f"alignment {dst}:{src} is not from 0 to {PAGE - 1}")
    return pairs


def read_alignments(text: str) -> list[tuple[int, int]]:
    """Return the pairs of a text such as 0:0,1:0; InputError for other text."""
    pairs = [pair.split(":") for pair in text.split(",") if pair.strip()]
    parts = [[side.strip() for side in pair] for pair in pairs]
    if not all(len(p) == 2 and all(map(str.isdecimal, p)) for p in parts):
        raise InputError(
            f"--align {text!r} is not a list of destination:source; give it as 0:0,1:0"
        )
    return [(int(d), int(s)) for d, s in parts]


NOTIONS = ("loop", "unrolled")
CALL = "call"
EVERY = "all"

Selected = Iterator[tuple[Microarch, list[Subject]]]
"""Each core, with the subjects to predict for it."""


@dataclass(frozen=True)
class Question:
    """The subject of a prediction; loopwright.predict describes each field."""

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
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Raise InputError for values of other types."""
        for name in ("spec", "asm", "isa", "notion"):
            if not isinstance(given := getattr(self, name), str | None):
                raise InputError(f"{name} {given!r} is not text")
        if not isinstance(self.parameters, Mapping | None):
            raise InputError(f"parameters {self.parameters!r} is not a dict of names and values")

    @property
    def cores(self) -> str | None:
        """The cores as "ID[,ID]"; None for the default."""
        return listed("microarch", self.microarch)

    @property
    def models(self) -> str | None:
        """The models as "ID[,ID]"; None for the simulator."""
        return listed("model", self.model)

    @property
    def calls(self) -> Calls | None:
        """The whole calls, None if loops are predicted; InputError for a mixture."""
        if self.sizes is None:
            if self.align is not None:
                raise InputError("--align is of whole calls: give it with --sizes")
            if self.notion == CALL:
                raise InputError("the notion call is of calls of some size: give --sizes 64,256")
            return None
        if self.spec is None:
            raise InputError("--sizes is of whole calls: give it with KERNEL[/VARIANT]")
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
        return code_offsets(self.offset)

    def rows(self) -> list[BlockRow]:
        """Return the blocks of a CSV, a DataFrame or hex."""
        self._checked()
        if self.hex is None:
            return list(read_blocks(self.blocks))
        return [_hex_row(self.hex)]

    def pieces(self, isa: str | None = None) -> list[loops.Piece]:
        """Return the loops of assembly or of an object, in the ISA where one is named."""
        self._checked()
        if self.asm is not None:
            from loopwright.code import snippet

            return snippet.pieces(self.asm, isa)
        return loops.of_file(str(self.obj))

    def select(self) -> Selected:
        """Return each core with the subjects to predict for it.

        Exactly one of spec (KERNEL[/VARIANT] or "all"), hex, blocks (a CSV), asm (assembly text, of
        isa) and obj (FILE[:SYMBOL]) is given; InputError for anything else, and for an unknown
        microarch or notion.
        """
        self._checked()
        if self.isa is not None and self.asm is None:
            raise InputError("--isa is for assembly text: give it with --asm FILE")
        if self.notion is not None and self.notion not in NOTIONS:
            raise unknown("notion", self.notion, (*NOTIONS, CALL))
        for core, subjects in self._selected():
            yield core, [subject.on(core) for subject in subjects]

    def _checked(self) -> None:
        """Raise InputError unless there is exactly one subject."""
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
            yield core, variant_subjects(variants, core, notion)
        return
    kernel, variants = kernels.select(spec)
    for core in hosts.cores(microarch, kernel.isa):
        yield core, variant_subjects(variants, core, notion)


def listed(name: str, given: str | Sequence[str] | None) -> str | None:
    """Return a list of ids as "ID[,ID]"; InputError for anything else."""
    if given is None or isinstance(given, str):
        return given
    ids = list(given) if isinstance(given, Iterable) else []
    if not ids or not all(isinstance(item, str) for item in ids):
        raise InputError(
            f'{name} {given!r} is not an id, nor a list of them; give "zen2" or ["zen2"]'
        )
    return ",".join(ids)


def _hex_row(text: str | bytes) -> BlockRow:
    if not isinstance(text, str | bytes):
        raise InputError(
            f'hex {text!r} is neither text nor bytes; give "4801d8" or b"\\x48\\x01\\xd8"'
        )
    return BlockRow("hex", text.hex() if isinstance(text, bytes) else text, 0)


def _of_hex(text: str | bytes, microarch: str | None, notion: str | None) -> Selected:
    for core, subjects in _of_rows([_hex_row(text)], microarch, notion):
        for subject in subjects:
            if not subject.code:
                raise InputError(subject.error)
        yield core, subjects


def _of_blocks(
    given: "Path | str | pd.DataFrame | None", microarch: str | None, notion: str | None
) -> Selected:
    rows = list(read_blocks(given))
    if not rows:
        path = given if isinstance(given, str | Path) else "the DataFrame"
        raise InputError(f"{path} holds no block: there is no row below its header")
    return _of_rows(rows, microarch, notion)


def _of_rows(rows: list[BlockRow], microarch: str | None, notion: str | None) -> Selected:
    isa = None if microarch not in (None, EVERY) else "x86_64"
    cores = hosts.cores(microarch, isa)
    subjects = {
        isa_id: row_subjects(rows, isa_id, notion) for isa_id in {core.isa for core in cores}
    }
    for core in cores:
        yield core, subjects[core.isa]


def _of_pieces(
    pieces: Sequence[loops.Piece], microarch: str | None, notion: str | None
) -> Selected:
    for core in hosts.cores(microarch, pieces[0].isa):
        yield core, [piece_subject(piece, core, notion) for piece in pieces]
