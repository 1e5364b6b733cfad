"""Wording of verdicts, bands and evidence for recommend, report and patch."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from loopwright.histogram import Histogram
from loopwright.judging import unmeasured
from loopwright.judging.call_costs import LARGE, Gap, judged_points, percent
from loopwright.judging.margins import Speed
from loopwright.judging.model_accuracy import LEAST_ROWS, RANK_NAMES, Rank
from loopwright.judging.published import PublishedFigure
from loopwright.judging.study import HERE, MEASURED, Study
from loopwright.judging.verdicts import (
    CONTESTED,
    KEEPS,
    THRESHOLD,
    WINS,
    Band,
    Case,
    Status,
    Verdict,
    judged,
)
from loopwright.kernels.contracts import Contract
from loopwright.machine import hosts

NOT_ENOUGH = "not enough measured"
BAND_COLUMNS = [
    "kernel", "routine", "microarch", "condition", "from_bytes", "to_bytes", "variant", "status",
    "speed_low", "speed_high", "evidence",
]  # fmt: skip


def names(items: Iterable[str]) -> str:
    """Return names as text: "a, b and c"."""
    texts = list(items)
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def speed(shown: Speed) -> str:
    """Return a speed relative to the baseline in percent, as a range where it is one."""
    ends = [shown.low, shown.high] if shown.high - shown.low > THRESHOLD else [shown.ratio]
    return " to ".join(dict.fromkeys(percent(end) for end in ends))


def core(name: str, study: Study) -> str:
    """Return a core's id, marked where it is this machine's."""
    if name == HERE:
        return HERE
    return f"{name}, this machine" if name == study.host else name


def verdict(shown: Verdict, study: Study) -> str:
    """Return a verdict in words: "zen2: +4.0 % to +9.0 % (simulated calls)"."""
    figure = speed(shown.speed)
    if shown.measured and shown.status is Status.ALIKE:
        figure = "no difference"
    elif shown.uncontested is Status.OPEN:
        figure = f"open, {figure}"
    doubt = "" if shown.measured else f", off by up to {100 * shown.doubt:.0f} %"
    if shown.opinion and shown.opinion.unproven:
        doubt = f", {shown.opinion.unproven}"
    against = f"; contested by {contradiction(shown)}" if shown.contradictions else ""
    return f"{core(shown.core, study)}: {figure} ({', '.join(shown.sources)}{doubt}){against}"


def contradiction(contested: Verdict) -> str:
    """Return the published figures that contradict a verdict."""
    return names(figure(f) for f in contested.contradictions)


def figure(claim: PublishedFigure) -> str:
    """Return a published figure: "-3.0 % of variant against baseline (workload, EPYC 7B12)"."""
    size = f" at {claim.size_bytes} B" if claim.size_bytes else ""
    return (
        f"{claim.percent:+.1f} % of {claim.variant} against {claim.baseline}{size} "
        f"({claim.scope}, {claim.machine})"
    )


def verdicts(case: Case, study: Study) -> str:
    """Return the evidence on a variant, core by core."""
    texts = [verdict(v, study) for v in case.verdicts.values()]
    incomplete = [f"{core(name, study)}: {NOT_ENOUGH}" for name in case.gaps if not case.partial]
    return "; ".join([*texts, *incomplete])


def confidence(case: Case, cores: Sequence[str], study: Study) -> str:
    """Return the kind of evidence of a variant's verdicts, or the reason why one is open."""
    if contested := case.with_status(cores, Status.CONTESTED):
        parameters = [_parameters(case.verdicts[c]) for c in contested]
        named = names(dict.fromkeys(filter(None, parameters)))
        return f"contested on {names(contested)}: measure {f'{named} ' if named else ''}there"
    doubtful = case.with_status(cores, Status.OPEN)
    deciding = [text for c in doubtful if (text := _parameters(case.verdicts[c]))]
    if doubtful and len(deciding) == len(doubtful):
        return f"open on {names(doubtful)}: measure {names(dict.fromkeys(deciding))} there"
    disagree = [c for c in doubtful if (o := case.verdicts[c].opinion) and o.contested]
    if disagree:
        return f"models disagree: measure on {names(disagree)}"
    if unknown := case.without_verdict(cores):
        return f"no model answers on {names(unknown)}: measure there"
    of_rank: dict[Rank, list[str]] = defaultdict(list)
    for name in cores:
        of_rank[case.verdicts[name].rank].append(core(name, study))
    parts = []
    for rank, where in sorted(of_rank.items()):
        bounded = rank is Rank.BOUNDED
        note = f" (fewer than {LEAST_ROWS} loops validated there)" if bounded else ""
        parts.append(f"{RANK_NAMES[rank]} on {names(where)}{note}")
    opinions = {c: o for c in cores if (o := case.verdicts[c].opinion)}
    notes = {
        "one model alone": [c for c, o in opinions.items() if len(o.ratios) == 1],
        "none validated": [c for c, o in opinions.items() if not o.validated],
    }
    parts += [f"{note} on {names(where)}" for note, where in notes.items() if where]
    return ", ".join(parts)


