"""The five threads of the kernel's lists: each ends in a winner by bands, or in a break-even."""

import re
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from checkout import ROOT
from made_up import predictions
from quick import some

from loopwright import kernels, microarchs
from loopwright.judging import call_costs, study
from loopwright.judging.call_costs import CallSimulator
from loopwright.judging.recommend import conclude
from loopwright.judging.study import Study
from loopwright.predicting.calls import of_variants

THREADS = {
    "x86-copy-user-align-writes": ("x86_64/copy_user", "copy_user", "movsq", "zen2"),
    "x86-rep-movsq-user-access": ("x86_64/copy_user", "copy_user", "unrolled64", "zen2"),
    "x86-clear-user-loop-alignment": ("x86_64/clear_user", "clear_user", "immediates", "zen2"),
    "epoll-put-uevent-stac-clac": ("x86_64/put_event", "put_event", "put_user_twice", "zen2"),
    "arm64-copy-user-nopan": ("arm64/copy_user", "copy_to_user", "to_user_pairs", "tsv110"),
}
# What a thread argues about, beside what the tree had then.
ARGUED = {
    "x86-copy-user-align-writes": {"movsq_aligned"},
    "x86-rep-movsq-user-access": {"movsq", "overlapped"},
    "x86-clear-user-loop-alignment": {"aligned16"},
    "epoll-put-uevent-stac-clac": {"write_begin"},
    "arm64-copy-user-nopan": {"to_user_nopan"},
}
EVERY = pytest.mark.parametrize("every", some([False, True], {False}))


@cache
def asked(thread, *settings, every=False):
    """Judge a thread's routine by the simulator alone, against what the tree had then.

    every: all variants of the routine at all alignments, and not what the thread argues about at
    one of them.
    """
    kernel_id, routine, against, core = THREADS[thread]
    kernel = study.compared(kernels.load(kernel_id), against)
    if not every:
        names = {against, *ARGUED[thread]}
        variants = {n: v for n, v in kernel.variants.items() if n in names}
        assert variants.keys() == names
        kernel = replace(kernel, variants=variants)
    alignments = call_costs.ALIGNMENTS if every else {(0, 0): 1.0}
    sound = pd.DataFrame([{"variant": name, "passed": True} for name in kernel.variants])
    found = Study(
        kernel,
        predictions({}).iloc[:0],
        sound,
        pd.DataFrame(),
        "",
        "measuring was left out",
        calls=CallSimulator(of_variants, dict(settings)),
        cores=(microarchs.load(core),),
        alignments=alignments,
    )
    judged = conclude(found)
    [row] = [r for r in judged.rows.to_dict("records") if r["routine"] == routine]
    return row, judged.bands[judged.bands["microarch"] == core]


@EVERY
@pytest.mark.parametrize("thread", THREADS)
def test_every_thread_ends_in_a_winner_by_bands_or_in_a_break_even_with_numbers(thread, every):
    row, bands = asked(thread, every=every)
    assert "no model answers" not in row["confidence"]
    assert len(bands), row["evidence"]
    wins = bands[bands["status"] == "wins"]
    assert row["winner"] or len(wins) or re.search(r"\d", row["break_even"]), row


@EVERY
def test_the_loop_that_was_aligned_beats_the_one_across_a_line_if_one_entry_is_read_a_cycle(every):
    """Zen 2 was not measured to read one entry of the op cache a cycle: the answer says so."""
    row, bands = asked("x86-clear-user-loop-alignment", every=every)
    assert row["winner"] == ""
    assert "aligned16" not in set(bands.loc[bands["status"] == "wins", "variant"])
    assert "nothing unknown" not in row["break_even"]
    assert "uop_cache.reads=1" in row["break_even"]
    assert "uop_cache.reads" in row["measure_first"]
    assert "+16.5 to +65.5 % (system call, EPYC Naples, zen1)" in row["published"]


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
def test_the_loop_that_was_aligned_wins_where_one_entry_is_read_a_cycle(every):
    row, bands = asked("x86-clear-user-loop-alignment", ("uop_cache.reads", "1"), every=every)
    large = bands[(bands["to_bytes"] >= 4096) & (bands["status"] == "wins")]
    assert len(large), row["bands"]
    assert row["winner"] or not every


@EVERY
def test_one_pair_of_stac_and_clac_is_weighed_by_what_they_cost(every):
    row, _ = asked("epoll-put-uevent-stac-clac", every=every)
    assert "serial.stac_clac" in row["break_even"]
    assert "write_begin" in row["break_even"]
    assert "against put_user_twice: +2.2 % (" in row["published"]
    assert "loopwright kmod source" in row["measure_first"]


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
def test_one_pair_of_stac_and_clac_wins_where_they_cost_most(every):
    row, bands = asked("epoll-put-uevent-stac-clac", ("serial.stac_clac", "225"), every=every)
    assert (bands["status"] == "wins").all(), row["bands"]


@EVERY
def test_pairs_without_pan_win_on_tsv110_where_pan_is_off(every):
    row, bands = asked("arm64-copy-user-nopan", every=every)
    off = bands[bands["condition"] == "pan is off"]
    large = off[off["to_bytes"] >= 4096].iloc[-1]
    assert (large["variant"], large["status"]) == ("to_user_nopan", "wins")
    assert "to_user_nopan" in row["only_where"]


def test_the_page_has_every_thread_and_what_it_would_merge():
    text = (ROOT / "docs" / "threads.md").read_text()
    for thread, (kernel, _, against, core) in THREADS.items():
        assert f"## {thread}" in text
        assert re.search(rf"recommend {kernel} .*--microarch {core} --against {against}", text)
