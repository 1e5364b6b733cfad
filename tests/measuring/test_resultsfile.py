"""Files of results that were glued, cut, edited or made up: nothing in them is trusted."""

import json

import pytest
from test_store import BANNER

from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.machine import harness
from loopwright.measuring.results import import_results, results
from loopwright.measuring.store import Store

PROTOCOL = harness.protocol()
ZEN4 = {
    **BANNER,
    "identity": {**BANNER["identity"], "cpuid_00000001_0": "00a10f11 00800800 7ed8320b 178bfbff"},
    "fingerprint": "fedcba9876543210",
}


def reading(size=64, process=0, **changes):
    """A line of a kit's: 21 samples, whose 10th percentile is the third of them by size."""
    samples = [10 + size / 1000 + process / 100 + n * 8 % 21 / 20 for n in range(21)]
    ordered = sorted(samples)
    return {
        "id": "x86_64/copy_user/movsq", "object": "abc", "point": 0, "offset": 0, "count": size,
        "dst_align": 0, "src_align": 0, "skew": 2048, "cache": "hot",
        "cycles": ordered[10], "p10": ordered[2], "p90": ordered[18], "samples": samples,
        "taken": 48, "accepted": 22, "slow": 1, "slow_explained": 1.5, "slow_from": 1.1,
        "slow_to": 1.4, "two_speeds": "", "milliseconds": 20.0, "core_hz": 3000000000,
        "clock": "tsc-calibrated", "cpu": 0, "refused": "", **changes,
    }  # fmt: skip


def clock(banner=BANNER, **changes):
    test = {"name": "add chain", "cycles": 1.0, "known": 1.0, "held": 1, "refused": ""}
    return {
        "id": "clock", "fingerprint": banner["fingerprint"], "clock": "tsc-calibrated", "cpu": 0,
        "ticks_a_second": 2600000000, "refused": "", "self_test": [test], **changes,
    }  # fmt: skip


def doubled(line, *keys):
    """A reading of which these are twice what was measured."""
    twice = {key: 2 * line[key] for key in keys if key != "samples"}
    if "samples" in keys:
        twice["samples"] = [2 * sample for sample in line["samples"]]
    return {**line, **twice}


def whole(banner=BANNER, uid="a", sizes=(64, 128), protocol=PROTOCOL, readings_of=""):
    """The lines of a file that a kit would have written."""
    seed = 3 * ord((readings_of or uid)[0])
    head = {
        "loopwright_results": 1,
        "uid": uid,
        "kit": "0" * 64,
        "version": "1",
        "protocol": protocol,
    }
    lines = [head, {"id": "facts", **banner}, {"id": "plan", "points": len(sizes), "processes": 3}]
    for process in range(3):
        lines += [clock(banner), *(reading(size, seed + process) for size in sizes)]
    return [*lines, {"end": 1, "readings": 3 * len(sizes), "nothing_measured": ""}]


def write(path, lines):
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines))
    return path


def test_a_file_as_a_kit_writes_it_is_whole(tmp_path):
    [row] = import_results([write(tmp_path / "a", whole())]).to_dict("records")
    assert (row["new"], row["there"], row["missing"], row["damaged"]) == (6, 0, 0, 0)
    assert (row["microarch"], row["note"]) == ("zen2", "")


def test_a_file_behind_itself_is_there_already(tmp_path):
    first, again = import_results([write(tmp_path / "a", whole() + whole())]).to_dict("records")
    assert (first["new"], again["new"], again["there"]) == (6, 0, 6)
    assert "the file holds several runs; this is number 2" in again["note"]
    [run] = Store.open().runs()
    assert len(list(Store.open().records(run))) == 6


def test_files_behind_each_other_stay_apart(tmp_path):
    glued = write(tmp_path / "a", whole() + whole(ZEN4, "b"))
    rows = import_results([glued]).to_dict("records")
    assert [(r["microarch"], r["new"]) for r in rows] == [("zen2", 6), ("zen4", 6)]
    machines = {run.uid: run.machine for run in Store.open().runs()}
    assert machines == {"a": BANNER["fingerprint"], "b": ZEN4["fingerprint"]}


