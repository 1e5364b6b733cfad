"""llvm-mca: LLVM's scheduling models, with a dispatch width as the only front end.

One process answers for many regions. Its stderr is read as well, because llvm-mca skips lines that
it cannot parse and still prints a figure for the rest.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Answer, Block, unfit

_TRIPLES = {"x86_64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
# Instructions whose unmodeled side effects (a trap on a zero divisor, or none) take no time. Others
# that LLVM marks so (stac, lfence, cpuid, dc zva, ...) have a flat assumed cost in its models.
_HARMLESS = {
    "div", "divb", "divw", "divl", "divq", "idiv", "idivb", "idivw", "idivl", "idivq", "nop",
    "hint",
}  # fmt: skip


class LlvmMca:
    """llvm-mca as distributed with LLVM."""

    id = "llvm-mca"
    short = "llvm-mca"
    corrects = ""
    iterations = 1000  # ramp-up then adds less than 0.1 % to a block of 10 cycles

    def version(self) -> str:
        return _version()

    def lacks(self, core: Microarch) -> str:
        return "" if "llvm" in core.called else f"llvm-mca has no model of {core.id}"

    def options(self, core: Microarch) -> list[str]:
        """Return the extra options for a core."""
        del core
        return []

    def command(self, core: Microarch) -> list[str]:
        """Return the command that reads a text for a core from standard input."""
        return [
            _program(),
            f"-mtriple={_TRIPLES[core.isa]}",
            f"-mcpu={core.called['llvm']}",
            f"-iterations={self.iterations}",
            *self.options(core),
        ]

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer with the total cycles of 1000 iterations divided by 1000."""
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        command = [*self.command(core), "-json"]
        answers = {n: Answer.none(why) for n, b in enumerate(blocks) if (why := unfit(b))}
        todo = [n for n in range(len(blocks)) if n not in answers]
        while todo:
            answers |= _run(command, blocks, todo)
            todo = [n for n in todo if n not in answers]
        return [answers[n] for n in range(len(blocks))]


class CorrectedLlvmMca(LlvmMca):
    """llvm-mca with command-line options known to correct a core's model."""

    id = "llvm-mca-corrected"
    short = "mca-corr"
    corrects = LlvmMca.id

    def lacks(self, core: Microarch) -> str:
        """Return a message if core.toml has no corrections or LLVM no model, or ""."""
        if lacking := super().lacks(core):
            return lacking
        return "" if _corrected(core) else f"no corrected llvm-mca settings are known for {core.id}"

    def options(self, core: Microarch) -> list[str]:
        """Return the corrections in core.toml."""
        return list(_corrected(core)["options"])


def _corrected(core: Microarch) -> dict[str, Any]:
    table: dict[str, Any] = core.parameters.get("llvm_mca", {}).get("corrected", {})
    return table


@cache
def _program() -> str:
    for name in ("llvm-mca-19", "llvm-mca"):
        program = shutil.which(name)
        if program and " 19." in _banner(program):
            return program
    raise InputError("llvm-mca 19 is missing: install it with `apt install llvm-19`")


@cache
def _banner(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


@cache
def _version() -> str:
    match = re.search(r"version (\S+)", _banner(_program()))
    return f"llvm-mca {match.group(1)}" if match else "llvm-mca"


def regions(blocks: Sequence[Block], numbers: Iterable[int]) -> tuple[str, dict[int, int]]:
    """Return the blocks of these numbers as regions b0, b1, ... of one text for llvm-mca.

    The second value maps each of its lines (from 1) to the number of its block.
    """
    lines: list[str] = []
    owner: dict[int, int] = {}
    for n in numbers:
        lines.append(f"# LLVM-MCA-BEGIN b{n}")
        for ins in blocks[n].instructions:
            lines.append(ins.text)
            owner[len(lines)] = n
        lines.append(f"# LLVM-MCA-END b{n}")
    return "\n".join(lines) + "\n", owner


def _run(command: list[str], blocks: Sequence[Block], numbers: list[int]) -> dict[int, Answer]:
    """Run the blocks of these numbers as regions of one file; return their answers by number.

    If the run fails, only the blocks that stderr names by line have an answer, its message; if it
    names none, each block runs alone.
    """
    text, owner = regions(blocks, numbers)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    stderr = done.stderr.strip()
    if done.returncode == 0 and not stderr:
        report = json.loads(done.stdout)
        # The names of instances of one resource end in a control character, their number.
        names = [
            re.sub(r"[\0-\x1f]", lambda c: str(ord(c[0])), name)
            for name in report["TargetInfo"]["Resources"]
        ]
        by_name = {r["Name"]: r for r in report["CodeRegions"]}
        return {n: _answer(blocks[n], by_name.get(f"b{n}"), names) for n in numbers}
    refused = re.findall(r"^\S*?:(\d+):\d+: (?:error|warning): (.*)$", stderr, re.M)
    messages = {owner[int(line)]: message for line, message in refused if int(line) in owner}
    if not messages and len(numbers) == 1:
        messages = {numbers[0]: stderr.splitlines()[0] if stderr else "failed"}
    if messages:
        return {n: Answer.none(f"llvm-mca: {message}") for n, message in messages.items()}
    return {n: answer for m in numbers for n, answer in _run(command, blocks, [m]).items()}


def _answer(block: Block, region: dict[str, Any] | None, resources: list[str]) -> Answer:
    read = len(region["Instructions"]) if region else 0
    if region is None or read != len(block.instructions):
        return Answer.none(f"llvm-mca read {read} of {len(block.instructions)} instructions")
    for text, info in zip(
        region["Instructions"], region["InstructionInfoView"]["InstructionList"], strict=True
    ):
        name = text.split()[0]
        if info["hasUnmodeledSideEffects"] and name not in _HARMLESS:
            return Answer.none(f"{name}: llvm-mca does not model what it does to the pipeline")
    summary = region["SummaryView"]
    cycles = summary["TotalCycles"] / summary["Iterations"]
    return Answer(round(cycles, 3), _bottleneck(region, cycles, resources))


def _bottleneck(region: dict[str, Any], cycles: float, resources: list[str]) -> str:
    """Return the bottleneck within 2 % of the cycles: dispatch, a resource, else latency."""
    summary = region["SummaryView"]
    count = len(region["Instructions"])
    uops = summary["TotaluOps"] / summary["Iterations"]
    if uops / summary["DispatchWidth"] >= 0.98 * cycles:
        return f"dispatch of {uops:g} uops, {summary['DispatchWidth']} a cycle"
    use = [
        (r["ResourceUsage"], r["ResourceIndex"])
        for r in region["ResourcePressureView"]["ResourcePressureInfo"]
        if r["InstructionIndex"] == count
    ]
    pressure, index = max(use, default=(0.0, 0))
    if pressure >= 0.98 * cycles:
        return f"resource {resources[index]}"
    return "dependency chain or queues"
