"""The code that reads counters of a PMU, as far as it runs where there is none.

Programs in data/counters hold it to pages that are made up, to software events and to traps; the
arm64 harness runs whole under an emulator, with the gate against timing there taken out.
"""

import shutil
import subprocess

import pytest
from checkout import DATA

from loopwright import kernels, paths, toolchain
from loopwright.code import assemble
from loopwright.kernels import contract_of
from loopwright.machine import harness
from loopwright.machine.harness import Point

PROGRAMS = DATA / "counters"
FIXTURES = DATA / "kernels"
EMULATED = pytest.mark.skipif(
    toolchain.host_isa() == "arm64" or not shutil.which("qemu-aarch64"),
    reason="needs qemu-aarch64 on another machine",
)
MOVED = "disturbed: "  # the thread went to another CPU in most samples
ISAS = ["x86_64", pytest.param("arm64", marks=EMULATED)]


def program(isa, name, folder, *units):
    """Compile one of PROGRAMS with units of the harness, run it and return what it prints."""
    tools, binary = toolchain.find(isa), folder / name
    sources = [PROGRAMS / f"{name}.c", *(paths.HARNESS / unit for unit in units)]
    flags = ["-O2", "-static", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{paths.HARNESS}"]
    subprocess.run([tools.gcc, *flags, *map(str, sources), "-o", str(binary)], check=True)
    done = subprocess.run([*tools.run, str(binary)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("isa", ISAS)
def test_counts_are_put_together_from_page_and_counter(isa, tmp_path):
    assert program(isa, "page", tmp_path) == "held"


def test_software_events_are_counted_by_the_same_code(tmp_path):
    said = program(toolchain.host_isa(), "group", tmp_path, "perf_group.c")
    if said != "held":
        pytest.skip(f"this system lets no software event be counted: {said}")


@EMULATED
def test_an_emulator_has_no_events(tmp_path):
    assert program("arm64", "group", tmp_path, "perf_group.c") == "Function not implemented"


@pytest.mark.parametrize("isa", ISAS)
def test_a_counter_that_traps_is_survived(isa, tmp_path):
    units = ["trial.c", "clock_perf.c", "perf_group.c", f"{isa}/clock.c"]
    said = program(isa, "trap", tmp_path, *units)
    if said == "counted":
        pytest.skip("this machine has a PMU that user space can read")
    read, why = said.split("; ", 1)
    assert read == "trapped"
    assert "cycle" in why or "counted together" in why


@pytest.fixture(scope="module")
def ungated(tmp_path_factory):
    """Return the arm64 harness as one that times under an emulator: for its code path alone.

    What an emulator reads is no time: nothing that a figure is refused for is left in force.
    """
    folder = tmp_path_factory.mktemp("ungated")
    copy = shutil.copytree(paths.HARNESS, folder / "harness")
    for name, gate, open_ in (
        ("arm64/clock.c", "if (!emulated())", "if (emulated() || !emulated())"),
        ("common/gauge.c", "if (sound(g))", "if (1 || sound(g))"),
        ("common/series.c", "#define SAME_CLOCK 1000", "#define SAME_CLOCK 0"),
        ("common/series.c", "#define SLOW_CLOCK 1060", "#define SLOW_CLOCK 1000000"),
        ("common/series.c", "#define SHARED 1030", "#define SHARED 1000000"),
        ("common/series.h", "#define SERIES_HOT 1030", "#define SERIES_HOT 1000000"),
        ("common/series.h", "#define SERIES_COLD 1100", "#define SERIES_COLD 1000001"),
    ):
        text = (copy / name).read_text()
        assert gate in text
        (copy / name).write_text(text.replace(gate, open_))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "HARNESS", copy)
        harness.compile_to("arm64", folder / "harness-arm64")
    return folder / "harness-arm64"


def records(binary, text):
    command = [*toolchain.find("arm64").run, str(binary)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return [harness.json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.measures(loud=True)
@EMULATED
def test_the_arm64_self_test_runs_its_code_path(ungated):
    [record] = records(ungated, harness.self_test_job("a"))
    assert record["clock"] == "cntvct-calibrated"
    assert record["passed_over"].startswith("perf-rdpmc: no cycle counter (perf_event_open: ")
    # 62.5 MHz; bursts are whole periods of 32 us that a step is 0.02 % of at most.
    assert record["granularity_ticks"] * 1e6 / record["ticks_a_second"] / 2e-4 <= (
        record["burst_us"] + 1
    )
    tests = {test["name"]: test for test in record["self_test"]}
    assert list(tests)[:5] == [
        "add chain",
        "eor chain",
        "load stream",
        "taken branches",
        "nop stream",
    ]
    assert {"mul chain", "load chain", "store stream"} <= set(tests)
    for name, test in tests.items():
        # An emulator makes no code of a nop: the stream may take less than a step of its clock.
        may_stand_still = name == "nop stream" and test["refused"].startswith("the clock stands")
        if test["refused"]:
            assert may_stand_still or test["refused"].startswith(MOVED)
            assert (test["cycles"], test["held"]) == (None, 0)
        else:
            assert test["cycles"] > 0


@pytest.mark.measures(loud=True)
@EMULATED
def test_arm64_calls_are_made_hot_and_cold(ungated, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
    [copy] = kernels.select("arm64/fixture/copy_words")[1]
    points = [Point(64, 0, 0, 2048), Point(64, 3, 62, 5, cold=True)]
    text = harness.measure_job("a", assemble.user_code(copy), contract_of(copy), points, 20)
    hot, cold = records(ungated, text)
    assert (hot["cache"], cold["cache"], cold["skew"]) == ("hot", "cold", 5)
    for record in (hot, cold):
        assert record["clock"] == "cntvct-calibrated"
        if record["refused"]:
            assert record["refused"].startswith(MOVED)
            assert record["cycles"] is None
        else:
            assert record["cycles"] > 0


@EMULATED
def test_the_product_times_nothing_under_an_emulator():
    [record] = harness.run("arm64", harness.self_test_job("a"))
    assert record["clock"] == ""
    assert "emulated: no timing" in record["refused"]
    assert record["self_test"] == []