def _parameters(of: Verdict) -> str:
    """Return the unmeasured parameters that decide an open verdict, or ""."""
    return names(of.simulated.unknown) if of.simulated and of.may_lose() else ""


def missing_points(cases: Sequence[Case], cores: Sequence[str], study: Study) -> str:
    """Return the missing points on cores where measuring was attempted, in words."""
    parts = []
    for name in cores:
        gaps = [g for c in cases if name in c.unmeasured(cores) for g in c.gaps[name]]
        if gaps:
            parts.append(f"{NOT_ENOUGH} on {core(name, study)} for a verdict: {_merged(gaps)}")
    return "; ".join(parts)


def _merged(gaps: Sequence[Gap]) -> str:
    """Return gaps in words, each once, with variants that lack the same points together."""
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for gap in gaps:
        variants = alike[gap.missing, gap.asked, gap.why]
        if gap.variant not in variants:
            variants.append(gap.variant)
    return "; ".join(
        str(Gap(", ".join(variants), *key))  # type: ignore[arg-type]
        for key, variants in alike.items()
    )


def fastest_measured(cases: Sequence[Case], study: Study) -> str:
    """Return the fastest variant on each measured core; basis has the reason for none."""
    cores = judged([], cases) + [c for case in cases for c in case.partial_verdicts]
    texts = [_fastest_on(name, cases, study) for name in dict.fromkeys(cores)]
    if any(texts):
        return "; ".join(filter(None, texts))
    return "" if study.unmeasured else "nothing was measured"


def _fastest_on(name: str, cases: Sequence[Case], study: Study) -> str:
    gaps = [g for case in cases for g in case.gaps.get(name, ())]
    if gaps:
        return f"{NOT_ENOUGH} on {core(name, study)} to name the fastest: {_merged(gaps)}"
    complete = [(v, c) for c in cases if (v := c.verdicts.get(name)) and v.measured]
    partial = [(v, c) for c in cases if (v := c.partial_verdicts.get(name))]
    if not complete and not partial:
        return ""
    fastest, case = max(complete or partial, key=lambda pair: pair[0].speed.ratio)
    what = f"{case.variant.name}: {verdict(fastest, study)}"
    if not complete:
        return (
            f"on {core(name, study)} the fastest measured is {what}, but {case.partial}, so that "
            "it is not a verdict on the routine"
        )
    upstream = study.kernel.routines[case.variant.routine].upstream
    spared = [f for f in upstream.unused_with if f in hosts.features()] if upstream else []
    condition = f", though Linux does not call it where there is {spared[0]}" if spared else ""
    alternative = "" if fastest.speed.ratio > 1 else " alternative"
    return f"on {core(name, study)} the fastest measured{alternative} is {what}{condition}"


