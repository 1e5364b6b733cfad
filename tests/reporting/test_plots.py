"""Tables behind the figures, and the figures: what they say is what the models say."""

import io
import math
from pathlib import Path

import pandas as pd
import pytest
from few_variants import few
from matplotlib.image import imread

import loopwright as lw
from loopwright import kernels
from loopwright.code import loops
from loopwright.histogram import Bucket, Histogram
from loopwright.reporting import cross_validation, cycle_curves, html, plots


@pytest.fixture(scope="module")
def swept():
    return cycle_curves.sweep("x86_64/clear_user", "zen2,sandybridge")


def test_a_sweep_covers_every_offset_of_every_variant(swept):
    counts = swept.groupby(["variant", "microarch"])["offset_bytes"].nunique()
    assert set(counts) == {64}
    assert (swept["slowdown_percent"].dropna() >= 0).all()


def test_predicted_calls_are_drawn_as_measured_ones_are():
    found = cycle_curves.predicted("x86_64/csum", "sandybridge", [64, 512], src_align=1)
    assert list(found.columns) == cycle_curves.COLUMNS
    said = lw.predict("x86_64/csum", microarch="sandybridge", sizes=[64, 512], align="0:1")
    assert list(found["cost_cycles"]) == list(said["cycles"].dropna())
    assert "adcx_adox" not in set(found["variant"])
    assert cycle_curves.crossovers(found)["cheapest"].ne("").all()


def test_arm64_code_is_swept_where_it_can_stand():
    rows = cycle_curves.sweep("arm64/copy_user/to_user_pairs", "neoverse-n1")
    assert sorted(rows["offset_bytes"]) == list(range(0, 64, 4))


def test_the_boundary_that_hurts_is_found(swept):
    words = cycle_curves.boundaries(swept).set_index(["microarch", "variant"])
    row = words.loc[("zen2", "immediates")]
    assert row["boundary_bytes"] == 64
    assert row["worst_cycles"] == pytest.approx(2 * row["best_cycles"], rel=0.02)
    assert "a 64-byte boundary" in row["words"]
    assert row["slow_offsets"].endswith("-63")
    steady = words.loc[("zen2", "unrolled64")]
    assert pd.isna(steady["boundary_bytes"])
    assert "every offset" in steady["words"]


def test_offsets_are_written_as_ranges():
    assert loops.offset_ranges([3, 4, 5, 9]) == "3-5, 9"
    assert loops.offset_ranges([0, 4, 8, 40]) == "0-8, 40"
    assert loops.offset_ranges([]) == ""


