"""Time of answers: the command line as a whole, and the models side by side.

usage: python benchmarks/models.py [BLOCKS] [FILE.csv]   (make bench)
The blocks are the main loops of kernels/ at all code offsets, in turns, or those of a file for
predict --blocks; where no two are alike, they are loops of the same instructions as chance has it.
Programs are timed with their start-up, from their call to their end, in turns, and the best of
three rounds counts: other work on the machine then bears on all alike.
"""

import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from loopwright import kernels, microarchs
from loopwright.code import instructions
from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.predicting.llvm_mca import LlvmMca, regions
from loopwright.predicting.model import Block, unfit
from loopwright.predicting.osaca import Osaca
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.predict import predict
from loopwright.predicting.question import read_csv, variant_subject

ROUNDS = 3
CORES = ("zen2", "skylake")
COUNT = 12_192
LOOPWRIGHT = str(Path(sys.executable).parent / "loopwright")
ADD_LOOP = "4883c0014839c875f7"
DEC = bytes.fromhex("ffc90f85")  # dec ecx; jne, in front of its distance


def loops(count: int) -> list[Block]:
    """Return count blocks without strings, calls or serialising instructions, in turns."""
    core = microarchs.load(CORES[0])
    kept = ("x86_64/clear_user", "x86_64/csum", "x86_64/copy_user")
    variants = [v for k in kept for v in kernels.load(k).variants.values()]
    subjects = [variant_subject(v, core) for v in variants]
    found = [s.block(o) for o in range(64) for s in subjects if not s.error]
    plain = [b for b in found if not b.string]
    return [plain[n % len(plain)] for n in range(count)]


def distinct(count: int) -> list[Block]:
    """Return count loops that all differ, of instructions of those loops as chance has it.

    Chance is the same in every run.
    """
    plain = {i.code for b in loops(1000) for i in b.instructions if i.flow is Flow.NEXT}
    chance = random.Random(count)
    pool, found = sorted(plain), dict[bytes, Block]()
    while len(found) < count:
        body = b"".join(chance.choices(pool, k=chance.randint(3, 12)))
        code = body + DEC + (-len(body) - len(DEC) - 4).to_bytes(4, "little", signed=True)
        found.setdefault(code, Block("x86_64", code, "loop", len(found) % 64))
    return list(found.values())


def of_file(path: Path) -> list[Block]:
    """Return the blocks of a file that llvm-mca can be asked about."""
    out = []
    for row in read_csv(path):
        block = Block("x86_64", instructions.parse_hex(row.hex), "unrolled", row.offset)
        try:
            if not unfit(block):
                out.append(block)
        except InputError:
            continue
    return out


def write(path: Path, given: Sequence[Block]) -> None:
    """Write a file of blocks for predict --blocks."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "hex", "offset"])
        rows.writerows([n, b.code.hex(), b.offset] for n, b in enumerate(given))


def seconds(run: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def best(*runs: Callable[[], object]) -> list[float]:
    """Return the least seconds of each of several calls, made in turns."""
    rounds = [[seconds(run) for run in runs] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def program(*command: str, text: str | None = None) -> Callable[[], object]:
    """Return a call that runs a program to its end; its output goes to a file."""

    def run() -> None:
        with tempfile.TemporaryFile() as out:
            subprocess.run(command, input=text and text.encode(), stdout=out, check=True)

    return run


def start_up() -> None:
    """Print what the command line takes for the least that it can be asked."""
    asked = [["--help"], ["predict", "--hex", ADD_LOOP, "--microarch", "zen2"]]
    for arguments, took in zip(asked, best(*(program(LOOPWRIGHT, *a) for a in asked)), strict=True):
        print(f"loopwright {' '.join(arguments):55} {took:6.2f} s")


def side_by_side(given: Sequence[Block], core_id: str) -> None:
    """Print blocks a second of predict --blocks and of llvm-mca, as programs."""
    core = microarchs.load(core_id)
    mca = LlvmMca()
    mca.iterations = 100  # its own default
    text, _ = regions(given, range(len(given)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "blocks.csv"
        write(file, given)
        ours = program(
            LOOPWRIGHT, "predict", "--blocks", str(file), "--microarch", core_id, "--csv"
        )
        took, theirs = best(ours, program(*mca.command(core), text=text))
    rate, other = len(given) / took, len(given) / theirs
    print(f"{core_id}: loopwright predict --blocks, {len(given)} blocks {rate:15.0f} blocks/s")
    print(f"{core_id}: llvm-mca, as many regions, 100 iterations {other:13.0f} blocks/s")
    print(f"{core_id}: the former is {rate / other:.1f} times the latter")


def in_process(given: Sequence[Block]) -> None:
    """Print blocks a second of each model behind the interface of all."""
    core = microarchs.load(CORES[0])
    pipeline, mca, osaca = Pipeline(), LlvmMca(), Osaca()
    mca.iterations = 100
    apart = distinct(len(given))
    few = list(islice(given, 60))
    some, others = list(islice(given, 1000)), list(islice(apart, 1000))
    rates = {
        "pipeline, one call": (given, lambda: pipeline.predict(given, core)),
        "pipeline, one call, no two blocks alike": (apart, lambda: pipeline.predict(apart, core)),
        "llvm-mca, one process": (some, lambda: mca.predict(some, core)),
        "llvm-mca, one process, no two blocks alike": (others, lambda: mca.predict(others, core)),
        "llvm-mca, a process a block": (few, lambda: [mca.predict([b], core) for b in few]),
        "osaca, one worker": (few, lambda: osaca.predict(few, core)),
    }
    for (name, (asked, _)), took in zip(
        rates.items(), best(*(run for _, run in rates.values())), strict=True
    ):
        print(f"{name:45} {len(asked) / took:18.0f} blocks/s")


def everywhere(count: int) -> None:
    """Print loops a second that the simulator predicts at all 64 code offsets, by core."""
    pipeline = Pipeline()
    given = [(b.code, [(0, len(b.code))]) for b in distinct(count)]
    for name in CORES:
        core = microarchs.load(name)
        (took,) = best(partial(pipeline.at_offsets, given, core))
        print(f"{name}: pipeline, all 64 code offsets {count / took:24.0f} loops/s")


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    given = of_file(Path(sys.argv[2])) if len(sys.argv) > 2 else loops(count)
    given = [given[n % len(given)] for n in range(count)]
    start_up()
    for core in CORES:
        side_by_side(given, core)
    in_process(given)
    everywhere(count)
    rows = predict("all", microarch="all", offset="all")
    (took,) = best(lambda: predict("all", microarch="all", offset="all"))
    print(f"all variants, cores and code offsets: {len(rows)} predictions in {took:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of this process at most: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
