"""Simulated cores that calibration learned, each once for all tests that read it."""

import csv
import hashlib
import tomllib

import pandas as pd
from once import once

import loopwright as lw
from loopwright.microbench.laboratory import Figure

X86 = [
    "add", "and", "cmp", "adc", "imul", "shl", "bswap", "popcnt", "lea", "bt", "cmovb", "xchg",
    "pand", "paddd", "mulps", "addps", "pshufd", "divss", "pmulld", "movd", "movq", "vaddps",
    "vpshufb", "vpand", "vpaddd", "vmulpd", "rcpps", "haddps", "movmskps", "crc32", "mulx",
    "lea.bid", "mov", "movaps", "test", "inc", "dec", "sub", "movzx", "vmovaps", "vmovq", "xor",
    "movsxd",
]  # fmt: skip
ARM64 = [
    "add", "adcs", "and", "eor", "csel", "ccmp", "madd", "ubfm", "crc32x", "sdiv", "subs", "extr",
    "fadd", "fmul", "fmadd", "fcmp", "fcsel", "fdiv", "fmov", "scvtf", "aese", "addv", "tbl", "mla",
    "mul", "sshl", "zip1", "dup", "umov", "movi", "orr", "smull", "sadalp", "faddp", "pmull",
    "mov", "movz", "movk", "sub", "ldr", "str", "ldp", "stp", "ldtr", "sttr", "ldrb", "strb",
    "ldrh", "strh", "ldur", "stur", "ld1", "st1",
]  # fmt: skip
# Of a core whose front end is looked for.
DELIVERED = [
    "add", "imul", "shl", "bswap", "popcnt", "lea", "bt", "cmovb", "cmovbe", "xchg", "paddd",
    "mulps", "pshufd", "movd", "movq", "dec", "test", "mov",
]  # fmt: skip
# Skylake with parameters changed by hand, of the front end and of windows.
CHANGED = {
    "predecode.lcp_cycles": "6", "retire.reorder_buffer": "187", "scheduler.entries": "75",
}  # fmt: skip


def learned(factory, core, mnemonics, settings=None):
    """Return the folder of models that a core was written to, and the rows that calibrate gave."""

    def make(folder):
        rows = lw.calibrate(
            folder, machine=f"simulated:{core}", mnemonics=mnemonics, settings=settings
        )
        rows.to_pickle(folder / "rows.pickle")

    asked = hashlib.sha256(repr((mnemonics, settings)).encode()).hexdigest()[:8]
    folder = once(factory, f"{core}-{asked}", make)
    return folder, pd.read_pickle(folder / "rows.pickle")


def rows(path):
    """Return the rows of a table that calibrate wrote, without its comments."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def parameters(folder):
    """Return the parameters of the core in a folder, by dotted name."""
    tables = tomllib.loads((folder / "core.toml").read_text())
    return {
        f"{table}.{name}": one["value"]
        for table, entries in tables.items()
        if isinstance(entries, dict)
        for name, one in entries.items()
        if isinstance(one, dict) and "value" in one
    }


class Slower:
    """A laboratory whose kernels take so many times as long as on another."""

    def __init__(self, known, longer):
        self.kit = known.kit
        self.turn = known.turn
        self._known, self._longer = known, longer

    def time(self, kernels, notion="loop"):
        found = self._known.time(kernels, notion)
        return [
            Figure(one.cycles * self._longer(kernel), one.uncertainty)
            for one, kernel in zip(found, kernels, strict=True)
        ]
