"""The points that a judgement by measurement rests on, and which of them are there.

Each place of a call (size and alignments, caches hot, the code where it puts itself) counts for
both variants or for none, and a verdict needs all of them: a mean over what is left would compare
the sizes of one variant with the alignments of another, and change with what was refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from loopwright.histogram import Histogram
from loopwright.judging.call_costs import ALIGNMENTS, Alignments, Place, Row, weights
from loopwright.kernels.contracts import Contract
from loopwright.measuring import sweeps
from loopwright.measuring.sweeps import Sweep

# Sizes of calls in bytes that a judgement rests on.
SIZES = (0, 8, 16, 64, 128, 256, 512, 1024, 2048, 4096)
LARGE = 8192  # one more, where a histogram reaches beyond them
_LISTED = 8  # places named one by one, at most


def wanted(contract: Contract, sizes: Histogram | None) -> list[int] | None:
    """Return the sizes to measure for a judgement; None for those that records have."""
    if contract.fields:
        return None
    top = max((b.high or b.low for b in sizes.buckets), default=0) if sizes else 0
    return [*SIZES, *((LARGE,) if top > SIZES[-1] else ())]


def places(
    contract: Contract, sizes: Histogram | None, alignments: Alignments = ALIGNMENTS
) -> tuple[Place, ...]:
    """Return the calls that a judgement of a routine rests on.

    Those of all sizes but 0, at which a winner may not be slower; with a histogram those that have
    a weight in it.
    """
    every = sorted(set(sweeps.call_bytes(contract, wanted(contract, sizes))))
    if sizes:
        used = [s for s, weight in zip(every, weights(every, sizes), strict=True) if weight]
    else:
        used = [s for s in every if s] or every
    where = Sweep(alignments=[*alignments]).places(contract)
    return tuple(Place(size, dst, src) for size in used for dst, src, _ in where)


def calls(rows: pd.DataFrame, variant: str) -> dict[Place, list[Row]]:
    """Return the measured calls of a variant with hot caches by place, those refused left out."""
    if rows.empty:
        return {}
    mine = rows[(rows["variant"] == variant) & (rows["quantity"] == "call")]
    found: dict[Place, list[Row]] = {}
    for row in mine[(mine["cache"] == "hot") & (mine["status"] != "refused")].to_dict("records"):
        if row["cycles"] > 0:
            found.setdefault(_place(row), []).append(row)
    return found


def _place(row: Row) -> Place:
    return Place(int(row["size_bytes"]), int(row["dst_align"]), int(row["src_align"]))


_SAME = ("microarch", "machine", "clock", "skew_bytes")


def pairs(
    base: Mapping[Place, Sequence[Row]], other: Mapping[Place, Sequence[Row]]
) -> dict[Place, tuple[Row, Row]]:
    """Return the places that both have by the same machine, clock and skew, once each."""
    out = {}
    for place, rows in base.items():
        matching = [(b, o) for b in rows for o in other.get(place, ()) if _alike(b, o)]
        if len(matching) == 1:
            out[place] = matching[0]
    return out


def _alike(one: Row, two: Row) -> bool:
    return all(one[k] == two[k] or (pd.isna(one[k]) and pd.isna(two[k])) for k in _SAME)


@dataclass(frozen=True)
class Gap:
    """What a variant lacks of the places asked for, and why, where that is known."""

    variant: str
    missing: tuple[Place, ...]
    asked: int
    why: str = ""

    def __str__(self) -> str:
        """Return it in words: "2 of 12 points of movsq are missing (64 B at 0:0, 256 B at 1:0)"."""
        if len(self.missing) == self.asked:
            why = f" ({self.why})" if self.why else ""
            return f"all {self.asked} points of {self.variant} are missing{why}"
        named = ", ".join(map(str, self.missing[:_LISTED]))
        more = len(self.missing) - _LISTED
        named += f" and {more} more" if more > 0 else ""
        named += f"; {self.why}" if self.why else ""
        return f"{len(self.missing)} of {self.asked} points of {self.variant} are missing ({named})"


def gap(
    rows: pd.DataFrame, variant: str, known: Iterable[Place], asked: Sequence[Place]
) -> Gap | None:
    """Return what a variant lacks of the places asked for, given those that are known."""
    there = set(known)
    missing = tuple(place for place in asked if place not in there)
    return Gap(variant, missing, len(asked), _why(rows, variant, set(missing))) if missing else None


def _why(rows: pd.DataFrame, variant: str, missing: set[Place]) -> str:
    """Return the reason that most of the missing places were refused for."""
    if rows.empty:
        return ""
    mine = rows[(rows["variant"] == variant) & (rows["quantity"] == "call")]
    refused = [
        str(row["reason"])
        for row in mine[mine["status"] == "refused"].to_dict("records")
        if row["reason"] and _place(row) in missing
    ]
    return max(refused, key=refused.count) if refused else ""


def coverage(rows: pd.DataFrame, contracts: Mapping[str, Contract]) -> int:
    """Return how many places that judgements rest on were measured, of variants by contract."""
    total = 0
    for variant, contract in contracts.items():
        total += len(set(places(contract, None)) & calls(rows, variant).keys())
    return total
