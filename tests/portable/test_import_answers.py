"""What a kit measures elsewhere teaches a core: rounds of trials, answers brought home."""

import csv
import json
from contextlib import suppress
from itertools import pairwise

import calibration_kits
import pytest
from calibration_kits import MNEMONICS, answered, trials, unpacked

import loopwright as lw
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.machine.hosts import Facts, recognise
from loopwright.microbench.oracle import read_answers


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A kit with the trials of a first round, unpacked."""
    return calibration_kits.first_round(tmp_path_factory)


@pytest.fixture(autouse=True)
def _data(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def first_round(packed, tmp_path_factory):
    """The file of a kit that ran on a simulated Skylake."""
    path = tmp_path_factory.mktemp("round") / "results.jsonl"
    return answered(packed / "jobs" / "x86_64.trials", path, "skylake")


def test_the_first_round_has_every_experiment_up_to_classes(packed):
    for isa in ("x86_64", "arm64"):
        of = trials(packed / "jobs" / f"{isa}.trials")
        assert {name.partition("/")[0] for name in of} == {
            "dispatch", "throughput", "latencies", "slots", "classes", "ports",
        }  # fmt: skip
        assert all(name.endswith(f"/{trial.key}") for name, trial in of.items())
        # Those of one experiment stand together: what is being learned can be said.
        order = [name.partition("/")[0] for name in of]
        assert len([1 for a, b in pairwise(order) if a != b]) == 5


@pytest.mark.parametrize(
    ("core", "width"), [pytest.param("zen2", 5, marks=pytest.mark.slow), ("neoverse-n1", 4)]
)
def test_two_rounds_teach_what_the_machine_itself_would(packed, tmp_path, core, width):
    isa = "arm64" if core == "neoverse-n1" else "x86_64"
    home = answered(packed / "jobs" / f"{isa}.trials", tmp_path / "one.jsonl", core)
    (brought,) = lw.import_calibration(home).to_dict("records")
    answers = brought["answers"]
    assert brought["new"] > 100
    assert lw.import_calibration(home)["new"].iloc[0] == 0
    once = lw.calibrate(tmp_path / "once", machine=answers, mnemonics=MNEMONICS)
    lacking = once.set_index("figure").loc["without an answer"]
    assert lacking["value"] > 0
    assert f"kit --calibrate {answers}" in lacking["note"]
    assert once.set_index("figure").loc["instructions a cycle", "value"] == width
    jobs = unpacked(tmp_path, answers=answers, mnemonics=MNEMONICS) / "jobs"
    assert [p.name for p in sorted(jobs.glob("*.trials"))] == [f"{isa}.trials"]
    asked = {trial.key for trial in trials(jobs / f"{isa}.trials").values()}
    assert asked
    assert not asked & read_answers(tmp_path / answers).timings.keys()
    lw.import_calibration(answered(jobs / f"{isa}.trials", tmp_path / "two.jsonl", core))
    twice = lw.calibrate(tmp_path / "twice", machine=answers, mnemonics=MNEMONICS)
    figures = twice.set_index("figure")["value"]
    before = once.set_index("figure")["value"]
    # What a third round asks: forms whose experiments rest on those of the second.
    assert figures.get("without an answer", 0) < 0.25 * lacking["value"]
    assert figures["forms with ports"] > before["forms with ports"]
    lw.calibrate(tmp_path / "itself", machine=f"simulated:{core}", mnemonics=MNEMONICS)
    taught, itself = (listed(tmp_path / name) for name in ("twice", "itself"))
    assert len(itself) > 15
    assert len(taught ^ itself) <= 0.1 * len(itself)


def listed(folder):
    """Return the forms that a core has figures for."""
    path = next(folder.glob("*/instructions.csv"))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {f"{row['mnemonic']} {one}" for row in rows for one in row["operands"].split(";")}


def test_a_machine_that_answered_all_has_no_further_round(packed, tmp_path):
    few, asked = ["madd"], packed / "jobs" / "arm64.trials"
    for number in range(3):
        home = answered(asked, tmp_path / f"{number}.jsonl", "neoverse-n1")
        answers = lw.import_calibration(home)["answers"].iloc[0]
        folder = tmp_path / str(number)
        folder.mkdir()
        with suppress(InputError):
            kit = unpacked(folder, answers=answers, mnemonics=few)
            asked = kit / "jobs" / "arm64.trials"
    # The first of them had a round to pack, the last had none.
    assert (tmp_path / "0" / "kit.tar.gz").is_file()
    with pytest.raises(InputError, match="has answered all"):
        lw.kit(tmp_path / "none.tar.gz", answers=answers, mnemonics=few)
    assert not (tmp_path / "none.tar.gz").exists()


def damaged(lines):
    """Yield what may have happened to a file, and what is said of it."""
    middle = len(lines) // 2
    yield lines[:-1], "was cut short"
    yield [*lines[:-1], lines[-1][:-1]], "was cut short"
    yield lines[:middle], "was cut short"
    yield [*lines[:middle], lines[middle][:40] + "\n"], "is damaged"
    yield [*lines[:middle], "noise\n", *lines[middle:]], f"line {middle + 1} is damaged"
    yield [*lines[:middle], *lines[middle + 1 :]], r"has \d+ of \d+ readings"
    yield [*lines, *lines], "mixes two runs"
    clock = json.dumps({"id": "clock", "fingerprint": "another"}) + "\n"
    yield [*lines[:middle], clock, *lines[middle:]], "mixes two machines"
    odd = json.dumps({**json.loads(lines[middle]), "cycles": -1.0, "refused": ""}) + "\n"
    yield [*lines[:middle], odd, *lines[middle + 1 :]], "no answer to a trial"
    was = json.loads(next(line for line in lines[middle:] if '"cycles": null' not in line))
    for change in (
        {"cycles": 2 * was["cycles"]},
        {"p90": was["cycles"] / 2},
        {"clock": "perf-rdpmc"},
        {"cpu": -5},
        {"core_hz": 1},
        {"samples": 12},
        dict.fromkeys(("cycles", "p10", "p90"), 0.001),
    ):
        odd = json.dumps({**was, **change}) + "\n"
        yield [odd if f'"{was["id"]}"' in line else line for line in lines], "says what cannot be"
    clock = json.dumps({**json.loads(lines[3]), "ticks_a_second": 0}) + "\n"
    yield [*lines[:3], clock, *lines[4:]], "says of a clock what cannot be"
    nothing = json.dumps({**json.loads(lines[-1]), "nothing_measured": "emulated"}) + "\n"
    yield [*lines[:-1], nothing], "nothing was measured there: emulated"
    yield [lines[0], "{}\n", *lines[2:]], "does not say what machine"


def test_a_file_that_is_not_whole_or_of_two_machines_is_refused_in_a_line(
    first_round, tmp_path, capsys
):
    whole = first_round.read_text().splitlines(keepends=True)
    path = tmp_path / "broken.jsonl"
    for number, (lines, said) in enumerate(damaged(whole)):
        path.write_text("".join(lines))
        with pytest.raises(InputError, match=said):
            lw.import_calibration(path)
        assert run_cli(["import", str(path)]) == 2, number
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not (tmp_path / "data").exists()


def test_answers_are_no_results_and_results_no_answers(first_round, tmp_path, capsys):
    with pytest.raises(InputError, match="holds a calibration"):
        lw.import_results([first_round])
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    assert run_cli(["import", str(first_round), str(other)]) == 2
    assert "other.jsonl holds no calibration" in capsys.readouterr().err
    assert run_cli(["import", str(first_round)]) == 0
    assert "loopwright calibrate -o cores --machine" in capsys.readouterr().out


def test_the_core_is_recognised_by_the_machine_it_was_learned_on(packed, tmp_path, monkeypatch):
    home = answered(packed / "jobs" / "arm64.trials", tmp_path / "one.jsonl", "neoverse-n1")
    answers = lw.import_calibration(home)["answers"].iloc[0]
    lw.calibrate(tmp_path / "cores", machine=answers, mnemonics=["add", "eor"])
    monkeypatch.setenv("LOOPWRIGHT_MODELS", str(tmp_path / "cores"))
    facts = Facts.of(json.loads(home.read_text().splitlines()[1]))
    assert recognise(facts).core == "arm64-part-0xd0c-012345"
