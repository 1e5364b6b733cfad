"""A machine is recognised by what it says of itself, here or in a banner from elsewhere."""

import json
from types import SimpleNamespace

import pytest

from loopwright import microarchs, toolchain
from loopwright.machine import harness, hosts
from loopwright.machine.hosts import FACT_FILES, Facts, recognise


def x86(vendor="AuthenticAMD", family=23, model=0x31, flags="", **files):
    """Return an x86-64 machine of which only /proc/cpuinfo is known."""
    info = {"vendor_id": vendor, "cpu family": family, "model": model, "flags": flags}
    text = "".join(f"{key}\t: {value}\n" for key, value in info.items())
    return Facts("x86_64", 0, {}, ({"/proc/cpuinfo": text} | files).get)


def leaf(*registers):
    return " ".join(f"{r:08x}" for r in registers)


# Family 17h model 31h: what CPUID says of an EPYC 7002 (AMD PPR 55803), without a kernel's help.
ROME = {
    "cpuid_00000000_0": "00000010 68747541 444d4163 69746e65",
    "cpuid_00000001_0": "00830f10 00800800 7ed8320b 178bfbff",
    "cpuid_00000007_0": "00000000 219c91a9 00400004 00000000",
}


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "core"),
    [
        ("AuthenticAMD", 23, 0x31, "erms_not", "zen2"),
        ("AuthenticAMD", 25, 17, "fsrm erms", "zen4"),
        ("GenuineIntel", 6, 0x2D, "", "sandybridge"),
        ("GenuineIntel", 6, 167, "amx_fp16 erms", "redwoodcove"),
        ("GenuineIntel", 6, 0xCF, "amx_tile erms", "goldencove"),
        ("GenuineIntel", 6, 0x8F, "", "goldencove"),
        ("GenuineIntel", 6, 0xCF, "amx_fp16", "redwoodcove"),
        ("GenuineIntel", 6, 0x97, "", None),  # Alder Lake: its E-cores say the same
        ("GenuineIntel", 6, 0x9E, "", "skylake"),
        ("AuthenticAMD", 6, 0x2D, "", None),
        ("AuthenticAMD", 23, 0x01, "", "zen1"),
        ("GenuineIntel", 6, 0x4F, "", "broadwell"),
        ("GenuineIntel", 6, 0x6A, "avx512f", "icelake"),
        ("HygonGenuine", 24, 0, "amx_fp16", None),
    ],
)
def test_core_by_features_then_family_and_model(vendor, family, model, flags, core):
    assert recognise(x86(vendor, family, model, flags)).core == core


def test_core_by_cpuid_alone():
    facts = Facts("x86_64", 0, ROME, {}.get)
    assert (facts.vendor, facts.family, facts.model) == ("AuthenticAMD", 23, 0x31)
    assert recognise(facts) == recognise(x86(flags="adx smap bmi2 avx2"))
    assert recognise(facts).core == "zen2"
    assert {"adx", "smap", "bmi2", "avx2"} <= facts.features
    assert not facts.guest


def test_a_model_that_the_features_contradict_is_said():
    odd = recognise(x86("GenuineIntel", 6, 167, "amx_fp16"))
    assert odd.core == "redwoodcove"
    assert "family 6 model 167 is not redwoodcove's" in odd.doubt
    size = "/sys/devices/system/cpu/cpu0/cache/index1/"
    caches = {size + "level": "1", size + "type": "Instruction", size + "size": "64K"}
    hidden = recognise(x86("GenuineIntel", 6, 167, "amx_tile", **caches))
    assert hidden.core == "redwoodcove"
    assert "by its features (amx_tile, L1i 64K)" in hidden.doubt
    small = caches | {size + "size": "32K"}
    assert recognise(x86("GenuineIntel", 6, 167, "amx_tile", **small)).core is None
    # A mask can hide features of a core, and cannot give it others.
    assert recognise(x86(flags="adx bmi2 avx2")).doubt == (
        "zen2 has smap, which this machine does not show"
    )
    other = recognise(x86(flags="adx bmi2 avx2 smap fsrm"))
    assert other.core is None
    assert other.doubt == "family 23 model 49 is zen2's, but that core has no fsrm"


@pytest.mark.parametrize(
    ("implementer", "part", "core"),
    [
        ("0x41", "0xd0c", "neoverse-n1"),
        ("0x41", "0xd40", "neoverse-v1"),
        ("0x41", "0xd4f", "neoverse-v2"),
        ("0x41", "0xd49", "neoverse-n2"),
        ("0x48", "0xd01", "tsv110"),
        ("0x61", "0x023", "firestorm"),
        ("0x61", "0x022", None),  # the E-cores of the same chip
        ("0x41", "0xd01", None),
    ],
)
def test_arm64_core_by_implementer_and_part(implementer, part, core):
    text = f"CPU implementer : {implementer}\nCPU part : {part}\n"
    assert recognise(Facts("arm64", 0, {}, {"/proc/cpuinfo": text}.get)).core == core
    midr = int(implementer, 0) << 24 | int(part, 0) << 4 | 1
    # An emulator leaves the host's /proc/cpuinfo: the register goes before it.
    other = {"/proc/cpuinfo": "vendor_id : AuthenticAMD\n"}
    facts = Facts("arm64", 0, {"midr_el1": f"{midr:08x}"}, other.get)
    assert recognise(facts).core == core
    assert facts.stepping == "r0p1"


def test_features_that_are_needed(monkeypatch):
    monkeypatch.setattr(hosts, "here", lambda: x86(flags="erms adx"))
    isa = toolchain.host_isa()
    assert hosts.lacks(isa, ["erms", "fsrm"]) == ["fsrm"]
    assert hosts.lacks("arm64" if isa == "x86_64" else "x86_64", ["fsrm"]) == []


def test_record_of_this_host():
    record = hosts.describe()
    assert json.loads(json.dumps(record)) == record
    assert record["isa"] == toolchain.host_isa()
    assert record["microarch"] in {*microarchs.ids(), None}
    assert record["caches"]["L1d"]
    assert isinstance(record["pmu"], bool)
    # Either there is a PMU, or it says why there is none.
    assert record["pmu"] or "perf-rdpmc" in record["pmu_refused"]
    assert record["clock"] in {"perf-rdpmc", "tsc-calibrated", "cntvct-calibrated", None}
    assert record["clock"] or record["clock_refused"]


def test_what_the_harness_says_reads_like_the_files_themselves():
    [answer] = hosts.harness.run(toolchain.host_isa(), harness.facts_job("f", FACT_FILES))
    banner, live = Facts.of(answer), hosts.here()
    assert recognise(banner).core == recognise(live).core
    for name in ("vendor", "family", "model", "features", "guest"):
        assert getattr(banner, name) == getattr(live, name), name


def test_a_host_without_a_harness_is_still_described(monkeypatch):
    def gone(_):
        raise hosts.InputError("no compiler for it")

    monkeypatch.setattr(hosts.harness, "toolchain", SimpleNamespace(find=gone))
    record = hosts.describe()
    assert record["clock"] is None
    assert record["clock_refused"] == "no compiler for it"