def stored(study: Study, cases: Sequence[Case]) -> str:
    """Return the stored runs that count, the rule for them, and those that lack points."""
    if not study.stored_read:
        return "no stored run is used"
    measured = {core for c in cases for core, v in c.verdicts.items() if v.measured}
    used = [str(source) for source in study.sources if source.core in measured]
    incomplete = sorted({name for case in cases for name in case.stored_gaps})
    rule = "of each core the run with most of the points, then by a PMU, then the newest"
    parts = [f"{', '.join(used)} ({rule})" if used else "no stored run is used"]
    if incomplete:
        parts.append(f"a stored run of {names(incomplete)} lacks points and counts for nothing")
    return "; ".join(parts)


def basis(study: Study, contract: Contract, sizes: Histogram | None) -> str:
    """Return the calls that a judgement is about, and the machines that measured, in words."""
    which = _weighed(sizes) if sizes else _unweighed(contract)
    total = sum(study.alignments.values())
    where = ", ".join(
        f"{d}:{s} {100 * weight / total:.0f} %" for (d, s), weight in study.alignments.items()
    )
    models = f"simulated: whole calls, L1 hits, sizes {which}"
    if study.calls is None:
        which = f"{sizes.name} from 64 B on" if sizes else which
        models = f"models: start-up and main loop, L1 hits, sizes {which}"
    models += f"; alignments of destination and source in a page {where}"
    if study.measurements.empty or not study.measurements["cycles"].notna().any():
        return f"{models}; not measured: {study.unmeasured or 'nothing came of it'}"
    machines = [] if study.unmeasured else [core(study.host, study) if study.host else HERE]
    machines += [str(source) for source in study.sources]
    return f"{models}; {MEASURED} on {names(machines)}: calls of the same sizes and alignments"


def _unweighed(contract: Contract) -> str:
    """Return the sizes that count without a histogram, in words."""
    if not contract.fields:
        return "64 B to 4 KiB weighted alike"
    sizes = [point.size for point in judged_points(contract, None)]
    if min(sizes) == max(sizes):
        return f"{sizes[0]} B alone"
    return f"{min(sizes)} to {max(sizes)} B weighted alike"


def _weighed(sizes: Histogram) -> str:
    """Return the name of a histogram, and the assumptions on its open buckets."""
    notes = [sizes.open_bucket_note] if sizes.open_bucket_note else []
    if beyond := sizes.share_from(LARGE + 1):
        notes.append(f"{100 * beyond:.0f} % lie beyond {LARGE} B, where costs go on in a line")
    return f"{sizes.name} ({'; '.join(notes)})" if notes else sizes.name


def models(case: Case, cores: Sequence[str]) -> str:
    """Return the models of the main loop that count on the cores, with their accuracy."""
    opinions = [case.verdicts[c].opinion for c in cores if c in case.verdicts]
    return "; ".join(opinion.described for opinion in opinions if opinion)


def slower(harm: Iterable[tuple[Verdict, int | None]], study: Study) -> list[str]:
    """Return the slowdowns of a variant: for each core the worst, over all sizes or by size."""
    worst: dict[str, tuple[Verdict, int | None]] = {}
    sizes: dict[str, list[int]] = defaultdict(list)
    for loss, size in harm:
        worst.setdefault(loss.core, (loss, size))
        if size is not None:
            sizes[loss.core].append(size)
    out = []
    for name, (loss, size) in worst.items():
        how = RANK_NAMES[loss.rank]
        if size is None:
            out.append(f"{core(name, study)} ({speed(loss.speed)}, {how})")
            continue
        least = min((loss.sizes[s] for s in sizes[name]), key=lambda s: s.low)
        ends = (min(sizes[name]), max(sizes[name]))
        span = f"at {ends[0]} B" if ends[0] == ends[1] else f"within {ends[0]} to {ends[1]} B"
        out.append(f"{core(name, study)} {span} ({percent(least.low)}, {how})")
    return out


