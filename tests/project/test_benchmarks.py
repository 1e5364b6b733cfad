"""make bench measures what it says it does; how fast is asserted nowhere."""

import os
import re
import subprocess
import sys

import pytest
from checkout import ROOT

PROGRAM = ROOT / "benchmarks" / "keep.py"


RECORDS = sorted((ROOT / "benchmarks" / "record").glob("*.txt"))


@pytest.mark.slow
def test_every_answer_is_timed_and_kept(tmp_path):
    blocks = tmp_path / "blocks.csv"
    blocks.write_text("id,hex\nadd,4801d8\nstring,f348a5\ncall,e800000000\nnone,06\n")
    done = subprocess.run(
        [sys.executable, PROGRAM, "6", blocks],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LOOPWRIGHT_BENCH_RECORD": str(tmp_path)},
    )
    [kept] = tmp_path.glob("????-??-??.txt")
    assert kept.read_text() == done.stdout
    assert re.search(r"^loopwright \S+ \(", done.stdout, re.M)
    assert re.search(r"^machine: .+ CPUs$", done.stdout, re.M)
    assert re.search(r"^loopwright --help +\d+\.\d\d s$", done.stdout, re.M)
    assert re.search(
        r"^zen2: loopwright predict --blocks, 6 blocks +\d+ blocks/s$", done.stdout, re.M
    )
    assert re.search(r"^zen2: llvm-mca, as many regions, 100 iterations", done.stdout, re.M)
    assert len(re.findall(r"the former is \d+\.\d times the latter", done.stdout)) == 2
    for model in ("pipeline, one call", "llvm-mca, one process"):
        assert re.search(rf"^{model}, no two blocks alike +\d+ blocks/s$", done.stdout, re.M)
    assert re.search(r"^skylake: pipeline, all 64 code offsets +\d+ loops/s$", done.stdout, re.M)
    assert re.search(r"^osaca, one worker +\d+ blocks/s$", done.stdout, re.M)


def test_there_is_a_record_and_each_says_what_it_is_of():
    assert RECORDS
    for record in RECORDS:
        text = record.read_text()
        assert text.startswith(record.stem)
        assert re.search(r"^load when it began: \d", text, re.M)
        assert re.search(r"the former is \d+\.\d times the latter", text)
