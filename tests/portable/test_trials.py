"""A kit's `./run --calibrate`: killed, resumed, without trials, emulated."""

import json
import shutil
import signal
import subprocess
import time
from collections import Counter

import pytest
from calibration_kits import first_round, run, trials

import loopwright as lw
from loopwright import toolchain
from loopwright.errors import InputError

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="measures x86-64 code")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A kit with the trials of a first round, unpacked."""
    return first_round(tmp_path_factory)


@pytest.fixture(autouse=True)
def _data(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_a_kit_without_trials_says_how_to_pack_them(packed, tmp_path):
    kit = changed(packed, tmp_path, None)
    done = run(kit, "--calibrate")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "loopwright kit --calibrate" in done.stderr


def changed(packed, folder, text):
    """Return a kit with other trials for x86-64, or with none at all."""
    kit = folder / "kit"
    shutil.copytree(packed, kit)
    for path in (kit / "jobs").glob("*.trials"):
        path.unlink()
    sums = (kit / "SHA256SUMS").read_text().splitlines(keepends=True)
    (kit / "SHA256SUMS").write_text("".join(s for s in sums if ".trials" not in s))
    if text:
        (kit / "jobs" / "x86_64.trials").write_text(text)
    return kit


def within(seconds, kit, *options):
    """Run a kit for so long at most; return whether it ended by itself and all is answered.

    It goes on for half a minute where a trial is disturbed each time.
    """
    try:
        return not run(kit, *options, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return False


def cut(packed, tmp_path, count):
    """Return a copy of a kit with its first so many trials alone."""
    jobs = (packed / "jobs" / "x86_64.trials").read_text().split("job ")
    return changed(packed, tmp_path, "job ".join(jobs[: 1 + count]))


def readings(path):
    lines = path.read_text().splitlines()
    return [one for one in map(json.loads, lines) if "/" in str(one.get("id", ""))]


@pytest.mark.measures
@X86_ONLY
def test_a_killed_run_goes_on_where_it_was(packed, tmp_path):
    kit = cut(packed, tmp_path, 121)
    path = kit / "results.jsonl"
    with subprocess.Popen(
        ["sh", "./run", "--calibrate", "-o", path.name],
        cwd=kit,
        env={"PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if path.exists() and len(path.read_text().splitlines()) > 60:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    time.sleep(1)
    written = readings(path)
    before = {one["id"] for one in written if not one["disturbed"]}
    if len(before) < 20:
        pytest.skip("the machine was too busy to answer trials")
    with path.open("a") as file:
        file.write('{"id": "throughput/12')  # killed while it wrote
    try:
        done = run(kit, "--calibrate", "--resume", path.name, timeout=25)
    except subprocess.TimeoutExpired:
        done = None
    every = readings(path)
    assert every[: len(written)] == written
    assert not before & {one["id"] for one in every[len(written) :]}
    if not done:
        pytest.skip("the machine was too busy to answer trials in time")
    assert done.returncode == 0, done.stderr
    assert "learning " in done.stderr
    asked = trials(kit / "jobs" / "x86_64.trials")
    assert {one["id"] for one in every} <= asked.keys()
    refused = run(kit, "--resume", path.name)
    assert refused.returncode == 2
    assert "it holds a calibration" in refused.stderr
    # Some code has no one speed, however quiet the machine is: that is its answer in the end.
    unsteady = Counter(one["id"] for one in every if one["unsteady"])
    answered = {one["id"] for one in every if not one["disturbed"]}
    answered |= {name for name, count in unsteady.items() if count >= 8}
    assert f"{len(answered)} of {len(asked)} trials are answered" in done.stderr
    assert ("try --resume" in done.stderr) == (answered != asked.keys())
    (brought,) = lw.import_calibration(path).to_dict("records")
    assert brought["new"] == len(answered)
    if answered == before:
        pytest.skip("the machine was too busy to answer further trials")


@pytest.mark.measures
@X86_ONLY
def test_a_trial_of_no_one_speed_is_asked_no_more_after_eight_tries(packed, tmp_path):
    kit = cut(packed, tmp_path, 3)
    path = kit / "results.jsonl"
    if not within(10, kit, "--calibrate", "-o", path.name):
        pytest.skip("the machine was too busy to answer trials")
    lines = path.read_text().splitlines(keepends=True)
    one = readings(path)[0]
    figures = dict.fromkeys(("cycles", "p10", "p90"))
    said = {"disturbed": 1, "unsteady": 1, "refused": "of no one speed: 1 of 40 samples"}
    unsteady = json.dumps({**one, **figures, **said}) + "\n"
    rest = [x for x in lines if f'"{one["id"]}"' not in x and '"end"' not in x]
    for tries, asked in ((8, False), (7, True)):
        path.write_text("".join([*rest, *[unsteady] * tries]))
        ended = within(10, kit, "--calibrate", "--resume", path.name)
        more = [two for two in readings(path) if two["id"] == one["id"]][tries:]
        if not ended and not more:
            pytest.skip("the machine was too busy to try a trial")
        assert bool(more) == asked
    for tries, new in ((7, 0), (8, 1)):
        path.write_text("".join([*rest, *[unsteady] * tries]))
        end = {**json.loads(lines[-1]), "readings": len(readings(path))}
        path.write_text(path.read_text() + json.dumps(end) + "\n")
        (brought,) = lw.import_calibration(path).to_dict("records")
        answers = [two for two in readings(path) if not two["disturbed"]]
        assert brought["new"] == (0 if tries == 8 else len(answers)) + new


@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
@pytest.mark.skipif(toolchain.host_isa() == "arm64", reason="arm64 is not emulated here")
def test_an_emulated_machine_answers_nothing(packed, tmp_path):
    path = tmp_path / "arm.jsonl"
    jobs = packed / "jobs" / "arm64.trials"
    program = ["qemu-aarch64", packed / "bin" / "harness-arm64", "kit", jobs, "HASH", "0.1.0"]
    command = [*program, "--calibrate", "-o", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "emulated: no timing" in done.stderr
    with pytest.raises(InputError, match=r"nothing was measured there: .*emulated"):
        lw.import_calibration(path)
