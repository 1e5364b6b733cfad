"""What make validate holds every core to: the sources, their code, the halves, and the bounds."""

import tomllib

import pandas as pd
import pytest
from checkout import ROOT, SHARED
from quick import some

import loopwright as lw
from loopwright.measuring import block

NAMES = (
    "checks", "instlatx64", "singles", "whole_loops", "public_loops", "host_blocks", "record",
    "accuracy",
)  # fmt: skip
ALTRA = "insn_bench, Ampere Altra"


@pytest.fixture(scope="module")
def modules(validation):
    return {name: validation(name) for name in NAMES}


@pytest.fixture
def checks(modules):
    return modules["checks"]


def _here(file):
    path = SHARED / "data" / file
    if not path.is_file():
        pytest.skip(f"{file} is not in $LOOPWRIGHT_SHARED/data: see models/derive/README.md")
    return path


def test_a_tenth_of_the_figure_or_of_a_cycle_is_reproduced(modules):
    holds = modules["singles"].holds
    assert holds(0.5, 0.6)
    assert holds(11.0, 10.0)
    assert not holds(11.2, 10.0)
    assert not holds(0.39, 0.5)


def test_sources_that_are_not_here_are_named_with_where_they_are(
    checks, modules, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(checks, "MEASURED", tmp_path)
    checks.show()
    said = capsys.readouterr().out
    for source in checks.SOURCES:
        assert f"skipped, {source.file}.csv.gz is not in {tmp_path}" in said
    assert said.count("https://") == len(checks.SOURCES)
    assert "code known" not in said
    monkeypatch.setattr(modules["accuracy"], "DATA", tmp_path)
    modules["accuracy"].show("Blocks", "bhive_public.csv", lambda rows: rows)
    assert "skipped: bhive_public.csv" in capsys.readouterr().out


@pytest.mark.parametrize("made", ["no", "its twin", pytest.param("yes", marks=pytest.mark.slow)])
def test_what_a_table_was_made_from_is_not_held_out_of_it(checks, modules, made):
    figure = modules["singles"].Figure("add", "latency", 1.0, bytes.fromhex("4801d8"))
    source = checks.Source("zen2", "x86_64", "x", "x", "instlatx64", made, lambda: [figure] * 3)
    rows = {row["model"]: row for row in modules["record"].instructions(source)}
    assert rows["pipeline"]["held_out"] == ("yes" if made == "no" else "no")
    assert rows["llvm-mca"]["held_out"] == "yes"
    assert {row["what"] for row in rows.values()} == {"instructions"}
    assert rows["pipeline"]["rows"] == 3


def test_a_miss_that_nobody_explained_says_so(checks):
    row = {"name": "FNORD r64", "notion": "latency", "cycles": 1.0, "error": None}
    assert checks.reason("InstLatx64", row) == "not explained"
    assert "divisions" in checks.reason("InstLatx64", row | {"name": "VDIVPS ymm, ymm, ymm"})
    silent = row | {"cycles": float("nan"), "error": "no figures for fnord r64"}
    assert checks.reason("InstLatx64", silent) == "no answer: no figures for the form"


def test_shares_count_what_has_no_answer_apart(checks):
    rows = pd.DataFrame({"cycles": [1.0, 2.0, None], "holds": [True, False, False]})
    assert checks.share(rows) == "50.0 %, 1 no answer"
    assert checks.share(rows[2:]) == "no answers"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("ADD r1_64, r2_64", ["add rax, r12"]),
        ("VPXOR xmm1, xmm1, xmm1", ["vpxor xmm0, xmm0, xmm0"]),
        ("VADDPS ymm1, ymm1, ymm2", ["vaddps ymm0, ymm0, ymm14"]),
    ],
)
def test_names_of_instlatx64_say_which_registers_are_the_same(modules, name, lines):
    mnemonic, operands, apart = modules["instlatx64"].kinds(name)
    assert modules["instlatx64"].text(mnemonic, operands, apart, True) == lines


