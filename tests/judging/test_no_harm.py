"""No harm: what a store holds never turns an answer, and no output contradicts another."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_up import calls, held_to, predictions, simulated
from quick import some

from loopwright.judging import call_costs, model_accuracy, published, verdicts
from loopwright.judging.published import PublishedFigure
from loopwright.judging.recommend import conclude
from loopwright.judging.study import comparison
from loopwright.judging.verdicts import Status
from loopwright.linux import patch
from loopwright.linux.message import Evidence
from loopwright.measuring import readings
from loopwright.reporting.findings import Finding
from loopwright.reporting.text import plain_report

NAMES = ["movsq_aligned", "movsq", "overlapped", "unrolled64", "loop32", "negative_index"]
CORES = ["zen2", "zen3", "zen4", "sandybridge", "haswell"]
SEEDS = some(range(6), {0, 1, 2})  # one of three is of other cores
SIZES = [size for size in call_costs.SIZES if size]


@pytest.fixture(scope="module", autouse=True)
def _records():
    known = pd.concat(
        [held_to({("pipeline", c): (4.0, 500) for c in CORES}, w) for w in ("loops", "strings")]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_accuracy, "records", lambda: known)
        patch.setattr(published, "figures", lambda *_: [])
        patch.setattr(readings, "RESAMPLES", 40)
        yield


def costs(random):
    """Return made-up costs of calls: a start and a rate for each variant."""
    shapes = {name: (random.uniform(5, 60), random.uniform(0.05, 0.5)) for name in NAMES}
    return {
        name: lambda size, _dst, _of, start=start, rate=rate: start + rate * size
        for name, (start, rate) in shapes.items()
    }


def stored_run(random, core):
    """Return the rows of a run: of some variants, at some sizes, as fast as they like."""
    some = [name for name in NAMES if random.random() < 0.8]
    sizes = [s for s in SIZES if random.random() < random.choice([1.0, 0.7])]
    shape = {
        n: {s: random.uniform(5, 50) + s * random.uniform(0.05, 0.5) for s in sizes} for n in some
    }
    return calls(shape, core) if some and sizes else pd.DataFrame()


def with_store(found, runs):
    rows = pd.concat([r for r in runs if len(r)] or [pd.DataFrame()], ignore_index=True)
    return replace(found, measurements=rows, unmeasured="measuring was left out")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_changes_no_verdict_but_of_the_cores_that_it_measured_whole(seed):
    random = np.random.default_rng(seed)
    empty = simulated(costs(random), predictions({}), cores=("zen2", "sandybridge"))
    empty = with_store(empty, [])
    before = conclude(empty).answers["copy_user"]
    cores = random.choice(CORES, random.integers(1, 4), replace=False)
    after = conclude(with_store(empty, [stored_run(random, c) for c in cores])).answers["copy_user"]
    old, new = ({c.variant.name: c for c in a.cases} for a in (before, after))
    measured = set()
    for name, case in new.items():
        for core, verdict in case.verdicts.items():
            if verdict.measured:
                measured.add(core)
            else:
                assert verdict.speed == old[name].verdicts[core].speed
        assert not case.gaps
    asked = {"zen2", "sandybridge"}
    if not measured & asked:
        names = [a.winner and a.winner.variant.name for a in (before, after)]
        assert names[1] in (None, names[0])
        # A measured core that nobody asked for vetoes a winner, and changes nothing else.
        if not measured:
            assert (after.kind, after.summary) == (before.kind, before.summary)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_winner_is_slower_on_no_core_at_no_size(seed):
    random = np.random.default_rng(seed)
    found = simulated(costs(random), predictions({}), cores=("zen2", "sandybridge"))
    found = with_store(found, [stored_run(random, c) for c in ("zen4", "haswell")])
    answer = conclude(found).answers["copy_user"]
    if answer.winner:
        for verdict in answer.winner.verdicts.values():
            assert verdict.status is not Status.SLOWER
            assert all(verdict.at(size) is not Status.SLOWER for size in verdict.sizes)
    else:
        # None was there: each variant is slower somewhere, or faster on no core asked for.
        for case in answer.cases:
            harm = any(case.harm(answer.target_ids, answer.judged, answer.sizes))
            assert harm or not case.with_status(answer.target_ids, Status.FASTER) or case.lacking


@pytest.mark.parametrize("seed", SEEDS)
def test_bands_rows_and_sentences_are_of_the_same_verdicts(seed):
    random = np.random.default_rng(seed)
    found = simulated(costs(random), predictions({}), cores=("zen2", "sandybridge"))
    found = with_store(found, [stored_run(random, "zen4")])
    judgement = conclude(found)
    answer, row = judgement.answers["copy_user"], judgement.rows.iloc[0]
    cases = {case.variant.name: case for case in answer.cases}
    for band in answer.bands:
        if band.status == verdicts.WINS and band.core != verdicts.EVERY:
            verdict = cases[band.variant].verdicts[band.core]
            inside = [s for s in verdict.sizes if band.low < s < band.high]
            assert all(verdict.at(s) is Status.FASTER for s in inside)
        assert f"{band.core}: nothing" not in row["evidence"]
    assert bool(row["winner"]) == (row["answer"] == "winner")
    if row["answer"] == "baseline":
        assert not verdicts.won(answer.bands)
    if row["winner"]:
        assert row["slower_on"] == ""
    assert (
        row["stored"] == "no stored run is used"
        or "lacks points" in row["stored"]
        or ("zen4" in answer.judged)
    )


_FIGURE = re.compile(
    r"([\w-]+)(?:, this machine)?: (?:open, )?([-+][\d.]+ %(?: to [-+][\d.]+ %)?) "
    r"\((measured|simulated|llvm-mca|osaca)"
)


def figures_of(text):
    """Return what a text says of cores: (core, percent, measured or not)."""
    return {(core, speed, rank == "measured") for core, speed, rank in _FIGURE.findall(text)}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_statements_of_a_report_exclude_each_other(seed):
    random = np.random.default_rng(seed)
    asked = ("zen2", "sandybridge") if seed % 3 else ("zen2", "neoverse-n1")
    modelled = predictions({n: random.uniform(1, 8) for n in NAMES if random.random() < 0.8})
    found = simulated(costs(random), modelled, cores=asked)
    found = with_store(found, [stored_run(random, c) for c in ("zen4", "zen2") if seed % 2])
    judgement = conclude(found)
    answer, [row] = judgement.answers["copy_user"], judgement.rows.to_dict("records")
    nothing = pd.DataFrame(columns=["slow_offsets", "microarch", "variant"])
    finding = Finding(found, comparison(found), judgement.rows, pd.DataFrame(), nothing, (),
                      Evidence(), bands=judgement.bands)  # fmt: skip
    text = " ".join(plain_report([finding], {"cpu": "a CPU"}, None).split())
    verdict = text[text.index("copy_user against movsq_aligned:") : text.index("Contract:")]

    evidence = dict(part.split(": ", 1) for part in str(row["evidence"]).split("; "))
    for core, _, measured in figures_of(verdict):
        ranks = evidence[core] if core in evidence else evidence[f"{core}, this machine"]
        assert not ranks.startswith("nothing"), verdict
        assert ("measured" if measured else "simulated") in ranks or "models of" in ranks, verdict

    patches = patch.conclusions_of(found, judgement)
    for name, judged in patches.items():
        won = name == row["winner"]
        assert won == (judged.doubt == ""), name
        assert won == (judged.proof != ""), name
        if won:
            assert figures_of(judged.proof) == figures_of(str(row["reason"]).split("; on ")[0])
            assert "Slower on:" not in verdict
    if not row["winner"]:
        assert "slower on no judged core" not in text
    for where in re.findall(
        r"(?:no model answers|nothing is known of [^;]*) on ([^;.:(]*)", verdict
    ):
        for case in answer.cases:
            assert not set(re.split(r", | and ", where)) & set(case.verdicts), verdict


def figure(percent, **more):
    known = {
        "kernel": "x86_64/copy_user", "variant": "loop32", "baseline": "movsq_aligned",
        "scope": "system call", "size_bytes": None, "chunk_bytes": None, "dst_align": None,
        "quantity": "calls", "unit": "calls/s", "before": None, "after": None, "percent": percent,
        "share_before": None, "share_after": None, "total_bytes": None, "condition": "",
        "machine": "made up", "microarch": "zen2", "predicted_on": "zen2", "fitted": "",
        "retracted": "", "source": "", "place": "", "low_percent": None, "high_percent": None,
        "assumption": "",
    }  # fmt: skip
    return PublishedFigure(**(known | more))


FASTER = {"movsq_aligned": lambda s, _d, _o: 40 + s / 2, "loop32": lambda s, _d, _o: 20 + s / 4}


def answer_beside(monkeypatch, *figures, costs=FASTER):
    monkeypatch.setattr(published, "figures", lambda *_: list(figures))
    [row] = conclude(simulated(costs, cores=("zen2",))).rows.to_dict("records")
    return row


def test_a_published_figure_with_the_other_sign_contests_a_model(monkeypatch):
    assert answer_beside(monkeypatch)["winner"] == "loop32"
    assert answer_beside(monkeypatch, figure(14.3))["winner"] == "loop32"
    found = answer_beside(monkeypatch, figure(-14.3))
    assert (found["answer"], found["winner"]) == ("contested", "")
    assert "-14.3 % of loop32 against movsq_aligned (system call, made up)" in found["summary"]
    turned = figure(14.3, variant="movsq_aligned", baseline="loop32")
    assert answer_beside(monkeypatch, turned)["answer"] == "contested"
    assert answer_beside(monkeypatch, figure(-14.3, retracted="wrong"))["winner"] == "loop32"
    assert answer_beside(monkeypatch, figure(0.0))["answer"] == "contested"


def test_a_model_ranks_no_variant_above_one_that_was_published_as_faster(monkeypatch):
    both = FASTER | {"unrolled64": lambda s, _d, _o: 10 + s / 8}
    assert answer_beside(monkeypatch, costs=both)["winner"] == "unrolled64"
    slower = figure(-3.0, variant="unrolled64", baseline="loop32")
    found = answer_beside(monkeypatch, slower, costs=both)
    assert found["winner"] == "loop32"
    alone = figure(-3.0, variant="unrolled64", baseline="movsq")
    assert answer_beside(monkeypatch, alone, costs=both)["winner"] == "unrolled64"


def test_a_measurement_is_contested_by_nobody(monkeypatch):
    monkeypatch.setattr(published, "figures", lambda *_: [figure(-14.3)])
    measured = calls(dict.fromkeys(NAMES, 20) | {"loop32": 10}, "zen2")
    found = simulated(FASTER, predictions({}), measured, host="zen2", cores=("zen2",))
    assert conclude(found).rows.iloc[0]["winner"] == "loop32"
