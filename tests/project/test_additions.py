"""What docs/architecture.md says that an addition touches is all that it takes."""

import os
import re
import subprocess
import sys

import pytest
from checkout import ROOT

from loopwright import paths
from loopwright.kernels.contracts import EFFECTS

KERNEL = """\
summary = "fill bytes with zero"
baseline = "stores"

[contract]
symbol = "fill_bytes"
effect = "clear"
inputs = { dst = "rdi", count = "rcx" }
returns = { uncopied = "rcx" }
may_change = ["rax", "rcx", "rdi", "flags"]

[[variant]]
name = "stores"
summary = "a byte an iteration"

[[variant]]
name = "string"
summary = "rep stosb"
"""
STORES = """\
	testq %rcx,%rcx
	je 2f
1:	movb $0,(%rdi)
	incq %rdi
	decq %rcx
	jnz 1b
"""
STRING = """\
	xorl %eax,%eax
1:	rep stosb
"""
VARIANT = """\
#include <linux/linkage.h>
#include <asm/asm.h>
SYM_FUNC_START(fill_bytes)
{}2:	RET
	_ASM_EXTABLE_UA(1b, 2b)
SYM_FUNC_END(fill_bytes)
"""
MODEL = '''\
"""A model of one cycle."""

from loopwright.predicting.model import Answer


class OneCycle:
    id, short, corrects = "one-cycle", "one", ""

    def version(self):
        return "one-cycle 1"

    def lacks(self, core):
        return ""

    def predict(self, blocks, core):
        return [Answer(1.0) for _ in blocks]
'''


@pytest.fixture
def house(tmp_path):
    """Return a copy of the package, beside what it reads in a checkout."""
    for path in (ROOT / "loopwright").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    for name in ("models", "harness"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "kernels" / "x86_64").mkdir(parents=True)
    for family in (ROOT / "kernels").glob("x86_64/c*"):
        (tmp_path / "kernels" / "x86_64" / family.name).symlink_to(family)
    return tmp_path


RUN = """
import sys
from loopwright.cli import run

for command in sys.argv[1:]:
    assert run(command.split()) == 0
    print(end="\\f")
"""


def run(house, *commands):
    """Return what each of the commands prints, run in one process."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *commands],
        capture_output=True,
        text=True,
        check=False,
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house), "LOOPWRIGHT_BUILD": str(paths.build_dir())},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\f")[:-1]


def test_a_kernel_is_a_folder(house):
    folder = house / "kernels" / "x86_64" / "fill_bytes"
    folder.mkdir()
    (folder / "kernel.toml").write_text(KERNEL)
    for name, body in (("stores", STORES), ("string", STRING)):
        (folder / f"{name}.S").write_text(VARIANT.format(body))
    kernels, listed, said, held = run(
        house,
        "list kernels",
        "list variants --csv",
        "predict x86_64/fill_bytes --microarch zen2 --csv",
        "check x86_64/fill_bytes --csv",
    )
    assert "x86_64/fill_bytes" in kernels
    assert re.findall(r"^x86_64/fill_bytes\W(\w+)", listed, re.M) == ["stores", "string"]
    assert re.findall(r"^x86_64/fill_bytes,fill_bytes,(\w+),zen2,pipeline,loop,\d+,\d", said, re.M)
    assert len(re.findall(r"^x86_64/fill_bytes,.*True", held, re.M)) == 2


def test_a_model_is_a_file_and_its_line(house):
    folder = house / "loopwright" / "predicting"
    (folder / "one_cycle.py").write_text(MODEL)
    text = (folder / "models.py").read_text()
    line = re.search(r"^MODELS: .*\)\n", text, re.M)[0]
    added = line.replace("())\n", "(), OneCycle())\n")
    imported = "from loopwright.predicting.one_cycle import OneCycle\nMODELS"
    (folder / "models.py").write_text(
        text.replace(line, added).replace("\nMODELS", f"\n{imported}", 1)
    )
    listed, found, said = run(
        house,
        "list models",
        "doctor",
        "predict x86_64/csum/adc4 --microarch zen2 --model all",
    )
    assert "one-cycle 1" in listed
    assert "model one-cycle" in found
    assert re.search(r"\bone\b", said.splitlines()[0])
    assert re.search(r"^adc4 .* 1\.00$", said, re.M)


def test_an_effect_is_known_wherever_it_has_to_be():
    job = (ROOT / "harness" / "job.c").read_text()
    [listed] = re.findall(r"effects\[\] = \{(.*?)\}", job, re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', listed)) == tuple(EFFECTS)
    header = (ROOT / "harness" / "kmod" / "kmod.h").read_text()
    [in_module] = re.findall(r"enum effect \{(.*?)\}", header, re.DOTALL)
    known = re.findall(r"EFFECT_(\w+)", in_module)
    assert known == [name.upper() for name, effect in EFFECTS.items() if effect.in_module]
    document = (ROOT / "docs" / "architecture.md").read_text()
    [row] = [line for line in document.splitlines() if line.startswith("| an effect |")]
    for file in ("contracts.py", "job.c", "effect.c", "kmod.h"):
        assert file in row
