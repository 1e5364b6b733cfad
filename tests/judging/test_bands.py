"""Bands of sizes as text and as a figure, and what a patch says of them."""

import pytest
from made_up import held_to, predictions, simulated

from loopwright.judging import model_accuracy
from loopwright.judging.recommend import conclude
from loopwright.linux import message, patch
from loopwright.linux.message import Evidence
from loopwright.reporting import plots, text

RATE = "string.movs_rate_unaligned"
COSTS = {
    "movsq_aligned": lambda size, _dst, _of: 10 + size / 4,
    "loop32": lambda size, _dst, _of: 10 + size / (4 if size < 256 else 16),
    "movsq": lambda size, dst, of: 90 + size / (of(RATE) if dst else 32),
}


@pytest.fixture(autouse=True)
def _records(monkeypatch):
    held = held_to({("pipeline", c): (4.0, 500) for c in ("zen2", "sandybridge")}, "instructions")
    monkeypatch.setattr(model_accuracy, "records", lambda: held)


def concluded(cores=("zen2",)):
    found = simulated(COSTS, predictions({}), cores=cores)
    return found, conclude(found)


def test_a_strip_has_a_letter_for_who_wins_a_question_mark_for_who_may_and_a_dot_for_none():
    _, judgement = concluded()
    drawn = "\n".join(text.band_lines(judgement.bands)).splitlines()
    heads, row = (line.split() for line in drawn if line.startswith(("core", "zen2")))
    assert heads == ["core", *["8", "16", "32", "64", "128", "256", "512", "1K", "2K", "4K"]]
    assert row[0] == "zen2"
    assert row[1:6] == ["."] * 5
    assert f"{row[6]} loop32" in " ".join(drawn)
    assert "movsq_aligned, the baseline" in " ".join(drawn)


def test_bands_meet_and_cover_all_sizes_of_each_core():
    _, judgement = concluded(("sandybridge", "zen2"))
    for core, mine in judgement.bands.groupby("microarch"):
        assert mine["from_bytes"].iloc[0] == 8, core
        assert mine["to_bytes"].iloc[-1] == 4096, core
        assert list(mine["from_bytes"][1:]) == list(mine["to_bytes"][:-1])
        assert (mine["speed_low"] <= mine["speed_high"]).all()


def test_the_figure_of_a_strip_names_every_core_and_variant():
    _, judgement = concluded(("sandybridge", "zen2"))
    figure = plots.strip(judgement.bands, "x86_64/copy_user")
    [axes] = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["sandybridge", "zen2", "every core"]
    [legend] = figure.legends
    assert "movsq_aligned (baseline)" in [t.get_text() for t in legend.get_texts()]


def test_a_patch_says_where_it_is_faster_on_what_evidence_and_what_would_decide():
    found, judgement = concluded()
    judged = patch.conclusions_of(found, judgement)
    names = {"copy_user": "rep_movs_alternative"}
    movsq = found.kernel.variants["movsq"]
    writer = message.Writer(movsq, names, Evidence(judged=judged))
    body = " ".join(writer.body([]).split())
    assert writer.doubtful
    assert "Speed against what is there, by size: zen2: " in body
    assert "What would decide: movsq beats movsq_aligned on zen2 where a misaligned rep" in body
    assert "This rests on: zen2: whole calls simulated (taken to be off by 20 %" in body
    one = found.kernel.variants["loop32"]
    words = " ".join(message.Writer(one, names, Evidence(judged=judged)).body([]).split())
    assert "256 to 4096 B loop32 +" in words
    assert "What would decide" not in words
