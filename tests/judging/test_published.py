"""Published figures beside predictions: what the threads say, and what a model can say of it."""

import pytest
from few_variants import few

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.judging import published
from loopwright.judging.published import figures, table


@pytest.fixture(scope="module")
def rows():
    return lw.published()


def test_every_figure_has_a_source_a_place_and_a_machine():
    for figure in table():
        assert "http" in figure.source, figure
        assert figure.place, figure
        assert figure.machine, figure
        assert (figure.percent, figure.after) != (None, None), figure


def test_every_figure_is_of_variants_and_cores_that_there_are():
    for figure in table():
        if figure.variant:
            assert figure.variant in kernels.load(figure.kernel).variants
        if figure.baseline:
            assert figure.baseline in kernels.load(figure.kernel).variants
        if figure.predicted_on:
            microarchs.load(figure.predicted_on)
            assert figure.microarch in (figure.predicted_on, "zen1", "kabylake")


def test_variants_that_another_folder_of_kernels_lacks_are_named(monkeypatch, tmp_path):
    few(monkeypatch, tmp_path, "x86_64/clear_user", "unrolled64", "plain", "immediates")
    rows = lw.published()
    lacking = rows[(rows["kernel"] == "x86_64/copy_user") | (rows["variant"] == "aligned16")]
    assert len(lacking) > 10
    assert set(lacking["error"]) == {"of no variant here"}
    there = rows[(rows["variant"] == "plain") & (rows["baseline"] == "immediates")]
    assert there["predicted"].notna().all()


def test_speed_ups_are_computed_from_what_was_published():
    [read] = figures("x86_64/copy_user", "zen3")
    assert (read.variant, read.baseline, read.scope) == ("movsq", "unrolled64", "system call")
    assert read.percent == pytest.approx(100 * (1721828 / 1507021 - 1))
    times = [f for f in figures("x86_64/clear_user", "zen2") if f.size_bytes == 1024]
    assert [f.percent for f in times] == pytest.approx([16.47, 16.53], abs=0.01)


def test_cores_are_labelled_as_they_are():
    clear = figures("x86_64/clear_user", "zen2")
    assert len(clear) == 12
    assert {f.microarch for f in clear} == {"zen1"}
    assert figures("x86_64/clear_user", "zen1") == clear
    assert figures("x86_64/clear_user", "tsv110") == []


def test_figures_that_were_taken_back_are_marked_and_set_no_parameter():
    back = [f for f in table() if f.retracted]
    assert {(f.variant, f.after) for f in back} == {("movsb", 36), ("movsq", 16)}
    assert not any(f.fitted for f in back)


def test_no_machine_is_named_where_the_thread_names_none():
    sums = [f for f in table() if f.kernel == "x86_64/csum"]
    assert {f.variant for f in sums} == {"adc4", "adcx_adox"}
    assert all((f.machine, f.microarch, f.predicted_on) == ("not named", "", "") for f in sums)


def test_a_part_of_a_whole_gains_at_least_as_much_as_the_whole():
    by_name = {f.quantity: f for f in figures("x86_64/put_event", "zen2")}
    masked = by_name["packets of udp_rr"]
    assert (masked.sign, masked.low_percent) == (-1, None)
    assert masked.high_percent == masked.percent == pytest.approx(-3)
    rate = next(f for f in figures("x86_64/copy_user", "zen2") if f.quantity == "iperf3 rate")
    assert (rate.low_percent, rate.high_percent) == (rate.percent, None)
    assert rate.assumption


def test_a_share_of_the_cycles_bounds_the_gain_of_the_routine():
    by_name = {f.quantity: f for f in figures("x86_64/put_event", "zen2")}
    pair = by_name["Udp6InDatagrams of udp_rr in 10 s"]
    saved = 100 * (1 - 2184011 / 2232730)
    assert saved == pytest.approx(2.18, abs=0.01)
    assert pair.low_percent == pytest.approx(100 * (5.17 / (5.17 - saved) - 1))
    assert "5.17 %" in pair.assumption
    copies = [f for f in figures("arm64/copy_user", "tsv110") if f.share_after]
    assert [(f.low_percent, f.high_percent) for f in copies] == [
        (pytest.approx(100 * (3.3 / 2.7 - 1)), pytest.approx(100 * (3.3 * 1.02 / 2.7 - 1))),
        (pytest.approx(100 * (2.25 / 0.85 - 1)), pytest.approx(100 * (2.25 * 1.02 / 0.85 - 1))),
    ]


def test_the_time_of_a_transfer_gives_what_a_line_saves():
    system = [f for f in figures("x86_64/copy_user", "zen2") if f.quantity.startswith("sys time")]
    saved = sorted(f.saved_ns_per_line for f in system)
    assert [saved[0], saved[-1]] == pytest.approx([7.96, 21.73], abs=0.01)


def test_histograms_add_up_to_what_was_counted():
    calls = [f for f in table() if f.quantity.startswith("calls of ep_try_send_events in 10 s")]
    whole = [f for f in calls if "sums" in f.condition]
    parts = [f for f in calls if "sums" not in f.condition]
    assert len(parts) == 6
    assert [f.before for f in whole] == [sum(f.before for f in parts)]
    assert [f.after for f in whole] == [sum(f.after for f in parts)]
    builds = {f.quantity for f in table() if f.quantity.endswith("in a kernel build")}
    assert builds == {"calls of memcpy in a kernel build", "calls of memset in a kernel build"}


def test_calls_are_predicted_at_their_size(rows):
    copies = rows[rows["microarch"].eq("tsv110") & rows["scope"].eq("call")]
    assert set(copies["kind"]) == {"call"}
    small = copies[copies["size_bytes"].eq(128)].set_index("variant")["predicted"]
    assert abs(small["to_user_nopan"]) < 10, "at 128 bytes the loop that differs runs once"
    at_most = copies.groupby("variant")["predicted"].max()
    assert at_most["to_user_nopan"] == pytest.approx(100, abs=1)
    assert at_most["from_user_nopan"] == pytest.approx(50, abs=1)


def test_reads_of_zeros_are_calls_of_a_page_each():
    [ten] = {f for f in figures("x86_64/clear_user", "zen2") if f.quantity.endswith("-read_z10k")
             and f.variant == "aligned16"}  # fmt: skip
    parts = [published._call_cycles(ten.kernel, "aligned16", "zen1", n, ()) for n in (4096, 2048)]
    assert published.routine_cycles(ten, "aligned16") == 2 * parts[0] + parts[1]


def test_the_loop_that_straddles_a_line_is_slower_on_zen_and_not_on_haswell(rows):
    clear = rows[rows["kernel"] == "x86_64/clear_user"].groupby("predicted_on")["predicted"]
    assert clear.min()["zen2"] > 97
    assert clear.max()["haswell"] == pytest.approx(0)
    assert clear.max()["broadwell"] == pytest.approx(0)


def test_where_nothing_is_predicted_the_row_says_why(rows):
    silent = rows[rows["predicted"].isna()]
    assert (silent["error"] != "").all()
    assert (rows.loc[rows["predicted"].notna(), "error"] == "").all()
    assert silent["error"].str.contains("stac").any()
    assert silent["error"].str.contains("without a name is not modelled").any()
