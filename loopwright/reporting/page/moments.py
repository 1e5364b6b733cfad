"""The timelines as data that the page's script draws."""

import json
from typing import Any

import pandas as pd

from loopwright.predicting.explain import STEPS
from loopwright.predicting.models import SIMULATOR
from loopwright.reporting import origin
from loopwright.reporting.findings import Finding
from loopwright.reporting.page.asked import Asked
from loopwright.reporting.timelines import ITERATIONS

_STEPS = tuple(f"{step}_cycle" for step in STEPS)


class _Words:
    """Texts by number: those of uops repeat."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def number(self, text: Any) -> int:
        return self.of.setdefault(" ".join(str(text).split()), len(self.of))


def data(findings: list[Finding], asked: Asked) -> str:
    """Return the timelines as JSON that may stand in a script element.

    words holds every text; a timeline's rows are iteration, instruction, word of its text, of what
    it does, of its port and of what it waited for, then the cycles of the steps (null: skipped).
    """
    words = _Words()
    timelines = []
    for found in findings:
        for moment in found.moments:
            command = asked.figure(
                found.kernel.id, moment.variant, moment.microarch, SIMULATOR, str(moment.offset)
            )
            if " predict " in command:
                command += f" --timeline {ITERATIONS}"
            timelines.append(
                {
                    "kernel": found.kernel.id,
                    "variant": moment.variant,
                    "core": moment.microarch,
                    "offset": moment.offset,
                    "why": moment.why,
                    "cycles": round(moment.cycles, 2),
                    "again": command,
                    "rows": [_row(row, words) for row in moment.rows.to_dict("records")],
                }
            )
    whole = {
        "origin": origin.versions()[SIMULATOR],
        "words": list(words.of),
        "timelines": timelines,
    }
    # "</script>" in a text must not end the element.
    return json.dumps(whole, separators=(",", ":")).replace("<", "\\u003c")


def _row(row: dict[Any, Any], words: _Words) -> list[int | None]:
    what = ", ".join(part for part in (row["role"], row["how"]) if part)
    cycles = [None if pd.isna(row[step]) else int(row[step]) for step in _STEPS]
    named = [words.number(row[key]) for key in ("port", "waited_for")]
    return [
        int(row["iteration"]),
        int(row["instruction"]),
        words.number(row["text"]),
        words.number(what),
        *named,
        *cycles,
    ]
