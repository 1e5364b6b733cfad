"""How many blocks a second each model answers for, side by side in one run on the same blocks.

usage: python benchmarks/models.py [BLOCKS]   (make bench)
The blocks are the main loops of kernels/, repeated. Figures are ratios: the machine's load
changes the rates, not so much what they are to each other.
"""

import csv
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from loopwright import kernels, microarchs
from loopwright.predict import predict
from loopwright.predict.llvm_mca import LlvmMca
from loopwright.predict.model import Block
from loopwright.predict.osaca import Osaca
from loopwright.predict.pipeline import Pipeline
from loopwright.predict.subjects import of_variant

ROUNDS = 3
CORE = "zen2"


def blocks(count: int) -> list[Block]:
    """Return count blocks without strings, calls or serialising instructions, in turns."""
    core = microarchs.load(CORE)
    kept = ("x86_64/clear_user", "x86_64/csum", "x86_64/copy_user")
    variants = [v for k in kept for v in kernels.load(k).variants.values()]
    subjects = [of_variant(v, core) for v in variants]
    found = [s.block(o) for o in range(64) for s in subjects if not s.error]
    plain = [b for b in found if not b.string]
    return [plain[n % len(plain)] for n in range(count)]


def rate(answer: Callable[[list[Block]], object], given: list[Block]) -> float:
    """Return the best rate of three rounds, in blocks a second."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        answer(given)
        best = min(best, time.perf_counter() - start)
    return len(given) / best


def write(path: Path, given: list[Block]) -> None:
    """Write a file of blocks for predict --blocks."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "hex", "offset"])
        rows.writerows([n, b.code.hex(), b.offset] for n, b in enumerate(given))


def seconds_for_all() -> tuple[float, int]:
    """Return how long every variant on every core at every code offset takes, and how many."""
    start = time.perf_counter()
    rows = predict("all", microarch="all", offset="all")
    return time.perf_counter() - start, len(rows)


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    core = microarchs.load(CORE)
    pipeline, mca, osaca = Pipeline(), LlvmMca(), Osaca()
    mca.iterations = 100  # its own default
    many, some, few = blocks(count), blocks(1000), blocks(60)
    fresh = [Block(b.isa, b.code, b.notion, b.offset) for b in many]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "blocks.csv"
        write(file, many)
        through_file = rate(lambda _: predict(blocks=file, microarch=CORE), many)
    rates = {
        "pipeline, one call": rate(lambda g: pipeline.predict(g, core), fresh),
        "pipeline, predict --blocks": through_file,
        "llvm-mca, one process": rate(lambda g: mca.predict(g, core), some),
        "llvm-mca, a process a block": rate(lambda g: [mca.predict([b], core) for b in g], few),
        "osaca, one worker": rate(lambda g: osaca.predict(g, core), few),
    }
    ours = rates["pipeline, one call"]
    print(f"{'':28} {'blocks/s':>9} {'pipeline is':>12}")
    for name, value in rates.items():
        print(f"{name:28} {value:9.0f} {ours / value:10.1f} x")
    elapsed, count = min(seconds_for_all() for _ in range(ROUNDS))
    print(f"all variants, cores and code offsets: {count} predictions in {elapsed:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory of this process at most: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
