"""Kits with trials, and what they leave behind on machines with cores of the simulator."""

import json
import subprocess
import tarfile

import pytest
from once import once
from test_store import BANNER

import loopwright as lw
from loopwright import paths
from loopwright.microbench.oracle import Simulated, Trial

MNEMONICS = ["add", "imul", "paddd", "mulps", "pshufd", "fadd", "madd", "eor", "aese", "fmov"]

# Cores whose microbenchmarks a first round has: those that tests learn.
KNOWN = ["neoverse-n1", "skylake", "zen2"]


def first_round(factory):
    """Return an unpacked kit with the trials of a first round, by what KNOWN cores would ask."""

    def make(folder):
        models = folder / "models"
        models.mkdir()
        for name in [*KNOWN, "sources.toml", "form_usage.csv"]:
            (models / name).symlink_to(paths.models_root() / name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOOPWRIGHT_MODELS", str(models))
            unpacked(folder, calibrate=True, mnemonics=MNEMONICS)

    return once(factory, "kit-of-trials", make) / "loopwright-kit"


def unpacked(folder, **asked):
    """Return a kit that was packed in a folder, unpacked there."""
    lw.kit(folder / "kit.tar.gz", **asked)
    with tarfile.open(folder / "kit.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "loopwright-kit"


def run(kit, *options, **more):
    """Run a kit where nothing but the shell's own tools is on the path."""
    command = ["sh", "./run", *options]
    settings = {"capture_output": True, "text": True, "check": False, **more}
    return subprocess.run(command, cwd=kit, env={"PATH": "/usr/bin:/bin"}, **settings)


def trials(path):
    """Return the trials of a kit's jobs by their ids, and where each is repeated."""
    out, job = {}, {}
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "job":
            job = {"kind": rest}
        elif word == "end" and job["kind"] == "block":
            notion = "loop" if "counter" in job else "unrolled"
            code, offset = bytes.fromhex(job["code"]), int(job["offset"])
            looks = (Trial(code, notion, offset, look=look) for look in range(3))
            out[job["id"]] = next(one for one in looks if job["id"].endswith(one.key))
        else:
            job[word] = rest
    return out


def answered(jobs, target, core):
    """Write the file that a kit leaves behind on a machine with a core of the simulator."""
    asked = trials(jobs)
    machine = Simulated(core, noise=0.003)
    timings = machine.measure(list(asked.values()))
    for _ in range(3):
        again = [n for n, timing in enumerate(timings) if timing.transient]
        for n, timing in zip(
            again, machine.measure([list(asked.values())[n] for n in again]), strict=True
        ):
            timings[n] = timing
    own, key = ("CPU part", "Features") if machine.isa == "arm64" else ("vendor_id", "flags")
    cpu = f"{own}\t: 0xd0c\n{key}\t: {' '.join(sorted(machine.features))}\n"
    banner = {**BANNER, "isa": machine.isa, "files": {"/proc/cpuinfo": cpu}}
    if machine.isa == "arm64":
        banner["identity"] = {"midr_el1": "00000000413fd0c1"}
    lines = [
        {"loopwright_results": 1, "uid": "1", "calibration": 1, "kit": "k", "version": "0"},
        {"id": "facts", **banner},
        {"id": "plan", "points": len(asked), "processes": 1},
        {
            "id": "clock", "fingerprint": banner["fingerprint"], "clock": "tsc-calibrated",
            "cpu": 0, "ticks_a_second": 2_600_000_000, "refused": "",
        },
    ]  # fmt: skip
    for name, timing in zip(asked, timings, strict=True):
        refused = timing.refused
        cycles = None if refused else timing.cycles
        lines.append(
            {
                "id": name, "cycles": cycles, "p10": cycles, "p90": cycles, "samples": 24,
                "taken": 48, "accepted": 24, "slow": 0, "slow_from": 0, "slow_to": 0, "short": 1000,
                "long": 2000, "two_speeds": "", "clock": "tsc-calibrated", "cpu": 0,
                "core_hz": 3_700_000_000, "misaligned": 0,
                "shared": 0, "disturbed": int(timing.transient), "stopped": 0, "refused": refused,
            }
        )  # fmt: skip
    readings = len(lines) - 4
    lines.append({"end": 1, "readings": readings, "nothing_measured": ""})
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target
