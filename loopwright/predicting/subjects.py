"""What a prediction is about: a variant's main loop, a hex string, or rows of a CSV."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loopwright import kernels, microarchs
from loopwright.code import instructions, loops
from loopwright.code.instructions import Code, Flow, Instruction
from loopwright.code.outline import Outline, lacking, outline, outlines
from loopwright.errors import InputError
from loopwright.kernels import Variant
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Block
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from loopwright.code.objects import Piece

OFFSETS = range(64)
_NO_BRANCH = "a loop ends in a branch and this block does not; ask for the unrolled notion"


@dataclass(frozen=True)
class Subject:
    """One thing to predict.

    key holds its identifying columns; natural is the code offset it has of itself; moved the
    bytes that one iteration (or call, or 64 bytes of a string instruction) copies, clears or
    reads, and least_cycles what its loads and stores take at the least, None where not known;
    needs the features that its instructions ask of a core; error says why no model is to be asked.
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
        """Return it as it is to be asked about on a core, which may lack its instructions."""
        if self.error:
            return self
        if missing := lacking(self.isa, self.code, self.needs, core.features):
            return replace(self, error=f"{missing}, which {core.id} lacks")
        return replace(self, error=instructions.unknown(self.isa, self.code))

    def block(self, offset: int | None) -> Block:
        """Return it as a block at a code offset (its own where None)."""
        return Block(self.isa, self.code, self.notion, self.natural if offset is None else offset)


def of_variants(
    variants: Sequence[Variant], core: Microarch, notion: str | None = None
) -> list[Subject]:
    """Return variants as the core would run them; one that does not assemble has the error.

    InputError where none of them assembles.
    """
    found: list[Subject] = []
    refused: list[InputError] = []
    for variant in variants:
        try:
            found.append(of_variant(variant, core, notion))
        except InputError as error:
            refused.append(error)
            key = {"kernel": variant.kernel, "routine": variant.routine, "variant": variant.name}
            found.append(Subject(key, core.isa, b"", notion or "loop", 0, error=str(error)))
    if refused and len(refused) == len(variants):
        raise refused[0]
    return found


def of_variant(variant: Variant, core: Microarch, notion: str | None = None) -> Subject:
    """Return a variant's main loop, or its whole call, as the core would run it."""
    from loopwright.code import assemble
    from loopwright.code.objects import straight

    kernel = kernels.load(variant.kernel)
    contract = kernel.routines[variant.routine].contract
    code = assemble.variant_code(variant, microarchs.alternatives_left(variant, core))
    missing = microarchs.missing(variant, core)
    error = f"needs {', '.join(missing)}, which {core.id} lacks" if missing else ""
    if contract.unit == "call":
        body, start = straight(code.instructions, code.entry), code.entry
        moved = sum(f.size for f in contract.fields) or sum(i.written_bytes for i in body)
        error = error or _turns(code, body)
        if notion == "loop":
            error = "a routine without a loop has calls to predict: the unrolled notion"
    else:
        loop = assemble.main_loop(variant, code)
        body, start = loop.instructions, loop.start
        moved = loops.STRING_BYTES if loop.kind == "string" else loops.moved_bytes(loop, contract)
    moving = b"".join(i.code for i in body)
    return Subject(
        key={"kernel": kernel.id, "routine": variant.routine, "variant": variant.name},
        isa=kernel.isa,
        code=moving,
        notion=notion or ("unrolled" if contract.unit == "call" else "loop"),
        natural=start % 64,
        moved=moved,
        least_cycles=_least_cycles(body, core),
        needs=outline(kernel.isa, moving).needs,
        error=error,
    )


def _turns(code: Code, body: Sequence[Instruction]) -> str:
    """Say why a call cannot be predicted as one pass through its instructions, or nothing."""
    passed = {i.address for i in body}
    inside = [loop for loop in code.loops if {i.address for i in loop.instructions} <= passed]
    if not inside:
        return ""
    return (
        f"a call turns in the loop at {inside[0].start:#x} so often as this model does not know; "
        'unit = "iteration" in the contract has the loop predicted'
    )


