"""Scans weighed by profiles, in the words that perf and bpftrace print them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from scanned import linked
from test_boundary import CLEAR
from test_scan import MORE

import loopwright as lw
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.scanning import scan

# As perf 6.1 prints call chains, and single samples with fields of their own choice.
CHAINS = """\
# captured on: Sun Nov 22 06:00:00 2026
program  1234 [001]  5678.123456:     250000 cycles:P:
	{clears:16x} clears+0x2 (/tmp/{name})
	{main:16x} main+0x14 (/tmp/{name})

program  1234 [001]  5678.223456:     750000 cycles:P:
	{sums:16x} sums+0x3 (/tmp/{name})

swapper     0 [000]  5678.323456:    1000000 cycles:P:
	ffffffff81a00000 native_safe_halt+0xb ([kernel.kallsyms])

"""
SINGLE = """\
     program  1234 [001]  5678.123456:     250000 cycles:P: {clears:16x} clears+0x2 (/tmp/{name})
     program  1234 [001]  5678.223456:     750000 cycles:P: {sums:16x} [unknown] (/tmp/{name})
     swapper     0 [000]  5678.3:     1000000 cycles:P: ffffffff81a00000 halt+0xb ([kernel])
"""
# With --show-mmap-events: the file lies elsewhere in memory than in itself.
MOVED = """\
     program  1234  5678.1: PERF_RECORD_MMAP2 1234/1234: [0x7f0000400000(0x100000) @ 0x400000 \
fe:00 326295 0]: r-xp /tmp/{name}
     program  1234 [001]  5678.123456:     250000 cycles:P:      7f0000{clears:06x} [unknown] \
(/tmp/{name})
     program  1234 [001]  5678.223456:     750000 cycles:P:      7f0000{sums:06x} [unknown] \
(/tmp/{name})
     swapper     0 [000]  5678.3:     1000000 cycles:P: ffffffff81a00000 halt+0xb ([kernel])
"""
STACKS = """\
Attaching 1 probe...

@[
    sums+3
    caller+17
]: 750
@[
    clears+2
]: 250
@[
    somewhere_else+100
]: 1000
"""
ADDRESSES = "@[{clears}]: 250\n@[{sums:#x}]: 750\n@[12345678]: 1000\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return linked(tmp_path, CLEAR.format(skip=56) + MORE)


def profile(program: Path, text: str) -> Path:
    rows = lw.scan(program, microarch="zen2").set_index("function")
    at = {name: int(str(rows["address"][name]), 16) for name in ("clears", "sums")}
    at["main"] = 0x401234
    file = program.parent / "profile.txt"
    file.write_text(text.format(**at, name=program.name) if "{" in text else text)
    return file


@pytest.mark.parametrize("text", [CHAINS, SINGLE, MOVED, STACKS, ADDRESSES])
def test_loops_are_ranked_by_the_share_of_cycles_that_they_could_save(
    program: Path, text: str
) -> None:
    rows = lw.scan(program, microarch="zen2", profile=profile(program, text))
    by_name = rows.set_index("function")
    assert by_name["share"]["clears"] == 12.5
    assert by_name["share"]["sums"] == 37.5
    assert by_name["saved"]["clears"] == 6.25
    assert by_name["share_of"]["clears"] == "loop"
    # Loops that no offset would make faster come after the others, by their share.
    assert rows["function"].tolist()[:2] == ["clears", "sums"]


REPORT = """\
# Samples: 4K of event 'cycles:P'
# Event count (approx.): 123456789
#
# Overhead  Symbol                     Source:Line
# ........  .........................  ..............
#
    60.00%  [.] sums                   sums.s:2
    25.00%  [.] clears                 clears.s:5
    15.00%  [k] native_safe_halt       idle.c:12
"""


# Without lines perf gives how far in a routine, without names the address.
PLACES = """\
    25.00%  program  {name}  [.] clears            clears+2       -      -
    12.50%  program  {name}  [.] {sums:#018x}  ??:0           -      -
    62.50%  swapper  [kernel.kallsyms]  [k] halt  halt+11        -      -
"""


def test_a_report_may_say_where_in_a_routine(program: Path) -> None:
    by_name = lw.scan(program, microarch="zen2", profile=profile(program, PLACES))
    shares = by_name.set_index("function")["share"]
    assert (shares["clears"], shares["sums"]) == (25, 12.5)


def test_a_report_by_routine_is_an_upper_limit(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = lw.scan(program, microarch="zen2", profile=profile(program, REPORT))
    by_name = rows.set_index("function")
    assert by_name["share"]["sums"] == 60
    assert by_name["share_of"]["sums"] == "routine"
    assert by_name["saved"]["clears"] == 12.5
    arguments = ["scan", str(program), "--profile", str(program.parent / "profile.txt")]
    assert run([*arguments, "--microarch", "zen2"]) == 0
    assert "saved %" in capsys.readouterr().out


def test_a_profile_of_something_else_says_so(program: Path) -> None:
    other = program.parent / "other.txt"
    other.write_text("@[\n    of_another+5\n]: 7\n")
    with pytest.raises(InputError, match=r"none of the samples of .*other\.txt lies in"):
        lw.scan(program, profile=other)
    for text in ("", "hello\n", "@bytes: \n[4, 8) 5 |@@@|\n"):
        other.write_text(text)
        with pytest.raises(InputError, match="holds no samples"):
            lw.scan(program, profile=other)
    assert run(["scan", str(program), str(program), "--profile", str(other)]) == 2
    with pytest.raises(InputError, match="No such file"):
        lw.scan(program, profile=program.parent / "nothing")


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not here")
def test_a_damaged_perf_data_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "perf.data"
    file.write_bytes(b"PERFILE2" + b"\0" * 100)
    with pytest.raises(InputError, match="perf script cannot read"):
        scan.read_samples(file)


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not here")
def test_a_perf_data_is_read_by_perf(tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    command = ["perf", "record", "-e", "cpu-clock", "-o", str(data), "--", "sha1sum", "/bin/bash"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not data.exists():
        pytest.skip(f"perf cannot record here: {done.stderr.strip()[:100]}")
    samples = scan.read_samples(data)
    assert samples
    assert all(sample.weight > 0 for sample in samples)


def test_without_perf_a_perf_data_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "perf.data"
    file.write_bytes(b"PERFILE2")
    with pytest.raises(InputError, match="perf is not here"):
        scan.read_samples(file)
