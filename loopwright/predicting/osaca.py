"""OSACA: port pressure and loop-carried dependencies, without a front end."""

import sys
from collections.abc import Sequence
from functools import cache

import iced_x86 as iced

from loopwright.code.instructions import Instruction
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Answer, Block, Worker, unfit


class Osaca:
    """OSACA in one worker process that lives as long as this one."""

    id = "osaca"
    short = "osaca"
    corrects = ""

    def version(self) -> str:
        from importlib import metadata

        try:
            return f"OSACA {metadata.version('osaca')}"
        except metadata.PackageNotFoundError:
            raise InputError("OSACA is missing: install it with `pip install osaca`") from None

    def lacks(self, core: Microarch) -> str:
        return "" if "osaca" in core.called else f"OSACA has no model of {core.id}"

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer with the larger of port pressure and longest loop-carried dependency."""
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        self.version()
        return [_answer(block, core) for block in blocks]


def _answer(block: Block, core: Microarch) -> Answer:
    why = unfit(block)
    if why:
        return Answer.none(why)
    lines = [_text(block.isa, ins) for ins in block.instructions]
    syntax = "ATT" if block.isa == "x86_64" else None
    reply = _worker().ask({"arch": core.called["osaca"], "syntax": syntax, "lines": lines})
    if "error" in reply:
        return Answer.none(f"OSACA: {reply['error']}")
    if reply["unknown"]:
        return Answer.none(f"OSACA has no data for `{' '.join(reply['unknown'][0].split())}`")
    throughput, chain = reply["throughput"], reply["lcd"]
    name = f"port {reply['port']}" if throughput >= chain else "dependency chain"
    return Answer(round(max(throughput, chain), 3), name)


def _text(isa: str, ins: Instruction) -> str:
    """Return the instruction in the form that OSACA parses correctly.

    On x86 without a size suffix: OSACA takes a movq of general registers for the vector move.
    """
    if ins.target is not None:
        # OSACA does not know branches to a number.
        operands = ins.text.rsplit(" ", 1)[0]
        return f"{operands} .Ltarget"
    if isa != "x86_64":
        return ins.text
    decoded = iced.Decoder(64, ins.code, ip=ins.address).decode()
    text = _formatter().format(decoded)
    mnemonic, with_suffix = _formatter().format_mnemonic(decoded), ins.mnemonic
    intel_mnemonic = iced.Formatter(iced.FormatterSyntax.INTEL).format_mnemonic(decoded)
    if mnemonic == with_suffix and mnemonic[-1:] in "bwlq" and intel_mnemonic == mnemonic[:-1]:
        text = text.replace(mnemonic, mnemonic[:-1], 1)
    return text


@cache
def _formatter() -> iced.Formatter:
    formatter = iced.Formatter(iced.FormatterSyntax.GAS)
    formatter.space_after_operand_separator = True
    formatter.rip_relative_addresses = True
    return formatter


@cache
def _worker() -> Worker:
    return Worker([sys.executable, "-m", "loopwright.predicting.osaca_worker"])
