"""Simulated cores that calibration learned, each once for all tests that read it."""

import csv
import tomllib
from dataclasses import fields, replace

import pandas as pd
import pytest
from once import once

import loopwright as lw
from loopwright.calibrating import calls, decoding, front_end_search, passes, port_choice
from loopwright.microbench import front_end, x86_forms
from loopwright.microbench.laboratory import Figure
from loopwright.microbench.oracle import Simulated

# All forms of x86-64 by their names.
FORMS = {form.name: form for form in x86_forms.forms(None)[0]}

X86 = [
    "add", "cmp", "adc", "imul", "shl", "bswap", "popcnt", "lea", "bt", "cmovb", "xchg", "paddd",
    "mulps", "pshufd", "movd", "movq", "vaddps", "vpand",
    "lea.bid", "mov", "movaps", "test", "inc", "dec", "sub", "movzx", "vmovaps", "xor", "movsxd",
]  # fmt: skip
ARM64 = [
    "add", "adcs", "and", "eor", "csel", "ccmp", "madd", "ubfm", "crc32x", "sdiv", "subs", "extr",
    "fadd", "fmul", "fmadd", "fcmp", "fcsel", "fdiv", "fmov", "scvtf", "aese", "addv", "tbl", "mla",
    "mul", "sshl", "zip1", "dup", "umov", "movi", "orr", "smull", "sadalp", "faddp", "pmull",
    "mov", "movz", "movk", "sub", "ldr", "str", "ldp", "stp", "ldtr", "sttr", "ldrb", "strb",
    "ldrh", "strh", "ldur", "stur", "ld1", "st1", "ands", "bic", "bics",
]  # fmt: skip
# Forms that show a front end. PLAIN shows memory, strings and serialising instructions, too.
DELIVERED = [
    "add", "imul", "shl", "bswap", "popcnt", "lea", "bt", "cmovb", "cmovbe", "xchg", "paddd",
    "mulps", "pshufd", "movd", "movq", "dec", "test", "mov",
]  # fmt: skip
PLAIN = [
    *DELIVERED,
    "lea.bid", "lea.bd", "movaps", "cmp", "sub", "movzx", "movsxd", "xor", "pxor",
]  # fmt: skip
MICROCODED = ["rcl", "rcr", "rol", "cmpxchg", "xadd", "cmovb"]
ZEN2_FORMS = [
    "inc", "vaddps", "vmovaps", "movmskps", "pand", "vpand", "addps", "unpckhps", "pmulld",
    "comisd", "vpmovsxbw", "sqrtpd", "divps", "shld", "shrd", "bsf", "bsr", "pinsrd", "vmulps",
    "vpmullw", "adc", "vphaddsw", "vphaddw", "phaddw", "and", "vpshufb", "vpaddd", "vmulpd",
    "rcpps", "vmovq",
]  # fmt: skip

# Each core that is learned: mnemonics, and parameters that were changed by hand.
CORES = {
    "skylake": (sorted({*X86, *PLAIN, *MICROCODED}), {
        "predecode.lcp_cycles": "6", "retire.reorder_buffer": "187", "scheduler.entries": "75",
        "serial.mfence": "33", "mispredict.cycles": "11",
        "scheduler.delay": "5", "scheduler.late_wakeup": "0", "rename.odd_bytes_kept": "false",
        "string.aligned_at": "end",
    }),
    "sandybridge": (PLAIN, {"predecode.block_bytes": "32"}),
    "zen2": (sorted({*PLAIN, *ZEN2_FORMS}), {}),
    "zen4": (PLAIN, {
        "uop_cache.line_uops": "7", "memory.commit_narrow_cycles": "3",
        "memory.complex_address_cycles": "2", "macro_fusion.nop_bytes": "12",
        "string.hold_bytes": "8",
    }),
    "goldencove": ([*PLAIN, "addss", "mulss", "andps", "vandps"], {
        "serial.lfence": "14", "serial.avx_sse_transition": "60", "mispredict.cycles": "23",
    }),
    # Copies come from the decoders: calibrate knows no op cache of regions that holds copies.
    "icelake": (PLAIN, {"uop_cache.unrolled": "false"}),
    "neoverse-n1": (ARM64, {}),
    "tsv110": (ARM64, {
        "memory.forward_cycles": "9", "memory.split_load_bytes": "32",
        "memory.split_load_cycles": "2", "fetch.block_bytes": "32", "fetch.taken_bubble": "1",
        "mispredict.cycles": "17", "macro_fusion.pairs": "flags", "memory.forward_parts": "false",
        "retire.reorder_buffer": "120",
    }),
}  # fmt: skip

# Op-cache rule of cores whose front end is searched with that rule alone, from one start.
ONE_STRUCTURE = {"skylake": "region"}

