"""Kits with trials, and the files of answers that they write on simulated machines."""

import json
import shutil
import subprocess

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
    """Return an unpacked kit with the trials of a first round for the KNOWN cores."""

    def make(folder):
        models = folder / "models"
        models.mkdir()
        for name in [*KNOWN, "sources.toml", "form_usage.csv"]:
            (models / name).symlink_to(paths.models_root() / name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOOPWRIGHT_MODELS", str(models))
            unpacked(folder, calibrate=True, mnemonics=MNEMONICS)

    return once(factory, "kit-of-trials", make) / "loopwright-kit"


def unpacked(folder, **options):
    """Pack a kit in a folder, unpack it there, and return its folder."""
    lw.kit(folder / "kit.tar.gz", **options)
    shutil.unpack_archive(folder / "kit.tar.gz", folder)
    return folder / "loopwright-kit"


def run(kit, *options, **overrides):
    """Run a kit with a PATH of system tools alone; overrides are arguments of subprocess.run."""
    command = ["sh", "./run", *options]
    settings = {"capture_output": True, "text": True, "check": False, **overrides}
    return subprocess.run(command, cwd=kit, env={"PATH": "/usr/bin:/bin"}, **settings)


def trials(path):
    """Return the trials of a kit's file of jobs by their ids."""
    trials_by_id, job = {}, {}
    for line in path.read_text().splitlines():
        word, _, value = line.partition(" ")
        if word == "job":
            job = {"kind": value}
        elif word == "end" and job["kind"] == "block":
            notion = "loop" if "counter" in job else "unrolled"
            code, offset = bytes.fromhex(job["code"]), int(job["offset"])
            candidates = (Trial(code, notion, offset, look=look) for look in range(3))
            trials_by_id[job["id"]] = next(
                trial for trial in candidates if job["id"].endswith(trial.key)
            )
        else:
            job[word] = value
    return trials_by_id


def answered(jobs, target, core):
    """Write a kit's file of answers to jobs as a machine with a simulated core gives them."""
    trials_by_id = trials(jobs)
    machine = Simulated(core, noise=0.003)
    asked = list(trials_by_id.values())
    timings = machine.measure(asked)
    for _ in range(3):
        transient = [n for n, timing in enumerate(timings) if timing.transient]
        repeated = machine.measure([asked[n] for n in transient])
        for n, timing in zip(transient, repeated, strict=True):
            timings[n] = timing
    arm64 = machine.isa == "arm64"
    cpu_field, flags_field = ("CPU part", "Features") if arm64 else ("vendor_id", "flags")
    cpu = f"{cpu_field}\t: 0xd0c\n{flags_field}\t: {' '.join(sorted(machine.features))}\n"
    banner = {**BANNER, "isa": machine.isa, "files": {"/proc/cpuinfo": cpu}}
    if arm64:
        banner["identity"] = {"midr_el1": "00000000413fd0c1"}
    lines = [
        {"loopwright_results": 1, "uid": "1", "calibration": 1, "kit": "k", "version": "0"},
        {"id": "facts", **banner},
        {"id": "plan", "points": len(trials_by_id), "processes": 1},
        {
            "id": "clock", "fingerprint": banner["fingerprint"], "clock": "tsc-calibrated",
            "cpu": 0, "ticks_a_second": 2_600_000_000, "refused": "",
        },
    ]  # fmt: skip
    for name, timing in zip(trials_by_id, timings, strict=True):
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
