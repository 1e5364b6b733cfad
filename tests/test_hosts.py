"""The host is described by what it says of itself."""

import json
from types import SimpleNamespace

import pytest

from loopwright import hosts, microarchs, toolchain

X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="x86-64 hosts below")


@pytest.fixture
def host(monkeypatch):
    """Return a function that makes the host one with a given /proc/cpuinfo."""

    def become(**info):
        flags = info.pop("flags", "")
        known = {key.replace("_", " "): str(value) for key, value in info.items()}
        if "vendor id" in known:
            known["vendor_id"] = known.pop("vendor id")
        monkeypatch.setattr(hosts, "cpuinfo", lambda: known | {"flags": flags})

    return become


@X86_ONLY
@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "core"),
    [
        ("AuthenticAMD", 23, 0x31, "erms_not", "zen2"),
        ("AuthenticAMD", 25, 17, "fsrm erms", "zen4"),
        ("GenuineIntel", 6, 0x2D, "", "sandybridge"),
        ("GenuineIntel", 6, 167, "amx_fp16 erms", "redwoodcove"),
        ("GenuineIntel", 6, 0x9E, "", "skylake"),
        ("AuthenticAMD", 6, 0x2D, "", None),
        ("AuthenticAMD", 23, 0x01, "", None),
        ("HygonGenuine", 24, 0, "amx_fp16", None),
    ],
)
def test_core_by_features_then_family_and_model(host, vendor, family, model, flags, core):
    host(vendor_id=vendor, cpu_family=family, model=model, flags=flags)
    assert hosts.microarch() == core


@pytest.mark.parametrize(
    ("implementer", "part", "core"),
    [("0x41", "0xd0c", "neoverse-n1"), ("0x48", "0xd01", "tsv110"), ("0x41", "0xd01", None)],
)
def test_arm64_core_by_implementer_and_part(host, monkeypatch, implementer, part, core):
    monkeypatch.setattr(hosts.toolchain, "host_isa", lambda: "arm64")
    host(CPU_implementer=implementer, CPU_part=part)
    assert hosts.microarch() == core


def test_features_that_are_needed(host):
    host(flags="erms adx")
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


def test_a_host_without_a_harness_is_still_described(monkeypatch):
    def gone(_):
        raise hosts.InputError("no compiler for it")

    monkeypatch.setattr(hosts.harness, "toolchain", SimpleNamespace(find=gone))
    record = hosts.describe()
    assert record["clock"] is None
    assert record["clock_refused"] == "no compiler for it"
