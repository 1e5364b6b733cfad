"""The Markdown page of a host's measurements and of the models' errors against them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from every_model import MODEL_IDS
from markdown_table import table

from loopwright.predicting.question import NOTIONS


def page(
    name: str,
    machine: Mapping[str, str],
    scores: Iterable[Sequence[str]],
    loops: pd.DataFrame,
    blocks: pd.DataFrame | None,
) -> str:
    """Return the page: the machine, errors by model, loops, and counts of blocks.

    scores are lines of the table of errors.
    """
    heads = ["core", "measured", "model", "pairs", "MAPE %", "Kendall's tau"]
    parts = [
        f"# The models against {name}, measured",
        table(["", ""], [[key, value] for key, value in machine.items()]),
        "## Errors",
        table(heads, scores),
        "## Loops, cycles an iteration (of 64 bytes for string instructions)",
        _loops(loops),
    ]
    if blocks is not None:
        parts += ["## Blocks", _blocks(blocks), _unanswered(blocks)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _loops(rows: pd.DataFrame) -> str:
    """Return the table of loops: measured cycles, and each model's cycles and error."""
    body = []
    for row in rows.to_dict("records"):
        measured = row["cycles"]
        cells = [f"{row['kernel']}/{row['variant']}"]
        refused = pd.isna(measured)
        cells.append("refused" if refused else f"{measured:.2f} +- {row['uncertainty']:.2f}")
        for model in MODEL_IDS:
            error = 100 * (row[model] / measured - 1)
            cell = "-" if pd.isna(row[model]) else f"{row[model]:.2f}"
            cells.append(cell + ("" if pd.isna(error) else f" ({error:+.0f} %)"))
        body.append(cells)
    shown = table(["loop", "measured", *MODEL_IDS], body)
    why = sorted(set(rows.loc[rows["cycles"].isna(), "reason"]) - {""})
    return "\n\n".join([shown, *(f"refused: {reason}" for reason in why)])


def _blocks(rows: pd.DataFrame) -> str:
    """Return the counts of measured and refused blocks by prediction kind, with the reasons."""
    lines = []
    for notion in NOTIONS:
        of_notion = rows[rows["notion"] == notion]
        if of_notion.empty:
            continue
        refused = of_notion[of_notion["status"] == "refused"]
        share = 100 * len(refused) / len(of_notion)
        uncertainty = 100 * (of_notion["uncertainty"] / of_notion["cycles"]).median()
        lines += [
            f"{notion}: {len(of_notion)} blocks, {len(refused)} refused ({share:.1f} %), "
            f"median uncertainty {uncertainty:.1f} %.",
            "",
        ]
        if len(refused):
            lines += [table(["blocks", "refused because"], _kinds(refused["reason"])), ""]
    return "\n".join(lines)


def _unanswered(rows: pd.DataFrame) -> str:
    """Return the table of the models' commonest reasons for no answer on measured blocks."""
    body = []
    for model in MODEL_IDS:
        reasons = rows.loc[rows["cycles"].notna(), f"{model} error"].fillna("")
        body += [[model, *kind] for kind in _kinds(reasons[reasons != ""])[:5]]
    return table(["model", "rows", "no answer because"], body)


def _kinds(reasons: Iterable[str]) -> list[list[str]]:
    """Return the commonest reasons with their counts, alike where only numbers differ."""
    with_numbers = Counter(re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", reason) for reason in reasons)
    kinds: Counter[str] = Counter()
    for reason, count in with_numbers.items():
        kinds[re.sub(r"N(, N)+", "N", reason).split(": it's")[0]] += count
    return [[str(count), reason] for reason, count in kinds.most_common(12)]
