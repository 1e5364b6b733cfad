"""Settings are put back, however a command ends; doctor says what would help."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from loopwright import inventory
from loopwright.cli import run as run_cli
from loopwright.errors import InputError
from loopwright.machine.hosts import Facts
from loopwright.machine.settings import SETTINGS, journal, run

MAIN = "from loopwright.cli import main; main()"
CPUS = "sys/devices/system/cpu"
BEFORE = {
    "proc/sys/kernel/perf_event_paranoid": "4",
    "proc/sys/kernel/nmi_watchdog": "1",
    "sys/bus/event_source/devices/cpu/rdpmc": "1",
    f"{CPUS}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{CPUS}/cpu1/cpufreq/scaling_governor": "schedutil",
    f"{CPUS}/cpufreq/boost": "1",
    f"{CPUS}/smt/control": "on",
}
TUNED = {
    **dict.fromkeys(BEFORE, "0"),
    "proc/sys/kernel/perf_event_paranoid": "2",
    "sys/bus/event_source/devices/cpu/rdpmc": "1",
    f"{CPUS}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPUS}/cpu1/cpufreq/scaling_governor": "performance",
    f"{CPUS}/smt/control": "off",
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A tree of settings, as a machine on bare metal has them."""
    root = tmp_path / "root"
    for name, held in BEFORE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(held + "\n")
    monkeypatch.setenv("LOOPWRIGHT_SYSROOT", str(root))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return root


def held(root):
    return {name: (root / name).read_text().strip() for name in BEFORE}


def begin(root, seconds=60):
    """Start a command that sleeps; returns when everything is set."""
    command = [sys.executable, "-c", MAIN, "tune", "--", "sleep", str(seconds)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while held(root) != TUNED and process.poll() is None:
        time.sleep(0.02)
    assert held(root) == TUNED
    return process


def test_a_command_runs_with_everything_set_and_leaves_it_as_it_was(root, tmp_path):
    seen = tmp_path / "seen"
    files = " ".join(str(root / name) for name in BEFORE)
    assert run_cli(["tune", "--", "sh", "-c", f"cat {files} >{seen}; exit 7"]) == 7
    assert seen.read_text().split() == list(TUNED.values())
    assert held(root) == BEFORE
    assert journal() is None


def test_without_a_command_it_shows_and_changes_nothing(root, capsys):
    assert run_cli(["tune", "--json"]) == 0
    rows = {row["file"]: row for row in json.loads(capsys.readouterr().out)}
    assert held(root) == BEFORE
    assert {file for file, row in rows.items() if row["state"] == "would change"} == {
        str(root / name) for name in BEFORE if BEFORE[name] != TUNED[name]
    }
    governor = rows[str(root / CPUS / "cpu0/cpufreq/scaling_governor")]
    assert governor["by_hand"].startswith("echo performance | sudo tee /sys/devices/system/cpu/")


def test_settings_to_keep_are_left_alone(root, tmp_path):
    seen = tmp_path / "seen"
    smt = root / CPUS / "smt/control"
    assert run_cli(["tune", "--keep", "smt,boost", "--", "sh", "-c", f"cat {smt} >{seen}"]) == 0
    assert seen.read_text() == "on\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_puts_everything_back(root, number):
    process = begin(root, seconds=10 if number == signal.SIGINT else 60)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert held(root) == BEFORE
    assert journal() is None


def test_a_killed_process_leaves_a_way_back(root, capsys):
    process = begin(root, seconds=2)
    # While it runs, neither another nor a restore may interfere.
    assert run_cli(["tune", "--", "true"]) == 2
    assert run_cli(["tune", "--restore"]) == 2
    assert f"process {process.pid}" in capsys.readouterr().err
    process.kill()
    process.communicate()
    assert held(root) == TUNED
    [row] = [r for r in inventory.readiness_rows() if r["part"] == "settings left changed"]
    assert (row["state"], "tune --restore" in row["fix"]) == ("limited", True)
    assert run_cli(["tune", "--", "true"]) == 2
    assert "tune --restore" in capsys.readouterr().err
    assert run_cli(["tune", "--restore"]) == 0
    assert held(root) == BEFORE
    assert run_cli(["tune", "--restore"]) == 0
    assert "nothing to put back" in capsys.readouterr().out


def test_after_a_boot_there_is_nothing_to_put_back(root, tmp_path, capsys):
    process = begin(root, seconds=1)
    process.kill()
    process.communicate()
    path = tmp_path / "state" / "loopwright" / "tune.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
    assert run_cli(["tune", "--restore"]) == 0
    assert "booted since" in capsys.readouterr().out
    assert held(root) == TUNED
    assert not path.exists()


def test_what_cannot_be_set_is_said(root, capfd):
    boost = root / CPUS / "cpufreq/boost"
    boost.unlink()
    boost.symlink_to("/proc/version")  # which nobody may write
    assert run_cli(["tune", "--", "true"]) == 0
    assert f"{boost} cannot be set to 0" in capfd.readouterr().err
    assert journal() is None


@pytest.mark.usefixtures("root")
def test_wrong_input_is_named(monkeypatch, tmp_path, capsys):
    for arguments, said in (
        (["--keep", "frob", "--", "true"], "unknown setting 'frob'"),
        (["--", "no-such-command"], "no command 'no-such-command'"),
    ):
        assert run_cli(["tune", *arguments]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert run_cli(["tune", "--", "true"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_without_root_it_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("LOOPWRIGHT_SYSROOT", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="are root's: sudo"):
        run(["true"])


def test_doctor_names_the_command_for_each_lack(root):
    facts = Facts.live(root)
    rows = {s.name: inventory.setting_row(s, facts) for s in SETTINGS}
    assert rows["paranoid"]["fix"].startswith("sudo sysctl kernel.perf_event_paranoid=2")
    assert rows["governor"]["detail"].startswith("powersave, schedutil")
    assert (rows["rdpmc"]["state"], rows["smt"]["state"]) == ("ok", "limited")
    assert rows["turbo"]["detail"].startswith("not visible")


@pytest.mark.parametrize(
    ("why", "flags", "isa", "fix"),
    [
        ("no cycle counter (ENOENT): no PMU here", "hypervisor", "x86_64", "pmu=on"),
        ("no cycle counter (ENOENT): no PMU here", "", "x86_64", "firmware"),
        ("perf_event_open: Permission denied", "", "x86_64", "perf_event_paranoid=2"),
        ("user space may not read the cycle counter", "", "x86_64", "devices/cpu/rdpmc"),
        ("user space may not read the cycle counter", "", "arm64", "perf_user_access=1"),
        ("perf_event_open: Function not implemented", "", "arm64", "emulator"),
    ],
)
def test_why_there_is_no_pmu_says_what_to_do(why, flags, isa, fix):
    info = f"vendor_id : AuthenticAMD\nCPU part : 0xd0c\nflags : {flags}\n"
    facts = Facts(isa, 0, {}, {"/proc/cpuinfo": info}.get)
    found = {
        "clock": "tsc-calibrated",
        "clock_refused": "",
        "pmu": False,
        "pmu_refused": why,
        "clock_granularity_ticks": 26,
        "clock_ticks_a_second": 2.6e9,
        "burst_us": 64,
    }
    row = inventory.clock_row(found, facts)
    assert row["state"] == "limited"
    assert fix in row["fix"]
    assert "steps of 10 ns" in row["detail"]
    refused = inventory.clock_row({**found, "clock_refused": "noise"}, facts)
    assert refused["detail"].startswith("nothing is measured: noise")
