"""Candidates as variants of a kernel folder, for use by every other verb."""

import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopwright import files, kernels
from loopwright.improving.costs import Candidate
from loopwright.improving.listing import Line, Listing
from loopwright.kernels import Variant

# Keys of a variant that also hold for another text of it.
_KEPT = ("routine", "needs", "switched_off", "alternatives", "may_change", "guards", "unreached")
_PATCHED = ("requires", "edits")
_MOST_SUBJECT = 50  # characters; the patch's prefix comes before them
_NOT_PATCHED = "its text was made of assembled code: write it into the source by hand"


def with_origin(listing: Listing, variant: Variant) -> Listing:
    """Return a listing with a comment above its function on its origin and transformations."""
    steps = "".join(f"\n *   {step}" for step in listing.steps)
    text = f"/*\n * Found by `loopwright improve {variant.id}`:{steps}\n */"
    at = next(
        (n for n, line in enumerate(listing.lines) if line.text.startswith("SYM_FUNC_START")), 0
    )
    lines = (*listing.lines[:at], Line("text", text), *listing.lines[at:])
    return replace(listing, lines=lines)


def write(
    out: Path,
    variant: Variant,
    paths: Mapping[str, Sequence[Candidate]],
    origins: Mapping[str, str],
) -> list[Path]:
    """Write a kernel folder with the family's variants and the candidates; return its new files.

    It has the same place below out as below a folder of kernels: LOOPWRIGHT_KERNELS may name out.
    paths has, by name, the candidates from the variant to the one to write, origins the origin in
    words. The folder of the same kernel in out is replaced.
    """
    kernel = kernels.load(variant.kernel)
    isa, family = kernel.id.split("/")
    raw = tomllib.loads((kernel.folder / "kernel.toml").read_text())
    row = next(v for v in raw["variant"] if v["name"] == variant.name)
    text = (kernel.folder / "kernel.toml").read_text().rstrip() + "\n"
    written = []
    with files.staged(out / isa) as scratch:
        folder = scratch / family
        shutil.copytree(kernel.folder, folder)
        for name, path in paths.items():
            source = with_origin(path[-1].listing, variant).render()
            (folder / f"{name}.S").write_text(source)
            text += "\n[[variant]]\n" + _table(_row(name, path, row, variant, origins[name]))
            written.append(out / isa / family / f"{name}.S")
        (folder / "kernel.toml").write_text(text)
    return [*written, out / isa / family / "kernel.toml"]


def new_steps(path: Sequence[Candidate]) -> Iterator[tuple[str, ...]]:
    """Yield the transformations that each candidate of a path adds to its predecessor.

    Steps of the reader, such as inlining, count with the first transformation.
    """
    for number, stage in enumerate(path):
        yield stage.listing.steps[len(path[number - 1].listing.steps) if number > 1 else 0 :]


def _row(
    name: str, path: Sequence[Candidate], table: Mapping[str, Any], variant: Variant, origin: str
) -> dict[str, Any]:
    candidate = path[-1]
    steps = "; ".join(candidate.listing.steps)
    row: dict[str, Any] = {
        "name": name,
        "summary": f"{variant.name} changed: {steps}",
        "subject": _subject(candidate.listing, kernels.contract_of(variant).symbol),
        "why": f"Found by {origin}",
        "steps": [
            {
                "name": "; ".join(new) if number else variant.name,
                "bytes": stage.bytes,
                "cycles": {core: round(cost.mean, 2) for core, cost in stage.costs.items()},
            }
            for number, (stage, new) in enumerate(zip(path, new_steps(path), strict=True))
        ],
    }
    lifted = variant.source.suffix != ".S" or kernels.load(variant.kernel).isa != "x86_64"
    kept = _KEPT if lifted else (*_KEPT, *_PATCHED)
    row |= {key: table[key] for key in kept if key in table}
    if lifted:
        row["unpatchable"] = _NOT_PATCHED
    return row


def _subject(listing: Listing, symbol: str) -> str:
    """Return the subject of a patch: the first transformation, if it fits into a line."""
    function = f"{symbol}()"
    first = listing.steps[0] if listing.steps else ""
    subject = f"{first[:1].upper()}{first[1:]} in {function}"
    return subject if first and len(subject) <= _MOST_SUBJECT else f"Speed up {function}"


def _table(row: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in row.items())


def _value(value: Any) -> str:
    """Return a value in TOML; JSON strings are valid basic strings of TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
