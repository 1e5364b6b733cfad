"""doctor names the command for each setting that disturbs measurements, and for a missing PMU."""

import pytest

from loopwright import inventory
from loopwright.inventory import SETTINGS
from loopwright.machine.hosts import Facts

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


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A tree of settings, as a machine on bare metal has them."""
    root = tmp_path / "root"
    for name, held in BEFORE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(held + "\n")
    monkeypatch.setenv("LOOPWRIGHT_SYSROOT", str(root))
    return root


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
