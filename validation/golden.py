"""Golden files: every prediction and every refusal of the pipeline simulator.

usage: python validation/golden.py [--check]   (make golden)
Writes today's answers into validation/golden/ and prints which of them changed; with --check,
compares and names the differences (exit code 1). A change that adds a variant, a core or figures
commits the golden files with it; any other change leaves them as they are. kernels.txt: every
variant on every core at all code offsets; timelines.txt: each uop of some loops, cycle by cycle;
public.csv: digests of the answers for the blocks of $LOOPWRIGHT_SHARED/data (default:
../shared/data; BHive's and uiCA's, see accuracy.py).
"""

import argparse
import csv
import hashlib
import io
import sys
from collections.abc import Callable, Hashable, Iterator
from itertools import groupby
from pathlib import Path

import derive_path  # noqa: F401
import pandas as pd
from inputs import DATA, REPO

from loopwright import microarchs
from loopwright.errors import InputError
from loopwright.measuring import block
from loopwright.predicting.explain import timeline
from loopwright.predicting.model import Block
from loopwright.predicting.pipeline import Pipeline
from loopwright.predicting.predict import predict

FOLDER = REPO / "validation" / "golden"
PUBLIC = ("bhive_public.csv", "uica_blocks_public.csv", "uica_loops_public.csv")
CHUNK = 100  # blocks a digest, so that a difference can be found again
# Loops whose uops pass through the parts that cores differ in.
TIMELINES = (
    ("x86_64/clear_user/immediates", "zen2"),
    ("x86_64/copy_user/unrolled64", "zen2"),
    ("x86_64/csum/adc4", "sandybridge"),
    ("x86_64/clear_user/plain", "skylake"),
    ("x86_64/clear_user/negative_index", "redwoodcove"),
    ("arm64/copy_user/to_user_pairs", "neoverse-n1"),
    ("arm64/copy_user/to_user_nopan", "tsv110"),
)


def kernels() -> str:
    """Return a line for each variant and core: its answers, by runs of code offsets."""
    rows = predict("all", microarch="all", offset="all")
    keys = ["kernel", "variant", "microarch"]
    return "".join(f"{_line(key, group)}\n" for key, group in rows.groupby(keys, sort=True))


def _line(key: tuple[Hashable, ...], rows: pd.DataFrame) -> str:
    answers = [
        (int(row["offset"]), row["error"] or f"{row['cycles']:g} {row['bottleneck']}")
        for row in rows.sort_values("offset").to_dict("records")
    ]
    runs = []
    for answer, group in groupby(answers, key=lambda pair: pair[1]):
        offsets = [offset for offset, _ in group]
        runs.append(f"{offsets[0]}-{offsets[-1]}: {answer}")
    return f"{' '.join(map(str, key))} | {' | '.join(runs)}"


def timelines() -> str:
    """Return the timelines of the first iterations of some loops, as CSV."""
    frames = [timeline(spec, microarch=core, iterations=4) for spec, core in TIMELINES]
    return "\n".join(frame.drop(columns=["routine"]).to_csv(index=False) for frame in frames)


def public(most: int | None = None) -> str | None:
    """Return digests of the answers for the public blocks, None where those are not here.

    most limits the number of blocks of each file.
    """
    if not all((DATA / name).is_file() for name in PUBLIC):
        return None
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["file", "microarch", "notion", "first", "digest"])
    for name in PUBLIC:
        table = pd.read_csv(DATA / name)
        blocks = table[["hex", "offset"]] if "offset" in table else table[["hex"]].assign(offset=0)
        distinct = [
            (str(code), int(offset)) for code, offset in blocks.drop_duplicates().to_numpy()
        ]
        distinct = distinct[:most]
        for core in microarchs.select("all", "x86_64"):
            for notion in ("loop", "unrolled"):
                for first, digest in _digests(distinct, core, notion):
                    rows.writerow([name, core.id, notion, first, digest])
    return out.getvalue()


def _digests(
    blocks: list[tuple[str, int]], core: microarchs.Microarch, notion: str
) -> Iterator[tuple[int, str]]:
    code_blocks = [
        Block("x86_64", _repeated(code, notion), notion, offset) for code, offset in blocks
    ]
    predicted = Pipeline().predict(code_blocks, core, brief=True)
    answers = [(answer.cycles, answer.startup, answer.error) for answer in predicted]
    for first in range(0, len(answers), CHUNK):
        chunk = repr(answers[first : first + CHUNK])
        yield first, hashlib.sha256(chunk.encode()).hexdigest()[:16]


def _repeated(text: str, notion: str) -> bytes:
    """Return the code of a block, as a loop with a counter where it has no branch of its own."""
    code = bytes.fromhex(text)
    if notion == "unrolled":
        return code
    try:
        return block.counted_loop("x86_64", code).code
    except InputError:
        return code


GOLDEN: dict[str, Callable[[], str | None]] = {
    "kernels.txt": kernels,
    "timelines.txt": timelines,
    "public.csv": public,
}


def differences(name: str) -> list[str] | None:
    """Return the lines of a golden file that went or came, marked - and +; None without data."""
    now = GOLDEN[name]()
    if now is None:
        return None
    before = (FOLDER / name).read_text().splitlines()
    after = now.splitlines()
    removed, added = set(before) - set(after), set(after) - set(before)
    marked = [f"- {line}" for line in before if line in removed]
    return marked + [f"+ {line}" for line in after if line in added]


def main() -> int:
    """Write the golden files, or compare with them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, change nothing")
    check = parser.parse_args().check
    changed = False
    for name, make in GOLDEN.items():
        if check:
            lines = differences(name)
            print(f"{name}: {'no data' if lines is None else f'{len(lines)} lines differ'}")
            print("".join(f"  {line}\n" for line in (lines or [])[:20]), end="")
            changed |= bool(lines)
        elif (text := make()) is None:
            print(f"{name}: left as it is, {DATA} has not {', '.join(PUBLIC)}", file=sys.stderr)
        else:
            print(f"{name}: {_write(FOLDER / name, text)}")
    return int(changed)


def _write(file: Path, text: str) -> str:
    """Write a golden file; return how it changed and what to do with it."""
    before, after = file.read_text().splitlines(), text.splitlines()
    file.write_text(text)
    if before == after:
        return "no line changed"
    gone, new = len(set(before) - set(after)), len(set(after) - set(before))
    return (
        f"{gone} lines removed, {new} added; read `git diff {file.relative_to(REPO)}`, and commit"
        " the file together with the change that these lines come from"
    )


if __name__ == "__main__":
    sys.exit(main())