def test_a_head_alone_before_another_file_names_its_machine_for_nothing(tmp_path):
    glued = write(tmp_path / "a", whole()[:2] + whole(ZEN4, "b"))
    rows = import_results([glued]).to_dict("records")
    assert [(r["microarch"], r["new"]) for r in rows] == [("zen2", 0), ("zen4", 6)]


@pytest.mark.parametrize("cut", [2, 3, 6])
def test_readings_of_another_machine_under_a_head_refuse_the_file(tmp_path, cut):
    mixed = write(tmp_path / "a", whole()[:2] + whole(ZEN4, "b")[cut:])
    with pytest.raises(InputError, match="two machines under one head"):
        import_results([write(tmp_path / "good", whole(uid="c")), mixed])
    assert Store.open().runs() == []


def test_readings_behind_an_end_are_nobody_s(tmp_path):
    path = write(tmp_path / "a", [*whole(), reading(256), reading(512)])
    [row] = import_results([path]).to_dict("records")
    assert (row["new"], row["damaged"]) == (6, 2)
    # A run that was gone on with plans anew, and has processes of its own.
    path = write(tmp_path / "b", [*whole(uid="b"), whole()[2], clock(), reading(256),
                                  {"end": 1, "readings": 7, "nothing_measured": ""}])  # fmt: skip
    [row] = import_results([path]).to_dict("records")
    assert (row["new"], row["damaged"], row["missing"]) == (7, 0, 0)


def test_more_than_a_run_declares_is_said(tmp_path):
    lines = whole()
    lines.insert(5, reading(256))
    [row] = import_results([write(tmp_path / "a", lines)]).to_dict("records")
    assert "1 readings more than it declares" in row["note"]


