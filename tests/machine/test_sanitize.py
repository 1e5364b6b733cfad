"""The harness under sanitizers, of addresses and of undefined behaviour: jobs, and bad ones."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from loopwright import kernels, paths, toolchain
from loopwright.code import assemble
from loopwright.kernels import contract_of
from loopwright.machine import harness

pytestmark = pytest.mark.slow

ISA = toolchain.host_isa()
FLAGS = [
    "-O1",
    "-g",
    "-std=gnu11",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
]
# The harness handles faults itself, maps what it likes, and leaves memory to the end of a process.
OPTIONS = {
    "ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:"
    "allow_user_segv_handler=1:detect_leaks=0:use_sigaltstack=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Every unit of the harness, compiled."""
    folder = tmp_path_factory.mktemp("sanitize")
    units = [p for p in harness._sources(ISA) if p.suffix in (".c", ".S")]
    made = {unit: folder / f"{n}.o" for n, unit in enumerate(units)}
    with ThreadPoolExecutor(toolchain.cpus()) as pool:
        list(pool.map(lambda unit: compiled(unit, made[unit], unit.parent), units))
    return made


def compiled(unit, into, beside):
    command = [toolchain.find(ISA).gcc, *FLAGS, "-iquote", beside, "-c", unit, "-o", into]
    subprocess.run(command, check=True)


def linked(objects, path):
    command = [toolchain.find(ISA).gcc, *FLAGS, *map(str, objects), "-o", str(path), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("the sanitizers' libraries are missing: `apt install libasan8 libubsan1`")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def program(objects, tmp_path_factory):
    return linked(objects.values(), tmp_path_factory.mktemp("sanitize") / "harness")


def answers(program, text):
    done = subprocess.run(
        [str(program)], input=text, capture_output=True, text=True, check=False,
        env=os.environ | OPTIONS,
    )  # fmt: skip
    assert "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def specs():
    found = {"x86_64": ["copy_user/movsq", "clear_user/plain", "csum/adc1", "put_event/masked"]}
    return [f"{ISA}/{name}" for name in found.get(ISA, ["copy_user/to_user_pairs"])]


def whole(spec):
    """A job of a quick check."""
    variant = kernels.select(spec)[1][0]
    text = harness.check_job("whole", assemble.user_code(variant), contract_of(variant))
    return text.replace("end\n", "max_size 48\nend\n")


@pytest.mark.parametrize("spec", specs())
def test_checks_touch_nothing_that_is_not_theirs(program, spec):
    [record] = answers(program, whole(spec))
    assert record["passed"], record["failure"]


WRONG = [
    "job check\nend\n",
    "job check\nid x\nisa nothing\nend\n",
    f"job check\nid {'x' * 5000}\nend\n",
    f"job check\nid x\nisa {ISA}\ncode {'90' * 70000}\nend\n",
    f"job check\nid x\nisa {ISA}\ncode 9\nend\n",
    f"job check\nid x\nisa {ISA}\nrecord 99999999999999999999 -1\nend\n",
    f"job block\nid x\nisa {ISA}\ncode 90\ntimes 0 0\nend\n",
    "job judge\nid x\nseries 1 2 3\nsample 1\nend\n",
    "job",
    "\n" * 100,
]


@pytest.mark.parametrize("text", WRONG)
def test_wrong_jobs_are_answered(program, text):
    for record in answers(program, text):
        assert "error" in record or record.get("refused"), record


# By where it is: in the process that reads jobs, and in one that runs a variant.
PLANTED = {
    "a byte too many in the reader": (
        "job.c", "malloc(digits / 2)", "malloc(digits / 2 - 1)", "heap-buffer-overflow",
    ),
    "a sum too large in the reader": (
        "job.c", "high << 4 | low;", "(0x7ffffff8 + high) >> 3 | low;", "signed integer overflow",
    ),
    "a byte too many in a check": (
        "buffers.c", "malloc(size)", "malloc(size - 1)", "heap-buffer-overflow",
    ),
    "a sum too large in a check": (
        "buffers.c", "? 8 : 6;", "? 8 : (0x7ffffffa + (int)job->max_size) >> 31 & 6;",
        "signed integer overflow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", PLANTED)
def test_what_is_planted_is_found(objects, where, tmp_path):
    name, old, new, said = PLANTED[where]
    [unit] = [u for u in objects if u.name == name and u.parent == paths.HARNESS]
    text = unit.read_text()
    assert text.count(old) == 1
    (tmp_path / name).write_text(text.replace(old, new))
    compiled(tmp_path / name, tmp_path / "planted.o", unit.parent)
    rest = [o for u, o in objects.items() if u != unit]
    broken = linked([*rest, tmp_path / "planted.o"], tmp_path / "harness")
    with pytest.raises(AssertionError, match=said):
        answers(broken, whole(specs()[0]))
