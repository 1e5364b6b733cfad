"""What a core has to have for code: no model answers for instructions that it lacks."""

import csv
import re
import subprocess

import pandas as pd
import pytest
from checkout import SHARED

import loopwright as lw
from loopwright import microarchs, toolchain
from loopwright.code.binding import Outline, outline, outlines
from loopwright.errors import InputError
from loopwright.predicting.models import MODELS

FMA_YMM = "c4e275b8c2"  # vfmadd231ps %ymm2, %ymm1, %ymm0
FMA_ZMM = "62f27548b8c2"
TZCNT = "f30fbcc1"
STAC = "0f01cb"
SVE_ADD = "20002204"
FCMLA = "20c4426e"
LDAPR = "20c0bff8"
LDADD = "410020f8"
EOR3 = "200c02ce"
STG = "200820d9"


@pytest.mark.parametrize(
    ("code", "core", "message"),
    [
        (FMA_YMM, "sandybridge", "vfmadd231ps needs fma, which sandybridge lacks"),
        (FMA_YMM, "ivybridge", "vfmadd231ps needs fma, which ivybridge lacks"),
        (FMA_YMM, "haswell", ""),
        (FMA_YMM, "zen2", ""),
        (FMA_ZMM, "sandybridge", "vfmadd231ps needs avx512f, which sandybridge lacks"),
        (FMA_ZMM, "skylake", "vfmadd231ps needs avx512f, which skylake lacks"),
        (FMA_ZMM, "zen2", "vfmadd231ps needs avx512f, which zen2 lacks"),
        (FMA_ZMM, "zen4", ""),
        (FMA_ZMM, "redwoodcove", ""),
        (FMA_ZMM, "goldencove", ""),
        # Older cores take it for bsf, which leaves another result.
        (TZCNT, "sandybridge", "tzcntl needs bmi1, which sandybridge lacks"),
        (TZCNT, "haswell", ""),
        (STAC, "sandybridge", "stac needs smap, which sandybridge lacks"),
        ("f30f1efa", "sandybridge", ""),  # endbr64, a nop there
        ("0f0d0f", "sandybridge", ""),  # prefetchw, a nop there
        ("48ffc975fb", "sandybridge", ""),
        (SVE_ADD, "neoverse-n1", "add needs sve, which neoverse-n1 lacks"),
        (SVE_ADD, "tsv110", "add needs sve, which tsv110 lacks"),
        (FCMLA, "neoverse-n1", "fcmla needs fcma, which neoverse-n1 lacks"),
        (FCMLA, "tsv110", ""),
        (LDAPR, "tsv110", "ldapr needs lrcpc, which tsv110 lacks"),
        (LDAPR, "neoverse-n1", ""),
        (LDADD, "neoverse-n1", ""),
        (LDADD, "tsv110", ""),
        (EOR3, "neoverse-n1", "eor3 needs sha3, which neoverse-n1 lacks"),
        (STG, "tsv110", "stg needs mte, which tsv110 lacks"),
        ("3f2303d5", "tsv110", ""),  # paciasp, a hint
    ],
)
def test_no_model_answers_for_an_instruction_that_a_core_lacks(code, core, message):
    rows = lw.predict(hex=code, microarch=core, model="all")
    if message:
        assert set(rows["error"]) == {message}
        assert rows["cycles"].isna().all()
        assert lw.ports(hex=code, microarch=core)["error"].item() == message
        assert lw.timeline(hex=code, microarch=core)["error"].item() == message
    else:
        assert not rows["error"].str.contains("lacks").any()


def test_one_such_block_costs_only_its_own_rows(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text(f"id,hex\nlea,488d0410\nfma,4801d8{FMA_YMM}\nadd,4801d8\n")
    rows = lw.predict(blocks=blocks, microarch="sandybridge,haswell", model="pipeline,llvm-mca")
    errors = rows.set_index(["microarch", "model", "id"])["error"]
    assert set(errors[errors != ""].index) == {
        ("sandybridge", "pipeline", "fma"),
        ("sandybridge", "llvm-mca", "fma"),
    }


def test_assembly_and_kernels_are_held_to_it_too(tmp_path, monkeypatch):
    text = "1:\tvfmadd231ps %ymm2, %ymm1, %ymm0\n\tdecq %rcx\n\tjnz 1b\n"
    rows = lw.predict(asm=text, microarch="sandybridge,zen2", model="llvm-mca")
    assert list(rows["error"].str.contains("needs fma")) == [True, False]
    family = tmp_path / "x86_64" / "mine"
    family.mkdir(parents=True)
    (family / "kernel.toml").write_text(
        'summary = "mine"\n[contract]\nsymbol = "mine"\neffect = "clear"\n'
        'inputs = { dst = "rdi", count = "rcx" }\nmay_change = ["flags"]\n'
        '[[variant]]\nname = "wide"\nsummary = "zmm"\n'
    )
    (family / "wide.S").write_text(
        "#include <linux/linkage.h>\nSYM_FUNC_START(mine)\n1:\tvmovdqu64 %zmm0,(%rdi)\n"
        "\tadd $64,%rdi\n\tdec %rcx\n\tjnz 1b\n\tRET\nSYM_FUNC_END(mine)\n"
    )
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(tmp_path))
    rows = lw.predict("x86_64/mine", microarch="zen2,zen4", model="llvm-mca")
    assert list(rows["error"]) == ["vmovdqu64 needs avx512f, which zen2 lacks", ""]