def evidence(study: Study, cases: Sequence[Case], missing: Sequence[tuple[str, str]]) -> str:
    """Return the evidence on each judged core; missing has the reason for its absence by core."""
    out = []
    reasons = dict(missing)
    for name in judged(study.judged_ids, cases):
        general = [c for c in cases if name not in c.lacking]
        of_variants = [(c.variant.name, v) for c in general if (v := c.verdicts.get(name))]
        if any(c.unmeasured([name]) for c in general):
            out.append(f"{core(name, study)}: {NOT_ENOUGH}")
            continue
        parts = []
        ranks = sorted({v.rank for _, v in of_variants})
        for rank in ranks:
            of_rank = {variant: v for variant, v in of_variants if v.rank is rank}
            validations = dict.fromkeys(
                v.simulated.accuracy.described for v in of_rank.values() if v.simulated
            )
            text = RANK_NAMES[rank] if rank is Rank.MODELS else f"whole calls {RANK_NAMES[rank]}"
            variants = f" of {names(of_rank)}" if len(ranks) > 1 else ""
            validation = f" ({'; '.join(validations)})" if validations else ""
            parts.append(f"{text}{variants}{_by_hand(study) if validations else ''}{validation}")
        lacking = f"nothing{f' ({reasons[name]})' if reasons.get(name) else ''}"
        out.append(f"{core(name, study)}: {', '.join(parts) or lacking}")
    return "; ".join(out)


def _by_hand(study: Study) -> str:
    """Return the parameters that the user set for this judgement, or ""."""
    given = study.calls.given if study.calls else {}
    values = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f" with {values}, as set by hand" if values else ""


def bands(size_bands: Sequence[Band]) -> str:
    """Return bands in words, core by core."""
    of_core: dict[tuple[str, str], list[Band]] = {}
    for size_band in size_bands:
        of_core.setdefault((size_band.core, size_band.condition), []).append(size_band)
    out = []
    for (name, condition), of_place in of_core.items():
        where = f"{name} where {condition}" if condition else name
        out.append(f"{where}: {', '.join(band(b, alone=len(of_place) == 1) for b in of_place)}")
    return "; ".join(out)


def sizes_and_speed(size_band: Band) -> str:
    """Return the sizes of a band and its speed: "64 to 512 B +20.0 %"."""
    return f"{_sizes(size_band)} {_ends(size_band)}"


def _sizes(size_band: Band) -> str:
    ends = dict.fromkeys((size_band.low, size_band.high))
    return f"{' to '.join(map(str, ends))} B"


def _ends(size_band: Band) -> str:
    ends = map(percent, (size_band.speed.low, size_band.speed.high))
    return " to ".join(dict.fromkeys(ends))


def band(size_band: Band, *, alone: bool = False) -> str:
    """Return a band in words: "64 to 512 B loop32 +20.0 %"."""
    sizes = "all sizes" if alone and size_band.low != size_band.high else _sizes(size_band)
    if size_band.status == KEEPS:
        return f"{sizes} {size_band.variant} (the baseline)"
    ends = _ends(size_band)
    if size_band.status == WINS:
        return f"{sizes} {size_band.variant} {ends}"
    word = CONTESTED if size_band.status == CONTESTED else "open"
    return f"{sizes} {word} ({size_band.variant} {ends})"


def band_rows(kernel: str, routine: str, size_bands: Sequence[Band]) -> pd.DataFrame:
    """Return bands as a table; speeds are relative to the baseline."""
    rows = [
        [kernel, routine, b.core, b.condition, b.low, b.high, b.variant, b.status,
         b.speed.low, b.speed.high, RANK_NAMES[b.rank] if b.rank else ""]
        for b in size_bands
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=BAND_COLUMNS)


def published(study: Study, cases: Sequence[Case]) -> str:
    """Return the published figures of the routine's pairs on the judged cores."""
    variants = {c.variant.name for c in cases}
    texts = [
        unmeasured.published_speedups(study, name, pair.variant, pair.baseline)
        for name in judged(study.judged_ids, cases)
        for pair in unmeasured.pair_figures(study, name)
        if {pair.variant, pair.baseline} & variants
    ]
    return "; ".join(dict.fromkeys(texts))
