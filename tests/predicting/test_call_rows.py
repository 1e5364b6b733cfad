"""Whole calls predicted: the verb, the cache on disk, and how the simulator is asked."""

import json

import pytest

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.predicting import calls
from loopwright.predicting.calls import CallCost, CallQuestion
from loopwright.predicting.pipeline import Pipeline

_LHIST = """
@sizes:
[0, 64)               10 |@@@                 |
[64, 128)             30 |@@@@@@@@@           |
[4096, ...)           60 |@@@@@@@@@@@@@@@@@@@@|
"""


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(calls.paths, "build_dir", lambda: tmp_path / "build")


def _variant(name):
    kernel, _, variant = name.rpartition("/")
    return kernels.load(kernel).variants[variant]


def test_a_row_for_each_size_alignment_and_core():
    rows = lw.predict(
        "x86_64/copy_user/unrolled64",
        microarch="goldencove,zen2",
        sizes=[0, 64, 640],
        align="0:0,1:0",
    )
    assert len(rows) == 2 * 3 * 2
    assert set(rows["notion"]) == {"call"}
    assert not any(rows["error"])
    assert (rows["mispredicted"] >= rows["cycles"]).all()
    at = rows[rows["microarch"] == "goldencove"].set_index(["size_bytes", "dst_align"])["cycles"]
    assert 0 < at[0, 0] < at[64, 0] < at[640, 0] < at[640, 1]


def test_what_a_long_call_costs_more_is_its_loop():
    spec = "x86_64/clear_user/plain"
    [turn] = lw.predict(spec, microarch="skylake")["cycles"]
    short, long = lw.predict(spec, microarch="skylake", sizes=[2048, 4096])["cycles"]
    assert (long - short) / 256 == pytest.approx(turn, rel=0.05)


def test_a_routine_without_a_side_has_one_row_for_it_and_one_of_fixed_size_one_size():
    rows = lw.predict("x86_64/clear_user/plain", microarch="zen2", sizes="64", align="0:0,0:1")
    assert len(rows) == 1
    rows = lw.predict("x86_64/put_event/stat_direct", microarch="sandybridge", sizes="64,144")
    assert list(rows["size_bytes"]) == [144]
    rows = lw.predict("x86_64/put_event", microarch="sandybridge", sizes=[8])
    assert set(rows["size_bytes"].dropna()) == {96, 144}


def test_records_are_counted_and_said_in_bytes():
    rows = lw.predict("x86_64/put_event/masked", microarch="sandybridge", sizes=[1, 3])
    assert list(rows["size_bytes"]) == [12, 36]


def test_an_unmeasured_parameter_makes_a_range_and_setting_it_none():
    open_ = lw.predict("x86_64/put_event/masked", microarch="zen2", sizes=[4])
    assert open_["cycles"].isna().all()
    assert "stac_clac" in open_["error"][0]
    assert 0 < open_["cheap"][0] < open_["dear"][0]
    assert open_["low"][0] < open_["cheap"][0] < open_["dear"][0] < open_["high"][0]
    given = {"serial.stac_clac": "10"}
    rows = lw.predict("x86_64/put_event/masked", microarch="zen2", sizes=[4], parameters=given)
    assert open_["cheap"][0] < rows["cycles"][0] < open_["dear"][0]
    assert rows["cheap"].isna().all()


def test_a_histogram_weighs_its_sizes(tmp_path):
    path = tmp_path / "sizes.txt"
    path.write_text(_LHIST)
    rows = lw.predict("x86_64/copy_user/loop32", microarch="skylake", sizes=str(path))
    assert rows["weight"].sum() == pytest.approx(1)
    assert rows[rows["size_bytes"] < 64]["weight"].sum() == pytest.approx(0.1)
    assert rows.set_index("size_bytes")["weight"][4096] == pytest.approx(0.6)


