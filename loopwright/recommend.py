"""Judge a kernel's variants: a winner for each routine, or none and why."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from loopwright import hosts, microarchs
from loopwright.compare import table
from loopwright.histogram import Histogram, read
from loopwright.kernels import Routine
from loopwright.microarchs import Microarch
from loopwright.study import Study, gather
from loopwright.verdicts import MODEL_THRESHOLD, THRESHOLD, Case, Verdict, cases, sound

COLUMNS = [
    "kernel",
    "routine",
    "baseline",
    "winner",
    "margin_percent",
    "confidence",
    "slower_on",
    "only_where",
    "basis",
    "reason",
]


def recommend(
    kernel_id: str,
    *,
    sizes: str | None = None,
    quick: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Gather a kernel's evidence and recommend a variant for each of its routines.

    sizes names a file with a bpftrace histogram (FILE or FILE:MAP) that weighs the measured costs.
    quick leaves this host's measurement out.
    """
    histogram = read(sizes) if sizes else None
    found = gather(kernel_id, sizes=histogram, quick=quick, progress=progress)
    return judge(found, histogram)


def judge(found: Study, sizes: Histogram | None = None) -> pd.DataFrame:
    """Return one row a routine.

    winner is empty where there is none. margin_percent is the winner's speed over the baseline's
    (geometric mean over the target cores with evidence). confidence is "measured", "models agree",
    "models disagree: measure on X" or "no model answers on X: measure there". slower_on names
    cores on which the winner would be slower, only_where variants that win under a condition
    alone. basis says what sizes the judgement is about.
    """
    rows = table(found)
    judged = [_routine(found, r, rows, sizes) for r in found.kernel.routines.values()]
    return pd.DataFrame(judged, columns=COLUMNS)


def _routine(
    found: Study, routine: Routine, rows: pd.DataFrame, sizes: Histogram | None
) -> dict[str, object]:
    targets = microarchs.targets(found.kernel.isa)
    known = cases(found, routine, rows, sizes)
    answer: dict[str, object] = {
        "kernel": found.kernel.id,
        "routine": routine.name,
        "baseline": routine.baseline,
        "winner": "",
        "margin_percent": np.nan,
        "confidence": "",
        "slower_on": "",
        "only_where": _conditional(known, targets),
        "basis": _basis(found, sizes),
    }
    if not sound(found, routine.baseline):
        return {**answer, "reason": f"the baseline {routine.baseline} breaks its contract"}
    general = [c for c in known if not c.lacking]
    scored = [(score, c) for c in general if (score := c.score(targets)) == score]
    if not scored:
        return {
            **answer,
            "confidence": f"no model answers on {_names(targets)}: measure there",
            "reason": f"no model has a figure for both {routine.baseline} and another variant; "
            f"{_elsewhere(known, found)}",
        }
    best, case = max(scored, key=lambda pair: pair[0])
    edge = _edge(case, targets)
    if best <= 1 + edge:
        return {
            **answer,
            "confidence": _confidence(case, targets),
            "reason": f"none beats {routine.baseline} by more than {100 * edge:.0f} %: "
            f"the best, {case.variant.name}, is at {_percent(best)}; "
            f"{_elsewhere(known, found)}",
        }
    silent = [c for c in targets if c.id not in case.verdicts]
    if silent:
        led = "; ".join(_said(v) for v in case.verdicts.values())
        return {
            **answer,
            "confidence": _confidence(case, targets),
            "reason": f"{case.variant.name} leads ({led}), but nothing is known of it and "
            f"{routine.baseline} on {_names(silent)}",
        }
    slower = [
        f"{v.core} ({_percent(v.ratio)}, {'measured' if v.measured else 'models'})"
        for v in case.verdicts.values()
        if v.ratio < 1 - (THRESHOLD if v.measured else MODEL_THRESHOLD)
    ]
    return {
        **answer,
        "winner": case.variant.name,
        "margin_percent": 100 * (best - 1),
        "confidence": _confidence(case, targets),
        "slower_on": ", ".join(slower),
        "reason": "; ".join(_said(v) for v in case.verdicts.values()),
    }


def _edge(case: Case, targets: list[Microarch]) -> float:
    """Return the margin below which a variant does not win: models need a larger one."""
    measured = any(case.verdicts[c.id].measured for c in targets if c.id in case.verdicts)
    return THRESHOLD if measured else MODEL_THRESHOLD


def _confidence(case: Case, targets: list[Microarch]) -> str:
    """Say how sure the verdicts on a variant are, over the target cores."""
    of = {c.id: case.verdicts.get(c.id) for c in targets}
    silent = [c for c in targets if of[c.id] is None]
    doubtful = [c for c in targets if (v := of[c.id]) is not None and not v.agree]
    measured = [c for c in targets if (v := of[c.id]) is not None and v.measured]
    alone = [c for c in targets if (v := of[c.id]) and len(v.sources) == 1 and not v.measured]
    if doubtful:
        return f"models disagree: measure on {_names(doubtful)}"
    if silent:
        return f"no model answers on {_names(silent)}: measure there"
    if len(measured) == len(targets):
        return "measured"
    lone = f" (one model alone on {_names(alone)})" if alone else ""
    return (
        f"measured on {_names(measured)}, models agree{lone}"
        if measured
        else (f"models agree{lone}")
    )


def _conditional(known: list[Case], targets: list[Microarch]) -> str:
    """Name the variants that beat the baseline, but not on every target core as it is."""
    out = []
    for case in known:
        score = case.score(targets)
        if case.lacking and score > 1 + _edge(case, targets):
            where = ", ".join(sorted(set(case.lacking.values())))
            out.append(f"{case.variant.name} {_percent(score)} where {where}")
    return "; ".join(out)


def _elsewhere(known: list[Case], found: Study) -> str:
    """Say what was measured, on no target or without changing the answer."""
    seen = [(v, case) for case in known for v in case.verdicts.values() if v.measured]
    if not seen:
        return found.unmeasured or "nothing was measured"
    verdict, case = max(seen, key=lambda pair: pair[0].ratio)
    upstream = found.kernel.routines[case.variant.routine].upstream
    spared = [f for f in upstream.unused_with if f in hosts.features()] if upstream else []
    aside = f", though Linux does not call it where there is {spared[0]}" if spared else ""
    where = "this host" if verdict.core == found.host else verdict.core
    return f"on {where} the best is {case.variant.name}: {_said(verdict)}{aside}"


def _basis(found: Study, sizes: Histogram | None) -> str:
    which = f"{sizes.name} from 64 B on" if sizes else "64 B to 4 KiB weighted alike"
    models = f"models: start-up and main loop, L1 hits, sizes {which}"
    if found.measurements.empty:
        return f"{models}; not measured: {found.unmeasured}"
    weights = f"sizes weighted by {sizes.name}" if sizes else "the same sizes"
    where = [] if found.unmeasured else [found.host or "this host"]
    where += [str(source) for source in found.sources]
    return f"{models}; measured on {' and '.join(where)}: calls, {weights}"


def _said(verdict: Verdict) -> str:
    if verdict.alike:
        return f"{verdict.core}: no difference ({', '.join(verdict.sources)})"
    spread = verdict.high - verdict.low > THRESHOLD
    figure = (
        f"{_percent(verdict.low)} to {_percent(verdict.high)}"
        if spread
        else _percent(verdict.ratio)
    )
    return f"{verdict.core}: {figure} ({', '.join(verdict.sources)})"


def _names(cores: list[Microarch]) -> str:
    return " and ".join(c.id for c in cores)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
