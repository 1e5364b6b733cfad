"""Measure the rows of this machine that guest_rows.py holds a core to.

usage: python validation/guest_measure.py FOLDER [--libraries FILE ...] [--only KIND] [--seed N]
Writes below FOLDER, by this machine's clock: library_loops.csv, innermost loops without inner
branches of shared libraries, at the code offset where they are linked; offsets.csv, short ones of
them and main loops of kernels at all 64 code offsets; calls.csv, whole calls of every variant at
random sizes, alignments and code offsets; microbenchmarks.csv, loops of random accesses of x86-64.
All are drawn before anything is measured, the same each time for the same files; --seed draws other
calls and accesses. Loops that use a line under several addresses are left out: way predictors slow
them (AMD).
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import derive_path  # noqa: F401
import host_calls
import pandas as pd

from loopwright import kernels, microarchs, toolchain
from loopwright.code import assemble
from loopwright.code.loops import Placement
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.measuring import block, measure_blocks, readings
from loopwright.measuring.block import Block
from loopwright.measuring.measure import PlacedVariant, measure_rounds
from loopwright.measuring.readings import PROCESSES, Sweep
from loopwright.predicting import question
from loopwright.scanning import images
from loopwright.scanning.binary_loops import ScannedLoop, find_loops

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
NAMES = ("libc.so.6", "libcrypto.so.3", "libz.so.1", "libzstd.so.1", "libgmp.so.10",
         "liblzma.so.5", "libpng16.so.16", "libsqlite3.so.0", "libstdc++.so.6",
         "libsodium.so.23")  # fmt: skip
SEED = 2026
OF_LIBRARY = 24  # loops of a library
MOST_BYTES = 400  # of a loop
OF_KERNELS, OF_LIBRARIES, SHORT = 5, 7, 40  # loops at all offsets, and the bytes of a short one
OF_VARIANT = 18  # calls of a variant
MOST_SIZE, MOST_RECORDS = 6000, 64
ACCESSES, OF_ACCESSES = ("loads", "stores", "copies", "updates", "mixed"), 60
LINE = 64
RSI, RDI = 6, 7  # as operands name them
OPCODES = {
    "loads": {1: b"\x8a", 2: b"\x66\x8b", 4: b"\x8b", 8: b"\x48\x8b", 16: b"\x0f\x10",
              32: b"\xc5\xfc\x10"},
    "stores": {1: b"\x88", 2: b"\x66\x89", 4: b"\x89", 8: b"\x48\x89", 16: b"\x0f\x11",
               32: b"\xc5\xfc\x11"},
    "updates": {1: b"\x00", 2: b"\x66\x01", 4: b"\x01", 8: b"\x48\x01"},
}  # fmt: skip
"""Prefixes and opcodes by bytes: moves of registers, of vectors from 16 bytes on, and additions."""
SHOWN_REASONS = 3  # commonest reasons of refused loops that are printed


def library_loops(file: Path) -> list[ScannedLoop]:
    """Return some loops of a library without inner branches."""
    loops = find_loops(images.read_image(file)).loops
    distinct = {loop.code: loop for loop in loops if loop.kind == "block" and not loop.split}
    short = [loop for loop in distinct.values() if loop.length <= MOST_BYTES]
    return random.Random(f"{SEED} {file.name}").sample(short, min(OF_LIBRARY, len(short)))


def measured(blocks: Sequence[Block]) -> pd.DataFrame:
    """Return a row for each block that gave a figure: id, hex, offset, cycles, uncertainty."""
    results = measure_blocks.measure_in_turns(toolchain.host_isa(), blocks, measure_blocks.TURNS)
    rows = pd.DataFrame(results)
    refused = rows["status"] == "refused"
    print(f"  {len(rows)} loops, {refused.sum()} refused", flush=True)
    for reason, count in rows[refused]["reason"].value_counts().head(SHOWN_REASONS).items():
        print(f"    {count}: {reason}", flush=True)
    shared = rows["note"].str.contains(measure_blocks.SHARED_LINES, regex=False)
    print(f"    {shared.sum()} left out: {measure_blocks.SHARED_LINES}", flush=True)
    rows = rows[~refused & ~shared].rename(columns={"code": "hex"})
    return rows[["id", "hex", "offset", "cycles", "uncertainty", "status"]]


def of_libraries(files: Sequence[Path], _: int) -> pd.DataFrame:
    """Return loops of libraries where they are linked."""
    return measured(
        [
            block.of_code(f"{file.name} {loop.where}", loop.code, loop.offset, loop.isa, "loop")
            for file in files
            for loop in library_loops(file)
        ]
    )


def at_offsets(files: Sequence[Path], _: int) -> pd.DataFrame:
    """Return a few loops at all code offsets."""
    draw = random.Random(SEED)
    chosen = draw.sample(list(_main_loops()), OF_KERNELS)
    short = [
        (f"{file.name} {loop.where}", loop.code)
        for file in files
        for loop in library_loops(file)
        if loop.length <= SHORT
    ]
    tried = measured(
        [
            block.of_code(name, code, 0, toolchain.host_isa(), "loop")
            for name, code in draw.sample(short, min(len(short), 3 * OF_LIBRARIES))
        ]
    )
    codes = dict(short)
    chosen += [(name, codes[name]) for name in tried["id"][:OF_LIBRARIES]]
    return measured(
        [
            block.of_code(name, code, offset, toolchain.host_isa(), "loop")
            for name, code in chosen
            for offset in range(64)
        ]
    )


def _main_loops() -> Iterator[tuple[str, bytes]]:
    """Yield the main loops of kernels that this machine can run."""
    core = microarchs.load(hosts.microarch() or "")
    for kernel in kernels.every():
        if kernel.isa == toolchain.host_isa():
            for subject in question.variant_subjects(list(kernel.variants.values()), core):
                short = len(subject.code) <= 2 * SHORT
                if subject.notion == "loop" and not subject.error and short:
                    yield f"{kernel.id}/{subject.key['variant']}", subject.code


def calls(_: Sequence[Path], seed: int) -> pd.DataFrame:
    """Return whole calls at random code offsets and alignments, as host_calls.py keeps them."""
    drawn = list(_drawn_calls(seed))
    rounds = measure_rounds(drawn, PROCESSES, None)
    rows = [
        {
            "kernel": placed.variant.kernel,
            "variant": placed.variant.name,
            "offset": placed.place.offset,
            **result.columns(),
        }
        for placed, [result] in zip(drawn, rounds.results, strict=True)
        if result.status != "refused"
    ]
    print(f"  {len(rows)} measured, {len(drawn) - len(rows)} refused", flush=True)
    return host_calls.keep(pd.DataFrame(rows), datetime.now(UTC).strftime("%Y-%m-%d"))


def _drawn_calls(seed: int) -> Iterator[PlacedVariant]:
    """Yield calls of each variant at random sizes, alignments and code offsets.

    Half of the sizes are drawn by their logarithm, since short calls are the most frequent ones.
    """
    for kernel in kernels.every():
        for variant in kernel.variants.values() if kernel.isa == toolchain.host_isa() else ():
            draw = random.Random(f"{seed} {variant.id}")
            code, contract = assemble.user_code(variant), kernels.contract_of(variant)
            most = MOST_RECORDS if contract.fields else MOST_SIZE
            for n in range(OF_VARIANT):
                share = draw.random()
                size = round(most**share if n % 2 else 1 + share * (most - 1))
                alignment = (draw.randrange(64), draw.randrange(64))
                placement = Placement.of(code, contract, draw.randrange(64))
                sweep = Sweep([size], [alignment])
                goals = readings.goals(variant, code, contract, sweep)
                call_goals = tuple(goal for goal in goals if goal.quantity == "call")
                yield PlacedVariant(variant, code, contract, placement, call_goals)


def blocks(_: Sequence[Path], seed: int) -> pd.DataFrame:
    """Return loops of random accesses within lines and across their ends."""
    draw = random.Random(seed)
    drawn = [
        block.of_code(f"random {kind} {n}", _accesses(kind, draw), 0, "x86_64", "loop")
        for kind in ACCESSES
        for n in range(OF_ACCESSES)
    ]
    return measured(drawn).rename(columns={"id": "name"})[
        ["name", "hex", "cycles", "uncertainty", "status"]
    ]


def _accesses(kind: str, draw: random.Random) -> bytes:
    """Return one to eight accesses: loads by rsi, others by rdi, each in two lines of its own."""
    code = b""
    for n in range(draw.randint(1, 8)):
        access = draw.choice(("loads", "stores", "copies", "updates")) if kind == "mixed" else kind
        width = draw.choice((1, 2, 4, 8) if access == "updates" else (1, 2, 4, 8, 16, 32))
        register = draw.randrange(4)
        parts = ("loads", "stores") if access == "copies" else (access,)
        for part in parts:
            base = RSI if part == "loads" else RDI
            displacement = 2 * LINE * n + draw.randrange(LINE)
            code += OPCODES[part][width] + _operand(register, base, displacement)
    return code


def _operand(register: int, base: int, displacement: int) -> bytes:
    """Return a register operand and memory at a base with 4 bytes of displacement."""
    return bytes([0x80 | register << 3 | base]) + displacement.to_bytes(4, "little")


KINDS = {
    "library_loops": of_libraries,
    "offsets": at_offsets,
    "calls": calls,
    "microbenchmarks": blocks,
}


def main() -> None:
    """Measure, and write each kind as soon as it is complete."""
    parser = argparse.ArgumentParser(description="Measure rows that a core is held to.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--libraries", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--seed", type=int, default=SEED, help="of calls and accesses")
    options = parser.parse_args()
    files = options.libraries or [LIBRARIES / name for name in NAMES]
    files = [file for file in files if file.exists()]
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, measure in KINDS.items():
        if options.only in (None, name):
            print(name, flush=True)
            measure(files, options.seed).to_csv(options.folder / f"{name}.csv", index=False)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"validation/guest_measure.py: {error}") from None