# Cores that are learned by fewer loops; all others are learned by all of them.
FEW_LOOPS = {"skylake", "zen4", "icelake", "neoverse-n1"}

# Each takes half a minute to learn: `make test` learns Skylake alone.
GOLDENCOVE, ICELAKE, NEOVERSE_N1, SANDYBRIDGE, TSV110, ZEN2, ZEN4 = (
    pytest.param(core, marks=pytest.mark.slow)
    for core in ("goldencove", "icelake", "neoverse-n1", "sandybridge", "tsv110", "zen2", "zen4")
)


def changed(core):
    """Return the parameters that were changed by hand of a core that is learned."""
    return CORES[core][1]


def original(core, settings=None):
    """Return the machine that a core was learned from, without noise, and other settings too."""
    return Simulated(core, {**changed(core), **(settings or {})}, noise=0)


def _checked(tested):
    """Return a pass that asserts to change nothing but the fields that it provides."""

    def fitting(laboratory, before, forms):
        after = tested.fitting(laboratory, before, forms)
        names = [field.name for field in fields(after)]
        changed = {name for name in names if getattr(before, name) != getattr(after, name)}
        assert changed <= tested.provides, (tested, changed)
        return after

    return replace(tested, fitting=fitting)


def of_rule(rule):
    """Return a search of the structures with this rule of the op cache, unmasked."""
    search = front_end_search.loops

    def loops(*arguments):
        for structure in search(*arguments):
            if structure.fixed["uop_cache.rule"] == rule:
                yield replace(structure, masking={}, starts=structure.starts[:1])

    return loops


def few_loops(monkeypatch):
    """Let calibrate time fewer loops, which are most of what it simulates, and try fewer rules.

    Those of a front end are at every fifth code offset, with every fifth number of moves, and fewer
    at random; those of a port's choice are a fifth. Loops with calls are at one code offset.
    """
    monkeypatch.setattr(front_end, "_OFFSETS", range(0, 64, 5))
    monkeypatch.setattr(front_end, "_MOVES", range(5, 33, 5))
    monkeypatch.setattr(front_end, "_RANDOM_LOOPS", 20)
    monkeypatch.setattr(front_end, "_SHORT_LOOPS", 32)
    monkeypatch.setattr(port_choice, "_CHAINS", 60)
    monkeypatch.setattr(port_choice, "_CHASES", 24)
    monkeypatch.setattr(port_choice, "_MIXTURES", 80)
    monkeypatch.setattr(calls, "_OFFSETS", (0,))
    monkeypatch.setattr(calls, "_SLOTS", range(1, 4))
    monkeypatch.setattr(decoding, "_FEWEST", range(4, 7))
    monkeypatch.setattr(decoding, "_STALLS", (2, 6))


def learned(factory, core):
    """Return the folder of models with a learned core, and the rows of calibrate."""
    mnemonics, settings = CORES[core]

    def make(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes, "PASSES", [_checked(each) for each in passes.PASSES])
            if core in FEW_LOOPS:
                few_loops(patch)
            if core in ONE_STRUCTURE:
                patch.setattr(front_end_search, "loops", of_rule(ONE_STRUCTURE[core]))
            rows = lw.calibrate(
                folder, machine=f"simulated:{core}", mnemonics=mnemonics, settings=settings
            )
        rows.to_pickle(folder / "rows.pickle")

    folder = once(factory, f"learned-{core}", make)
    return folder, pd.read_pickle(folder / "rows.pickle")


def rows(path):
    """Return the rows of a table that calibrate wrote, without its comments."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def by_form(path):
    """Return the rows of a learned table by the forms that share them."""
    return {
        f"{row['mnemonic']} {operands}".strip(): row
        for row in rows(path)
        for operands in row["operands"].split(";")
    }


def parameters(folder):
    """Return the parameters of the core in a folder, by dotted name."""
    tables = tomllib.loads((folder / "core.toml").read_text())
    return {
        f"{table}.{name}": entry["value"]
        for table, entries in tables.items()
        if isinstance(entries, dict)
        for name, entry in entries.items()
        if isinstance(entry, dict) and "value" in entry
    }


class Slower:
    """A laboratory whose kernels take factor(kernel) times the cycles of another's."""

    def __init__(self, laboratory, factor):
        self.kit = laboratory.kit
        self.iteration = laboratory.iteration
        self._laboratory, self._factor = laboratory, factor

    def time(self, kernels, notion="loop"):
        figures = self._laboratory.time(kernels, notion)
        return [
            Figure(figure.cycles * self._factor(kernel), figure.uncertainty)
            for figure, kernel in zip(figures, kernels, strict=True)
        ]