@pytest.mark.parametrize("kind", ["r8h", "mm", "k", "x", "r64", "m64"])
def test_copies_for_throughput_write_a_place_each(modules, kind):
    lines = modules["instlatx64"].text("mov", [kind, kind], True, False)
    assert len(set(lines)) == len(lines) >= 4


def test_a_loop_is_in_the_half_of_its_block(modules, tmp_path, monkeypatch):
    halved = modules["host_blocks"]
    blocks = [f"4883c0{n:02x}" for n in range(16)]
    codes = [
        c
        for b in blocks
        for c in (bytes.fromhex(b), block.counted_loop("x86_64", bytes.fromhex(b)).code)
    ]
    table = pd.DataFrame({"sha256": [halved.digest(c) for c in codes], "cycles": 1.0})
    monkeypatch.setattr(halved, "HOSTS", tmp_path)
    table.to_csv(tmp_path / "zen4.csv", index=False)
    rows = halved.rows("zen4", blocks)
    assert len(rows) == len(codes)
    halves = rows["aside"].tolist()
    assert halves[::2] == halves[1::2]
    assert 0 < sum(halves) < len(halves)
    assert halves[0] == (int(halved.digest(codes[0])[0], 16) >= 8)


def test_what_osaca_says_does_not_hang_on_what_it_was_asked_before(modules):
    def asked():
        return modules["whole_loops"].rows("osaca", "zen2")["cycles"].dropna().tolist()

    first = asked()
    figure = modules["singles"].Figure("add", "throughput", 1.0, bytes.fromhex("480107") * 40)
    modules["singles"].answers([figure], "zen2", "x86_64", modules["checks"].Osaca())
    assert asked() == first
    assert first[0] < 10


# Shares of the loops of others that the simulator takes as long for as was measured, at least.
ARM64 = ("neoverse-n1", "neoverse-v1", "neoverse-v2", "tsv110")
RIGHT = {**dict.fromkeys(ARM64, 1.0), "zen2": 0.6, "zen3": 0.8}


@pytest.mark.parametrize("core", some(RIGHT, {"tsv110", "zen3"}))
def test_the_simulator_takes_what_whole_loops_were_measured_to(modules, core):
    rows = modules["whole_loops"].rows("pipeline", core)
    assert len(rows) > 0
    assert rows["cycles"].notna().all(), rows.to_string()
    assert rows["holds"].mean() >= RIGHT[core], rows.to_string()
    by_element = rows[rows["loop"].eq("24 fmla .2d by an element")]
    assert len(by_element) == (core == "tsv110")
    assert by_element["holds"].all()
    assert by_element["set"].ne("").all()


def test_whole_loops_of_every_core_are_held(modules):
    assert modules["whole_loops"].cores() == sorted(RIGHT)


@pytest.mark.slow
def test_public_loops_are_set_beside_llvm_mca_core_by_core(modules, tmp_path, capsys):
    shown = modules["public_loops"]
    shown.show(tmp_path / "loops.csv")
    said = capsys.readouterr().out
    assert f"skipped: {tmp_path}/loops.csv is not here" in said
    _here("measured/public-loops/loops.csv")
    rows = pd.read_csv(shown.FILE)
    found = shown.predicted(rows[rows["core"].isin(["neoverse-n1", "tsv110"])])
    assert set(found["model"]) == {"pipeline", "llvm-mca"}
    assert found.groupby("loop")["measured"].nunique().eq(1).all()
    assert set(shown.SET) <= set(rows["id"])
    errors = shown.summary(found).set_index(["core", "set_a_figure", "model"])
    assert errors["rows"].eq(errors["answered"]).all()
    for core in ("neoverse-n1", "tsv110"):
        ours, other = (found[found["model"].eq(m)] for m in ("pipeline", "llvm-mca"))
        ours, other = (f[f["core"].eq(core)]["error"].abs().median() for f in (ours, other))
        assert ours < 5
        assert ours <= other + 0.5
    one = found[found["loop"].eq("awslc_md5_16384") & found["model"].eq("pipeline")].iloc[0]
    assert one["error"] == pytest.approx(100 * (one["cycles"] / 309.3 - 1))