def test_features_are_named_as_cpuinfo_does():
    for core in map(microarchs.load, microarchs.ids()):
        assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in core.features), core.id
        assert list(core.parameters["features"]) == sorted(set(core.parameters["features"]))


def test_every_core_has_what_all_of_its_time_have():
    least = {
        "x86_64": {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "avx", "aes", "pclmulqdq"},
        "arm64": {"fp", "asimd", "crc32", "atomics", "asimdrdm"},
    }
    for core in map(microarchs.load, microarchs.ids()):
        assert least[core.isa] <= core.features, f"{core.id}: features lists all that a core has"


# GCC's options for what /proc/cpuinfo calls otherwise.
_OPTIONS = {
    "bmi": "bmi1",
    "lzcnt": "abm",
    "mwait": "monitor",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand",
    "sha": "sha_ni",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
_ALIKE = {  # the same by both
    "adx", "aes", "avx", "avx2", "bmi2", "clflushopt", "clwb", "clzero", "cx16", "f16c", "fma",
    "fsgsbase", "movbe", "mwaitx", "popcnt", "rdpid", "rdseed", "sse4a", "ssse3", "wbnoinvd",
    "xsave", "xsavec", "xsaveopt", "xsaves",
}  # fmt: skip
_NAMES = {"sandybridge": "sandybridge", "ivybridge": "ivybridge", "haswell": "haswell"}
_NAMES |= {"skylake": "skylake", "zen2": "znver2", "zen3": "znver3", "zen4": "znver4"}
_NAMES |= {"goldencove": "sapphirerapids"}


@pytest.mark.parametrize("core", sorted(_NAMES.keys() & set(microarchs.ids())))
def test_a_core_has_what_the_compiler_uses_for_it(core):
    arch = _NAMES[core]
    gcc = toolchain.find("x86_64").gcc
    done = subprocess.run(
        [gcc, f"-march={arch}", "-Q", "--help=target"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{gcc} does not know -march={arch}")
    enabled = re.findall(r"^  -m(\S+)\s+\[enabled\]", done.stdout, re.M)
    used = {_OPTIONS.get(name, name) for name in enabled}
    known = {*_OPTIONS.values(), *_ALIKE}
    features = microarchs.load(core).features
    assert used & known <= features
    assert features & known <= used | {"aes"}  # GCC leaves it out where some models have it off


def test_what_was_measured_on_a_core_is_what_it_has():
    path = SHARED / "data" / "bhive_public.csv"
    if not path.is_file():
        pytest.skip("no bhive_public.csv in $LOOPWRIGHT_SHARED/data: see github.com/ithemal/bhive")
    cores = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["arch"] for row in rows} == set(cores)
    for arch, core in cores.items():
        codes = [bytes.fromhex(row["hex"]) for row in rows if row["arch"] == arch]
        for found in outlines("x86_64", codes):
            assert isinstance(found, Outline)
            assert found.needs <= microarchs.load(core).features


def test_an_outline_of_what_is_no_code_is_an_error():
    with pytest.raises(InputError, match="byte 1 of 9006 starts no whole x86-64 instruction"):
        outline("x86_64", bytes.fromhex("9006"))
    with pytest.raises(InputError, match="empty"):
        outline("arm64", b"")


def test_every_model_says_what_it_has_no_model_of():
    zen2, n1 = microarchs.load("zen2"), microarchs.load("neoverse-n1")
    lacks = {model.id: (model.lacks(zen2), model.lacks(n1)) for model in MODELS}
    assert lacks["uica"] == (
        "uiCA has no model of zen2",
        "uiCA has no model of neoverse-n1",
    )
    assert lacks["pipeline"] == ("", "")
    assert pd.Series(lacks).map(bool).all()
