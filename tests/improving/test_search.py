"""The search over transformations, and what becomes of its candidates."""

from itertools import combinations
from types import SimpleNamespace

import pandas as pd
import pytest

import loopwright as lw
from loopwright import kernels
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.improving import improve
from loopwright.improving.improve import CallComparison, main_loop, read, usable
from loopwright.improving.search import ALIKE, Cost, Search, Settings, search, selected_cores
from loopwright.improving.transformations import Align
from loopwright.improving.unrolling import Unroll
from loopwright.reporting import kernel_section

PLAIN = "x86_64/clear_user/plain"
FEW = (Unroll(2), Unroll(8), Align(5))


@pytest.fixture
def question(tmp_path):
    _, [variant] = kernels.select(PLAIN)
    return CallComparison(variant, selected_cores("zen2,zen4", "x86_64"), None, {}, tmp_path)


@pytest.fixture
def base(question):
    [found] = question.candidates([read(question.variant)])
    return usable(question, found)


def test_a_search_finds_the_same_for_a_seed_and_says_how(question, base):
    settings = Settings(tried=12, depth=2)
    one, two = (search(question, base, FEW, settings) for _ in range(2))
    best = one.ordered()[0]
    assert best.listing.steps == two.ordered()[0].listing.steps
    assert one.path(best)[0] is base
    assert min(one.gains(best).values()) > 1.2
    for this, that in combinations(one.ordered(), 2):
        gains = one.robust(this), one.robust(that)
        assert any(abs(gains[0][core] / gains[1][core] - 1) >= ALIKE / 2 for core in gains[0])


class _Simple:
    """A candidate with given costs by core, of a length."""

    def __init__(self, name, bytes, *cycles):
        self.digest, self.bytes = name, bytes
        self.costs = {core: Cost(c, c, {}) for core, c in zip("ab", cycles, strict=True)}


def test_what_is_best_on_a_core_is_not_spoken_for_by_shorter_code():
    all_of = [
        _Simple("base", 10, 100, 100),
        _Simple("best", 60, 50, 40),
        _Simple("near", 30, 51, 40.8),
        _Simple("same", 50, 50.2, 40.2),
        _Simple("worse", 25, 53, 41),
        _Simple("other", 55, 45, 48),
    ]
    found = Search(all_of[0], {one.digest: one for one in all_of})
    # As fast as the best one and shorter; and what is faster on one core.
    assert [one.digest for one in found.pareto()] == ["other", "same"]


def test_the_next_best_takes_the_place_of_what_the_checker_refuses(question, base, monkeypatch):
    found = search(question, base, FEW, Settings(tried=12, depth=2))
    best = found.pareto()[0]
    monkeypatch.setattr(improve.check, "run", lambda variants: pd.DataFrame({"of": [*variants]}))

    def holds(rows, variants):
        assert len(rows) == len(variants) == 1
        rows["failure"], rows["coverage"] = "", "not proven: +0x8 branch never taken"
        return variants != [best.variant]

    monkeypatch.setattr(improve.check, "holds", holds)
    proven, [refused] = improve._proven(found, None)
    assert best not in proven
    assert "; ".join(best.listing.steps) in refused
    assert "branch never taken" in refused
    assert proven == found.pareto([best.digest])[: improve.SHOWN]
    monkeypatch.setattr(improve, "_MOST_REFUSED", 0)
    assert improve._proven(found, None) == ([], [])


def test_an_interrupt_leaves_the_best_so_far(question, base):
    def stop(*_):
        raise KeyboardInterrupt

    found = search(question, base, FEW, Settings(), stop)
    assert found.interrupted
    assert found.ordered()[0] is not base


def test_the_bound_is_reached_by_eight_words_an_iteration(question, base):
    [made] = question.candidates([next(Unroll(8).apply(base.listing))])
    for core in question.cores:
        loop = main_loop(made.variant, core, {})
        assert loop.cycles == pytest.approx(loop.of_accesses, rel=0.03)
        assert main_loop(base.variant, core, {}).of_accesses == loop.of_accesses / 8
    plain = main_loop(base.variant, question.cores[1], {})
    assert plain.cycles > 1.5 * plain.of_accesses  # one store an iteration, two ports for them
    assert plain.of_instructions == plain.cycles  # but its counter waits for itself


def test_a_candidate_becomes_a_variant_that_verbs_take(question, base, tmp_path, monkeypatch):
    [made] = question.candidates([next(Unroll(2).apply(base.listing))])
    out = tmp_path / "better"
    paths, origins = {"twice": [base, made]}, {"twice": 'as "said"'}
    files = improve.write_variants(out, question.variant, paths, origins)
    assert [path.name for path in files] == ["twice.S", "kernel.toml"]
    assert "unroll by 2" in files[0].read_text()
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(out))
    kernel, [variant] = kernels.select("x86_64/clear_user/twice")
    assert assemble.variant_code(variant).text == made.code.text
    assert {"plain", "unrolled64"} <= kernel.variants.keys()
    assert 'as "said"' in variant.why
    first, last = variant.steps
    assert (first.name, last.name) == ("plain", "unroll by 2")
    assert last.bytes == made.bytes
    assert last.cycles["zen4"] == pytest.approx(made.costs["zen4"].mean, abs=0.01)
    assert first.cycles["zen4"] > last.cycles["zen4"]
    grid = kernel_section.steps(SimpleNamespace(kernel=kernel), "page")
    assert len(grid.rows) == len(variant.steps) * len(question.cores)
    broken = files[1].read_text().replace("bytes = ", "size = ")
    files[1].write_text(broken)
    with pytest.raises(InputError, match="'steps' are tables of name"):
        kernels.select("x86_64/clear_user/twice")


def test_a_page_without_found_variants_has_no_steps():
    kernel, _ = kernels.select(PLAIN)
    assert not kernel_section.steps(SimpleNamespace(kernel=kernel), "page").rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "cores", "parameters", "least"),
    [
        (PLAIN, "zen2,zen4", {}, 1.2),
        ("x86_64/csum/adc1", "zen2,zen4", {}, 2.0),
        ("x86_64/put_event/put_user_twice", "zen4", {"serial.stac_clac": "20"}, 1.8),
    ],
)
def test_improve_proves_faster_code_on_every_core(spec, cores, parameters, least):
    rows = lw.improve(
        spec, microarch=cores, parameters=parameters, measured=False, tried=120, seed=1
    )
    first = rows[rows["candidate"] == rows["candidate"].iloc[0]]
    assert first["status"].iloc[-1] == "proven"
    for _, stages in first.groupby("microarch"):
        assert stages["cycles"].iloc[0] / stages["cycles"].iloc[-1] > least