def _least_cycles(body: Sequence[Instruction], core: Microarch) -> float | None:
    """Return the cycles that loads and stores take at the least on a core, where known."""
    if any(i.string or i.flow is Flow.CALL for i in body):
        return None
    counts = {
        "loads": sum(i.read_bytes > 0 for i in body),
        "stores": sum(i.written_bytes > 0 for i in body),
    }
    needed = [n / rate for kind, n in counts.items() if (rate := core.bound(kind))]
    return max(needed, default=None)


def of_rows(rows: Sequence["BlockRow"], isa: str, notion: str | None) -> list[Subject]:
    """Return the code of each row of hex; what is no code has the error.

    The notion defaults to loop where code ends in a branch, else to unrolled.
    """
    codes: list[bytes | InputError] = []
    for row in rows:
        try:
            codes.append(instructions.parse_hex(row.hex))
        except InputError as error:
            codes.append(error)
    seen = iter(outlines(isa, [code for code in codes if isinstance(code, bytes)]))
    out = []
    for row, code in zip(rows, codes, strict=True):
        found = code if isinstance(code, InputError) else next(seen)
        key = {"id": row.id}
        if isinstance(code, InputError) or isinstance(found, InputError):
            bare = Subject(key, isa, b"", notion or "unrolled", row.offset, error=str(found))
            out.append(bare)
        else:
            out.append(_of_code(key, isa, code, found, notion, row.offset))
    return out


def _of_code(
    key: dict[str, str], isa: str, code: bytes, seen: Outline, notion: str | None, offset: int
) -> Subject:
    branch = seen.ends_in_branch
    error = _NO_BRANCH if notion == "loop" and not branch else ""
    chosen = notion or ("loop" if branch else "unrolled")
    return Subject(key, isa, code, chosen, offset, needs=seen.needs, error=error)


def of_piece(piece: "Piece", core: Microarch, notion: str | None) -> Subject:
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
    """One row of a blocks file; path are the stretches of a loop that run, from byte to byte."""

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
    found = Rows.of_frame(given)
    if missing := {"id", "hex"} - set(found.columns):
        raise InputError(
            f"the DataFrame of blocks lacks {' and '.join(sorted(missing))}; "
            "it has the columns id, hex and optionally offset"
        )
    for n, row in enumerate(found.records()):
        offset = str(row.get("offset") or 0).removesuffix(".0")
        if not offset.isdecimal() or int(offset) not in OFFSETS:
            raise InputError(f"row {n} of the DataFrame: offset {offset!r} is not in 0..63")
        code = row["hex"].hex() if isinstance(row["hex"], bytes) else str(row["hex"] or "")
        path = _stretches(str(row.get("path") or ""), f"row {n} of the DataFrame")
        yield BlockRow(str(row["id"]), code, int(offset), path)


def read_csv(path: Path) -> Iterator[BlockRow]:
    """Yield the rows of a CSV with the columns id, hex and optionally offset and path."""
    try:
        file = path.open(newline="", encoding="utf-8-sig")
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
                key, code, given, path_of = (row[n] for n in columns)
                given = given.strip() or "0"
                if not given.isdecimal() or int(given) not in OFFSETS:
                    raise InputError(f"{path}:{rows.line_num}: offset {given!r} is not in 0..63")
                yield BlockRow(
                    key, code, int(given), _stretches(path_of, f"{path}:{rows.line_num}")
                )
        except UnicodeDecodeError:
            raise InputError(f"{path} is no UTF-8 text") from None
        except csv.Error as error:
            raise InputError(f"{path}:{rows.line_num}: {error}") from None


def _stretches(text: str, where: str) -> tuple[tuple[int, int], ...]:
    """Read a path, such as "0-18 24-40"."""
    ends = [stretch.split("-") for stretch in text.split()]
    if not all(len(one) == 2 and all(n.isdecimal() for n in one) for one in ends):
        raise InputError(f"{where}: path {text!r} is none; it is like 0-18 24-40, in bytes")
    return tuple((int(start), int(end)) for start, end in ends)