def costs(**lines):
    rows = [
        {"variant": name, "microarch": "zen2", "source": "measured", "size_bytes": size,
         "cost_cycles": cycles, "uncertainty_cycles": 1.0}
        for name, points in lines.items() for size, cycles in points.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_lines_that_cross_cross_where_they_cross():
    found = cycle_curves.crossovers(costs(a={0: 0, 100: 100}, b={0: 40, 100: 60}))
    assert list(found["cheapest"]) == ["a", "b"]
    assert found["to_bytes"].iloc[0] == pytest.approx(50)
    assert found["from_bytes"].iloc[1] == found["to_bytes"].iloc[0]


def test_a_difference_within_the_uncertainty_is_no_crossover():
    found = cycle_curves.crossovers(costs(a={0: 10, 100: 100}, b={0: 10.5, 100: 99}))
    assert list(found["cheapest"]) == ["a = b"]


def ranges(**lines):
    rows = [
        {"variant": name, "microarch": "zen2", "source": "pipeline", "size_bytes": size,
         "cost_cycles": cost, "low_cycles": low, "high_cycles": high}
        for name, points in lines.items() for size, (low, cost, high) in points.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_what_is_not_known_of_a_core_leaves_open_who_is_the_cheapest():
    known, open_ = {64: (10, 10, 10), 512: (80, 80, 80)}, {64: (20, 40, 50), 512: (50, 60, 90)}
    found = cycle_curves.crossovers(ranges(a=known, b=open_))
    assert list(found["cheapest"]) == ["a", "a = b"]
    # Where only the range is known it counts all the same.
    found = cycle_curves.crossovers(ranges(a=known, b=open_ | {512: (50, None, 60)}))
    assert list(found["cheapest"]) == ["a", "b"]


def test_a_mean_of_costs_that_are_not_known_is_a_range():
    calls = Histogram("@sizes", (Bucket(64, 65, 1), Bucket(512, 513, 1)))
    known, open_ = {64: (10, 10, 10), 512: (80, 80, 80)}, {64: (20, None, 40), 512: (50, 60, 90)}
    found = cycle_curves.weighted(ranges(a=known, b=open_), calls).set_index("variant")
    assert found.loc["a", "mean_cost_cycles"] == pytest.approx(45, rel=0.01)
    assert pd.isna(found.loc["b", "mean_cost_cycles"])
    assert found.loc["b", "low_cycles"] == pytest.approx(35, rel=0.01)
    assert found.loc["b", "high_cycles"] == pytest.approx(65, rel=0.01)


def test_calls_that_rest_on_what_nobody_measured_have_bands():
    found = cycle_curves.predicted("x86_64/copy_user/movsq", "zen2", [64, 512], dst_align=1)
    said = lw.predict("x86_64/copy_user/movsq", microarch="zen2", sizes=[64, 512], align="1:0")
    assert said["cycles"].isna().all()  # nobody knows what it costs; between what it does
    assert list(found["low_cycles"]) == list(said["cheap"])
    assert found["note"].str.contains("movs_rate_unaligned").all()
    figure = plots.size_curves(found, kernel="x86_64/copy_user")
    [band] = [c for c in figure.axes[0].collections if len(c.get_paths()) and c.get_alpha()]
    top = band.get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(said["dear"].max())


def test_measured_and_predicted_calls_stand_beside_each_other():
    measured = costs(plain={8: 9, 64: 60, 512: 1400})
    said = cycle_curves.predicted("x86_64/clear_user/plain", "zen2,sandybridge", [8, 64, 512])
    figure = plots.size_curves(pd.concat([measured, said]), kernel="x86_64/clear_user")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["zen2, measured", "zen2, pipeline", "sandybridge, pipeline"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["plain"]


def test_where_a_variant_was_refused_none_is_called_the_cheapest():
    # b is the cheapest everywhere, but for the sizes at which it was refused.
    found = cycle_curves.crossovers(costs(a={0: 20, 64: 60, 128: 90, 256: 99}, b={0: 10, 256: 50}))
    assert list(found["cheapest"]) == ["b", "", "b"]
    assert list(found["lacking"]) == ["", "b", ""]
    assert list(found["from_bytes"]) == [0, 64, 256]
    assert list(found["to_bytes"]) == [0, 128, 256]


def test_a_mean_over_fewer_sizes_is_compared_with_none():
    calls = Histogram("@sizes", (Bucket(0, 100, 3),))
    found = cycle_curves.weighted(costs(a={0: 0, 50: 400, 101: 101}, b={0: 40, 101: 60}), calls)
    assert found.set_index("variant")["lacking"].to_dict() == {"a": "", "b": "50 B"}
    assert found.set_index("variant")["mean_cost_cycles"].isna().to_dict() == {
        "a": False,
        "b": True,
    }


def test_a_histogram_weighs_the_costs():
    calls = Histogram("@sizes", (Bucket(0, 1, 3), Bucket(100, 101, 1)))
    found = cycle_curves.weighted(costs(a={0: 0, 101: 101}, b={0: 40, 101: 60}), calls)
    assert list(found["variant"]) == ["a", "b"]
    assert found["mean_cost_cycles"].iloc[0] == pytest.approx((3 * 0.5 + 100.5) / 4)
    assert set(found["sizes_known_percent"]) == {100}


def table():
    rows = [("a", 1.0, 1.0), ("b", 2.0, 4.0), ("c", 3.0, 3.0)]
    return pd.DataFrame(
        [
            {"kernel": "k", "variant": name, "microarch": "zen4", "source": source,
             "cycles": cycles, "uncertainty": 0.01, "clock": "c", "machine": "m", "note": ""}
            for name, real, guess in rows
            for source, cycles in (("measured", real), ("osaca", guess))
        ]
    )  # fmt: skip


def test_errors_are_those_of_the_pairs():
    pairs = cross_validation.pairs(table())
    [row] = cross_validation.summary(pairs).to_dict("records")
    assert row["loops"] == 3
    assert row["mape_percent"] == pytest.approx(100 / 3)
    assert row["kendall_tau"] == pytest.approx(1 / 3)
    assert cross_validation.worst(pairs, 1)["variant"].tolist() == ["b"]


def test_models_and_variants_look_the_same_everywhere_and_differ():
    for kernel in kernels.every():
        styles = [html.variant(name, kernel.id) for name in kernel.variants]
        assert len({(s.colour, s.marker, s.line) for s in styles}) == len(styles)
        assert len({(s.marker, s.line) for s in styles}) == len(styles)
    assert html.source("measured").colour == html.INK
    assert html.variant("mine") == html.variant("mine", "x86_64/nothing")


def pixels(figure):
    png = io.BytesIO()
    figure.savefig(png, format="png")
    png.seek(0)
    return (255 * imread(png)[:, :, :3]).round().astype(int)


def colour(style):
    return [int(style.colour[n : n + 2], 16) for n in (1, 3, 5)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("kernels")
        few(patch, folder, "x86_64/clear_user", "unrolled64", "immediates", "rep_stosq")
        return lw.compare("x86_64/clear_user", quick=True)


def test_each_figure_shows_what_it_is_given(swept, compared):
    heat = plots.heat_map(swept, "zen2")
    assert (pixels(heat) == [0xD5, 0x5E, 0x00]).all(axis=2).sum() > 1000
    curves = plots.size_curves(
        costs(plain={8: 9, 64: 60}, rep_stosq={8: 40, 64: 50}), kernel="x86_64/clear_user",
        histogram=Histogram("@sizes", (Bucket(8, 16, 3), Bucket(32, None, 1))),
    )  # fmt: skip
    shown = pixels(curves)
    for name in ("plain", "rep_stosq"):
        mine = colour(html.variant(name, "x86_64/clear_user"))
        assert (shown == mine).all(axis=2).any()
    bars = plots.cycles(compared, "zen2")
    labels = [t.get_text() for t in bars.axes[0].texts]
    assert "8.00" in labels
    assert not {"1.00", "3.00", "2.67"} & set(labels)  # an iteration's; below what stores take
    assert bars.axes[0].get_xlabel() == "cycles for 64 bytes (less is faster)"
    dots = plots.scatter(cross_validation.pairs(table()))
    assert any("MAPE 33.3 %" in t.get_text() for t in dots.axes[0].get_legend().get_texts())


def test_the_timeline_and_the_ports_name_every_instruction():
    where = {"microarch": "zen2", "offset": 0}
    life = lw.timeline("x86_64/copy_user/loop32", **where, iterations=2)
    labels = [t.get_text() for t in plots.timeline(life).axes[0].get_yticklabels()]
    assert len(labels) == len(life)
    assert labels[0].startswith("0.0 movq")
    use = lw.ports("x86_64/copy_user/loop32", **where)
    legend = plots.ports(use).axes[0].get_legend().get_texts()
    busy = use[use["uops_per_iteration"] > 0]
    assert len(legend) == busy["instruction"].nunique()


def test_a_block_without_an_answer_is_a_figure_that_says_why():
    rows = lw.timeline(hex="0f01cb", microarch="zen2")
    assert "no timeline" in plots.timeline(rows).axes[0].texts[0].get_text()


def test_a_figure_without_rows_says_so(tmp_path: Path):
    empty = cycle_curves.measured(pd.DataFrame())
    figure = plots.size_curves(empty)
    assert "nothing was measured" in figure.axes[0].texts[0].get_text()
    figure.savefig(tmp_path / "empty.svg")
    assert math.isclose(figure.get_size_inches()[0], 8)


def test_every_group_of_bars_has_its_name_in_sight(compared):
    found = compared[(compared["microarch"] == "zen2") & compared["cycles"].notna()]
    figure = plots.cycles(found, "zen2")
    [axes] = figure.axes
    low, high = sorted(axes.get_ylim())
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert "rep_stosq" in names
    assert len(names) == len(set(names)) == len(axes.get_yticks())
    assert set(names) <= set(found["variant"])
    assert all(low <= tick <= high for tick in axes.get_yticks())
    tops = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in axes.patches]
    assert all(low - 1e-9 <= a and b <= high + 1e-9 for a, b in tops)


def test_curves_that_coincide_share_a_line_with_all_their_names():
    sizes = [8, 64, 512]
    costs = {"one": [8, 16, 64], "same": [8.1, 16.2, 64], "other": [8, 16, 128]}
    rows = pd.DataFrame(
        [
            {"microarch": "zen2", "source": "pipeline", "variant": name, "size_bytes": size,
             "cost_cycles": float(cost), "uncertainty_cycles": float("nan")}
            for name, of in costs.items()
            for size, cost in zip(sizes, of, strict=True)
        ]
    )  # fmt: skip
    [axes] = plots.size_curves(rows).axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["one \N{ALMOST EQUAL TO} same", "other"]