def test_the_mean_call_of_a_histogram_is_said(tmp_path, capsys):
    path = tmp_path / "sizes.txt"
    path.write_text(_LHIST)
    spec = "x86_64/copy_user/loop32"
    rows = lw.predict(spec, microarch="skylake", sizes=str(path))
    [note] = rows.loc[rows["size_bytes"] == 4096, "note"]
    assert note.startswith("4096 B stands for all calls of the histogram of that size or more")
    assert run(["predict", spec, "--microarch", "skylake", "--sizes", str(path)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "mean call" in line]
    mean = (rows["weight"] * rows["cycles"]).sum()
    low, high = ((rows["weight"] * rows[end]).sum() for end in ("low", "high"))
    said = f"{mean:.1f} cycles, {low:.1f} to {high:.1f}"
    assert line.endswith(f"loop32 on skylake at offset 16, 0:0: {said}")


def test_a_mean_call_of_which_the_range_alone_is_known_is_a_range(tmp_path, capsys):
    path = tmp_path / "sizes.txt"
    path.write_text(_LHIST)
    spec, where = "x86_64/copy_user/movsq", ["--align", "1:0", "--sizes", str(path)]
    assert run(["predict", spec, "--microarch", "zen2", *where]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "mean call" in line]
    rows = lw.predict(spec, microarch="zen2", sizes=str(path), align="1:0")
    low, high = ((rows["weight"] * rows[e].fillna(rows["cycles"])).sum() for e in ("low", "high"))
    assert low < high
    assert line.endswith(f"movsq on zen2 at offset 7, 1:0: {low:.1f} to {high:.1f} cycles")


def test_a_range_alone_is_an_answer(capsys):
    spec = ["predict", "x86_64/copy_user/movsq", "--microarch", "zen2", "--align", "1:0"]
    assert run([*spec, "--sizes", "512"]) == 0
    assert "no figures for movsq.rep unaligned" in capsys.readouterr().out
    assert run(["predict", "x86_64/csum/adcx_adox", "--microarch", "sandybridge", "--sizes", "64"])
    assert "no prediction has a number" in capsys.readouterr().err


def test_other_models_say_that_they_do_not_see_calls():
    rows = lw.predict("x86_64/csum/adc4", microarch="skylake", sizes=[64], model="pipeline,osaca")
    assert list(rows["error"] == "") == [True, False]
    assert "whole calls" in rows["error"][1]


def test_code_that_a_core_lacks_is_refused():
    rows = lw.predict("x86_64/csum/adcx_adox", microarch="sandybridge,skylake", sizes=[64])
    assert "sandybridge lacks" in rows["error"][0]
    assert rows["error"][1] == ""


def _costs(variant, core, points, overrides, offset=None):
    [found] = calls.of_variants([CallQuestion(variant, core, points, overrides, offset)])
    for cost in found:
        if isinstance(cost, InputError):
            raise cost
    return found


def test_what_is_known_is_neither_traced_nor_simulated_again(monkeypatch):
    core, variant = microarchs.load("skylake"), _variant("x86_64/copy_user/movsq")
    first = _costs(variant, core, [(64, 0, 0), (65, 0, 0)], {})
    monkeypatch.setattr(Pipeline, "calls", lambda *_: pytest.fail("simulated again"))
    monkeypatch.setattr(calls, "Tracer", lambda *_: pytest.fail("traced again"))
    assert _costs(variant, core, [(65, 0, 0)], {}) == first[1:]


def test_the_cache_knows_core_code_parameters_and_simulator_apart(monkeypatch):
    core, variant = microarchs.load("skylake"), _variant("x86_64/copy_user/unrolled64")
    asked = []
    real = Pipeline.calls
    monkeypatch.setattr(
        Pipeline, "calls", lambda self, *given: asked.append(given) or real(self, *given)
    )
    points = [(64, 0, 0)]
    _costs(variant, core, points, {})
    _costs(variant, core, points, {"front_end.mode": "ideal"})
    _costs(variant, microarchs.load("haswell"), points, {})
    _costs(variant, core, points, {}, offset=5)
    _costs(_variant("x86_64/copy_user/loop32"), core, points, {})
    monkeypatch.setattr(calls, "_hash_of_tools", lambda: "another simulator")
    _costs(variant, core, points, {})
    assert len(asked) == 6


def test_several_questions_share_their_trace_and_keep_their_order(monkeypatch):
    variant = _variant("x86_64/copy_user/unrolled64")
    traced = []
    real = calls.Tracer
    monkeypatch.setattr(calls, "_traces", calls._Traces(1 << 20))
    monkeypatch.setattr(calls, "Tracer", lambda *g: traced.append(g) or real(*g))
    cores = [microarchs.load(name) for name in ("skylake", "haswell")]
    points = [(64, 0, 0), (256, 1, 0), (-1, 0, 0)]
    seen = []
    found = calls.of_variants(
        [CallQuestion(variant, core, points, {}) for core in cores],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert len(traced) == 1
    for answers in found:
        assert [isinstance(a, CallCost) for a in answers] == [True, True, False]
        assert [(a.size, a.dst) for a in answers[:2]] == [(64, 0), (256, 1)]
    assert seen[-1] == (6, 6)
    with pytest.raises(InputError, match="below 0"):
        _costs(variant, cores[0], points, {})
    _costs(variant, cores[0], points[1::-1], {"front_end.mode": "ideal"})
    assert len(traced) == 1
    _costs(variant, cores[0], points[:1], {}, offset=5)
    assert len(traced) == 2


def test_traces_that_are_kept_have_a_limit_and_change_no_answer(monkeypatch):
    core, variant = microarchs.load("skylake"), _variant("x86_64/copy_user/unrolled64")
    monkeypatch.setattr(calls, "_traces", calls._Traces(1))
    traced = []
    real = calls.Tracer
    monkeypatch.setattr(calls, "Tracer", lambda *g: traced.append(g) or real(*g))
    points = [(64, 0, 0), (65, 0, 0)]
    alone = [_costs(variant, core, [place], {})[0] for place in points]
    assert alone == _costs(variant, core, points, {})
    moved = _costs(variant, core, points, {"front_end.mode": "ideal"})
    assert len(traced) == 3
    assert [(m.size, m.dst) for m in moved] == [(64, 0), (65, 0)]


def test_code_as_user_space_runs_it_has_no_gates():
    core, variant = microarchs.load("zen2"), _variant("x86_64/put_event/masked")
    gated = CallQuestion(variant, core, [(1, 0, 0)], {})
    [[refused], [found]] = calls.of_variants([gated, gated._replace(in_user_space=True)])
    assert isinstance(refused, InputError)
    assert found.cycles > 0


def test_rows_as_csv_and_json(capsys):
    spec = ["predict", "x86_64/csum/adc4", "--microarch", "skylake", "--sizes", "64"]
    assert run([*spec, "--csv"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["size_bytes"] == "64"
    assert run([*spec, "--json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    assert record["cycles"] > 0
    assert run(spec) == 0
    assert "size_bytes" in capsys.readouterr().out


def test_a_histogram_without_samples_is_refused(tmp_path, capsys):
    path = tmp_path / "none.txt"
    path.write_text("@sizes:\n[0, 64)               0 |          |\n")
    assert run(["predict", "x86_64/copy_user", "--sizes", str(path)]) == 2
    assert "counts no calls" in capsys.readouterr().err