HOSTILE = {
    "a count beyond all": reading(count=10**30),
    "a count below nothing": reading(count=-1),
    "a count that is none": reading(count=True),
    "cycles beyond all": reading(256, cycles=10**400),
    "cycles below nothing": reading(256, cycles=-10.5),
    "no cycles": reading(256, cycles=0.0),
    "cycles of other samples": reading(256, cycles=10.8),
    "cycles outside their percentiles": reading(256, p10=10.9),
    "a figure doubled": doubled(reading(256), "cycles"),
    "a figure and its samples doubled": doubled(reading(256), "cycles", "samples"),
    "a percentile doubled": doubled(reading(256), "p90"),
    "all percentiles doubled": doubled(reading(256), "cycles", "p10", "p90"),
    "samples of no time": reading(256, cycles=0.001, p10=0.001, p90=0.001, samples=[0.001] * 21),
    "one sample of no time": reading(256, samples=[0.001, *reading(256)["samples"][1:]]),
    "4096 bytes in eight cycles": reading(4096, cycles=7.9, p10=7.9, p90=7.9, samples=[7.9] * 21),
    "another clock than its process": reading(256, clock="perf-rdpmc", core_hz=0),
    "another CPU than its process": reading(256, cpu=1),
    "a CPU below nothing": reading(256, cpu=-5),
    "a core of 1 Hz": reading(256, core_hz=1),
    "a core without a clock": reading(256, core_hz=0),
    "the samples of another process": reading(64, 292, count=256, milliseconds=21.0),
    "a point that its process has": reading(128, 2, milliseconds=21.0),
    "samples fewer than accepted": reading(256, accepted=40),
    "more accepted than taken": reading(256, taken=21),
    "slow samples between no bounds": reading(256, slow_from=1.5),
    "a time beyond all": reading(256, milliseconds=1e300),
    "a time below nothing": reading(256, milliseconds=-1),
    "no samples": reading(256, samples=[]),
    "samples that are none": reading(256, samples=[10.0, None, 11.0]),
    "a sample below nothing": reading(256, samples=[-10.5, 10.5, 11.0]),
    "samples of text": reading(256, samples="10.5"),
    "an alignment of no page": reading(256, dst_align=4096),
    "an offset of no line": reading(256, offset=64),
    "a skew of no page": reading(256, skew=-3),
    "another cache": reading(256, cache="warm"),
    "more slow than accepted": reading(256, slow=41),
    "no text for a reason": reading(256, refused=None),
    "a variant of no family": reading(256, id="movsq"),
    "half a character": json.dumps(reading(256, id="x86_64/copy_user/\ud800")),
    "half a character in a key": json.dumps({**reading(256), "\udfff": 1}),
    "brackets": "[" * 100_000,
    "brackets in an object": '{"id": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "objects in each other": '{"a":' * 5000 + "1" + "}" * 5000,
    "a long number": '{"id": "x", "count": ' + "9" * 5000 + "}",
    "a number of infinite size": json.dumps(reading(256)).replace("2048", "Infinity"),
    "no number": json.dumps(reading(256)).replace("2048", "NaN"),
    "a long line": json.dumps(reading(256, clock="x" * (1 << 20))),
    "no object": "[1, 2]",
    "half a line": json.dumps(reading(256))[:50],
    "nothing": "",
    "NUL": "\0",
    "an end of text": {"end": 1, "readings": "6", "nothing_measured": ""},
    "an end beyond all": {"end": 1, "readings": 10**30, "nothing_measured": ""},
    "a plan below nothing": {"id": "plan", "points": -2, "processes": 3},
    "a self-test of numbers": clock(self_test=[1, 2]),
    "a self-test below nothing": clock(self_test=[{"name": "add chain", "cycles": -1.0}]),
    "a self-test of text": clock(self_test="held"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_line_that_cannot_be_is_left_out(tmp_path, kind, capsys):
    lines = whole()
    lines.insert(-1, HOSTILE[kind])
    assert run_cli(["import", str(write(tmp_path / "a", lines)), "--json"]) == 1
    [row] = json.loads(capsys.readouterr().out)
    assert (row["new"], row["damaged"]) == (6, 1)
    assert "1 lines are damaged and left out" in row["note"]
    # What is there can be listed, and is nothing else.
    assert results()["records"].sum() == 6


BANNERS = {
    "no machine": {},
    "a time beyond all": {**BANNER, "time": 10**30},
    "a time below nothing": {**BANNER, "time": -1},
    "a time of text": {**BANNER, "time": "now"},
    "a CPU of text": {**BANNER, "cpu": "0"},
    "another ISA": {**BANNER, "isa": ["x86_64"]},
    "registers of text": {**BANNER, "identity": {"cpuid_00000001_0": "none of these"}},
    "two registers": {**BANNER, "identity": {"cpuid_00000001_0": "00830f10 00800800"}},
    "registers that are none": {**BANNER, "identity": {"cpuid_00000001_0": 8}},
    "registers of 40 bits": {
        **BANNER, "identity": {"cpuid_00000000_0": "10 ffffffffff 444d4163 69746e65"}
    },
    "no registers": {**BANNER, "identity": None},
    "files that are none": {**BANNER, "files": ["/proc/cpuinfo"]},
    "a file of numbers": {**BANNER, "files": {"/proc/cpuinfo": 5}},
    "half a character": {**BANNER, "files": {"/proc/cpuinfo": "model name: \ud800"}},
    "a CPU below nothing": {**BANNER, "cpu": -5},
    "a fingerprint of words": {**BANNER, "fingerprint": "another machine's"},
    "no fingerprint": {**BANNER, "fingerprint": ""},
    "a fingerprint of numbers": {**BANNER, "fingerprint": 7},
}  # fmt: skip


@pytest.mark.parametrize("kind", BANNERS)
def test_a_machine_that_cannot_be_refuses_the_file(tmp_path, kind, capsys):
    path = write(tmp_path / "a", [whole()[0], {"id": "facts", **BANNERS[kind]}, *whole()[2:]])
    assert run_cli(["import", str(path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert said.count("\n") == 1
    assert Store.open().runs() == []


@pytest.mark.parametrize(
    "head",
    [
        {"loopwright_results": 1},
        {**whole()[0], "uid": "\ud800"},
        {**whole()[0], "uid": ""},
        {**whole()[0], "protocol": 10**30},
        {**whole()[0], "protocol": "6"},
        {**whole()[0], "loopwright_results": 10**400},
        {**whole()[0], "loopwright_results": 2},
        {**whole()[0], "kit": 5},
    ],
)
def test_a_head_that_cannot_be_refuses_the_file(tmp_path, head, capsys):
    path = write(tmp_path / "a", [head, *whole()[1:]])
    assert run_cli(["import", str(path)]) == 2
    said = capsys.readouterr().err
    assert str(path) in said
    assert said.count("\n") == 1


def test_a_second_head_that_cannot_be_refuses_the_file(tmp_path):
    path = write(tmp_path / "a", [*whole(), whole(uid="b")[0]])
    with pytest.raises(InputError, match="run 2, ends before it says"):
        import_results([path])
    assert Store.open().runs() == []


CLOCKS = {
    "a counter that ticks by time": {"clock": "perf-rdpmc"},
    "a timer that does not tick": {"ticks_a_second": 0},
    "no clock": {"clock": None},
    "a CPU below nothing": {"cpu": -5},
}


@pytest.mark.parametrize("kind", CLOCKS)
def test_a_process_whose_clock_cannot_be_gives_nothing(tmp_path, kind):
    lines = [{**x, **CLOCKS[kind]} if x.get("id") == "clock" else x for x in whole()]
    lines = [{**x, **CLOCKS[kind]} if "samples" in x and "clock" in CLOCKS[kind] else x
             for x in lines]  # fmt: skip
    [row] = import_results([write(tmp_path / "a", lines)]).to_dict("records")
    assert (row["new"], row["damaged"]) == (0, 9)


def test_a_clock_renamed_everywhere_has_a_core_clock_that_a_counter_has_not(tmp_path):
    change = {"clock": "perf-rdpmc", "ticks_a_second": 0}
    lines = [{**x, **change} if "clock" in x else x for x in whole()]
    [row] = import_results([write(tmp_path / "a", lines)]).to_dict("records")
    assert (row["new"], row["damaged"]) == (0, 6)


def test_readings_under_another_name_are_there_already(tmp_path):
    import_results([write(tmp_path / "a", whole())])
    longer = whole(uid="b", readings_of="a", sizes=(64, 128, 256))
    [row] = import_results([write(tmp_path / "b", longer)]).to_dict("records")
    assert (row["new"], row["there"], row["damaged"]) == (3, 6, 0)
    assert "in the store already, as run a, are left out" in row["note"]
    other = {**BANNER, "fingerprint": "00000000000000aa"}
    renamed = write(tmp_path / "c", whole(other, "c", readings_of="a"))
    [row] = import_results([renamed]).to_dict("records")
    assert (row["new"], row["there"]) == (0, 6)


def test_a_run_that_comes_again_with_other_readings_is_contradicted(tmp_path, capsys):
    import_results([write(tmp_path / "a", whole())])
    keys = ("cycles", "p10", "p90", "samples")
    again = [doubled(x, *keys) if "samples" in x else x for x in whole()]
    assert run_cli(["import", str(write(tmp_path / "b", again))]) == 1
    assert "6 readings contradict what the store has of this run" in capsys.readouterr().out
    assert results()["records"].sum() == 6


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (whole(ZEN4, "a"), "of another machine, time or protocol"),
        (whole({**BANNER, "time": BANNER["time"] + 1}, "a"), "of another machine, time or"),
        (whole({**ZEN4, "fingerprint": BANNER["fingerprint"]}, "b"), "belongs to another machine"),
    ],
)
def test_a_head_that_contradicts_the_store_refuses_the_file(tmp_path, lines, said, capsys):
    import_results([write(tmp_path / "a", whole())])
    assert run_cli(["import", str(write(tmp_path / "b", lines))]) == 2
    assert said in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert results()["records"].sum() == 6


def test_a_run_by_an_earlier_protocol_is_listed_and_said_to_be(tmp_path):
    earlier = 5  # whose processes did not yet name the machine
    lines = whole(protocol=earlier)
    for line in lines:
        for key in (
            ("fingerprint",) if line.get("id") == "clock" else ("accepted", "slow", "two_speeds")
        ):
            line.pop(key, None)
    [row] = import_results([write(tmp_path / "a", lines)]).to_dict("records")
    assert (row["new"], row["damaged"]) == (6, 0)
    assert f"protocol {earlier}, which is not today's" in row["note"]
