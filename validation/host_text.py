"""The table for people of what a host measured and what models say of it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
from every_model import MODEL_IDS

from loopwright.predicting.question import NOTIONS


def page(
    name: str,
    machine: Mapping[str, str],
    scores: Iterable[Sequence[str]],
    loops: pd.DataFrame,
    blocks: pd.DataFrame | None,
) -> str:
    """Return all of it: the machine, errors by model, loops, and how blocks fared."""
    heads = ["core", "measured", "model", "pairs", "MAPE %", "Kendall's tau"]
    parts = [
        f"# The models against {name}, measured",
        table(["", ""], [[key, said] for key, said in machine.items()]),
        "## Errors",
        table(heads, scores),
        "## Loops, cycles an iteration (of 64 bytes for string instructions)",
        _loops(loops),
    ]
    if blocks is not None:
        parts += ["## Blocks", _blocks(blocks), _unanswered(blocks)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _loops(rows: pd.DataFrame) -> str:
    """Return the loops, each with what is measured and each model's error."""
    body = []
    for row in rows.to_dict("records"):
        real = row["cycles"]
        cells = [f"{row['kernel']}/{row['variant']}"]
        cells.append("refused" if pd.isna(real) else f"{real:.2f} +- {row['uncertainty']:.2f}")
        for model in MODEL_IDS:
            error = 100 * (row[model] / real - 1)
            said = "-" if pd.isna(row[model]) else f"{row[model]:.2f}"
            cells.append(said + ("" if pd.isna(error) else f" ({error:+.0f} %)"))
        body.append(cells)
    shown = table(["loop", "measured", *MODEL_IDS], body)
    why = sorted(set(rows.loc[rows["cycles"].isna(), "reason"]) - {""})
    return "\n\n".join([shown, *(f"refused: {reason}" for reason in why)])


def _blocks(rows: pd.DataFrame) -> str:
    """Return how many blocks gave a figure, and why the others did not."""
    out = []
    for notion in NOTIONS:
        mine = rows[rows["notion"] == notion]
        if mine.empty:
            continue
        refused = mine[mine["status"] == "refused"]
        share = 100 * len(refused) / len(mine)
        out += [
            f"{notion}: {len(mine)} blocks, {len(refused)} refused ({share:.1f} %), "
            f"median uncertainty {100 * (mine['uncertainty'] / mine['cycles']).median():.1f} %.",
            "",
        ]
        if len(refused):
            out += [table(["blocks", "refused because"], _kinds(refused["reason"])), ""]
    return "\n".join(out)


def _unanswered(rows: pd.DataFrame) -> str:
    """Return why models have no answer for blocks that were measured."""
    body = []
    for model in MODEL_IDS:
        reasons = rows.loc[rows["cycles"].notna(), f"{model} error"].fillna("")
        body += [[model, *kind] for kind in _kinds(reasons[reasons != ""])[:5]]
    return table(["model", "rows", "no answer because"], body)


def _kinds(reasons: Iterable[str]) -> list[list[str]]:
    """Count reasons, numbers in them aside."""
    plain = Counter(re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", reason) for reason in reasons)
    alike: Counter[str] = Counter()
    for reason, count in plain.items():
        alike[re.sub(r"N(, N)+", "N", reason).split(": it's")[0]] += count
    return [[str(count), reason] for reason, count in alike.most_common(12)]