def test_loops_of_others_say_where_they_are_from(modules):
    sources = tomllib.loads((ROOT / "models" / "sources.toml").read_text())
    loops = modules["whole_loops"].loops()
    assert len({(loop.core, loop.name) for loop in loops}) == len(loops) > 60
    assert {loop.source for loop in loops} <= set(sources)
    assert all(loop.measured > 0 for loop in loops)


def test_a_loop_of_one_instruction_says_which_it_repeats(modules):
    for loop in modules["whole_loops"].loops():
        (listing,) = lw.read_assembly(loop.asm)["listing"]
        kinds = [line.split()[0] for line in listing.splitlines()]
        if loop.repeats:
            same = [kind for kind in kinds if kind.startswith(loop.repeats)]
            assert len(same) * 3 >= len(kinds), loop.name
        else:
            assert len(set(kinds)) >= 3, loop.name


@pytest.mark.slow
def test_what_set_a_figure_of_a_core_is_no_check_of_it(modules):
    record = modules["record"]
    counted = {
        (row["model"], row["what"]): row["rows"]
        for row in record.others_loops("neoverse-n1")
        if row["model"] in ("pipeline", "llvm-mca")
    }
    assert counted["llvm-mca", "loops"] == counted["pipeline", "loops"] + 1
    assert counted["pipeline", "instructions"] == 7


@pytest.mark.parametrize(
    ("core", "name", "notion", "least"),
    [
        ("zen2", "InstLatx64", "latency", 90),
        pytest.param("zen2", "InstLatx64", "throughput", 90, marks=pytest.mark.slow),
        pytest.param("zen3", "InstLatx64", "latency", 90, marks=pytest.mark.slow),
        pytest.param("zen4", "InstLatx64", "latency", 90, marks=pytest.mark.slow),
        pytest.param("neoverse-n1", ALTRA, "latency", 90, marks=pytest.mark.slow),
        pytest.param("neoverse-n1", ALTRA, "throughput", 90, marks=pytest.mark.slow),
        pytest.param("tsv110", "jiegec", "latency", 90, marks=pytest.mark.slow),
        ("tsv110", "jiegec", "throughput", 90),
    ],
)
def test_most_instructions_take_what_others_measured(checks, core, name, notion, least):
    source = next(s for s in checks.SOURCES if (s.core, s.name) == (core, name))
    _here(f"measured/{source.file}.csv.gz")
    figures = [f for f in source.figures() if f.code and f.notion == notion]
    rows = checks.answers(figures, core, source.isa, checks.Pipeline())
    assert len(rows) >= 10
    assert 100 * rows["holds"].mean() >= least
    assert "not explained" not in checks.misses(name, rows)


@pytest.mark.parametrize(
    ("core", "loop", "unrolled", "ordered"),
    [pytest.param("goldencove", 8, 10.5, 0.9, marks=pytest.mark.slow), ("zen4", 8, 10, 0.9)],
)
def test_a_core_holds_on_the_half_that_tuned_nothing(modules, core, loop, unrolled, ordered):
    blocks = pd.read_csv(_here("bhive_public.csv"))["hex"]
    errors = modules["host_blocks"].halves(core, list(blocks))
    errors = errors[(errors["half"] == "kept aside") & (errors["model"] == "pipeline")]
    errors = errors.set_index("notion")
    assert errors.loc["loop", "MAPE %"] <= loop
    assert errors.loc["unrolled", "MAPE %"] <= unrolled
    assert (errors["no answer %"] <= 2).all()
    assert (errors["ordered"] >= ordered).all()
