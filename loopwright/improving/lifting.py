"""Listings of assembled code, for sources whose text differs from the executed code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.code.instructions import Code, Flow, Instruction, decode
from loopwright.errors import InputError
from loopwright.improving.listing import MADE, Line, Listing, code, label
from loopwright.kernels import Contract

INLINED = "calls inlined"


def lift(assembled: Code, contract: Contract) -> Listing:
    """Return a listing of assembled code, with new labels.

    Calls of routines in the same text are inlined, which is a step of the listing. InputError for
    code that continues elsewhere, and for callees that use the stack.
    """
    routine = _Routine(assembled, contract)
    body = list(routine.main())
    lines = [Line("text", text) for text in _HEADERS[assembled.isa]]
    lines.append(Line("text", f"SYM_FUNC_START({contract.symbol})"))
    lines += [*body, *routine.apart, *routine.entries]
    lines += [
        Line("text", f"SYM_FUNC_END({contract.symbol})"),
        Line("text", f"EXPORT_SYMBOL({contract.symbol})"),
    ]
    steps = (INLINED,) if routine.sites else ()
    used = {word for line in lines for word in re.findall(r"[.\w$]+", f"{line.text} {line.target}")
            if line.kind in ("code", "entry")}  # fmt: skip
    kept = (line for line in lines if line.kind != "label" or line.text in used)
    return Listing(tuple(kept), contract, assembled.isa, steps)


@dataclass(frozen=True)
class _Site:
    """An inlined call: its number, 0 for the routine itself, and the label after the call."""

    number: int
    behind: str = ""

    def name(self, address: int) -> str:
        return f".L{address:x}" if not self.number else f".Lcall{self.number}_{address:x}"


class _Routine:
    """The statements of a routine, collected; those of `apart` come after its own."""

    def __init__(self, assembled: Code, contract: Contract) -> None:
        self._code, self._contract = assembled, contract
        self._fixups = {e.insn: e for e in assembled.exceptions}
        self._padding = _padding(assembled)
        self.sites = 0
        self.apart: list[Line] = []
        self.entries: list[Line] = []

    def main(self) -> Iterator[Line]:
        """Yield the statements of the routine itself."""
        within = {i.address for i in self._code.instructions}
        site = _Site(0)
        for ins in self._code.instructions:
            if ins.address in self._padding:
                if power := self._padding[ins.address]:
                    yield Line("text", f"\t.p2align {power}")
            elif ins.flow is Flow.CALL and ins.target is not None:
                yield label(site.name(ins.address))
                yield from self._inlined(ins)
            else:
                yield from self._statement(ins, site, within)

    def _statement(self, ins: Instruction, site: _Site, within: set[int]) -> Iterator[Line]:
        yield label(site.name(ins.address))
        if entry := self._fixups.get(ins.address):
            self._inside(entry.fixup, within)
            name = f"{MADE}{site.number}_{ins.address}"
            yield label(name)
            macro = _MACROS[self._code.isa] if "UACCESS" in entry.type else "_ASM_EXTABLE"
            self.entries.append(Line("entry", name, site.name(entry.fixup), macro))
        text = ins.text
        if ins.target is not None:
            self._inside(ins.target, within)
            text = re.sub(r"(#?0x[0-9a-f]+|#?\d+)$", site.name(ins.target), text)
        if ins.flow is Flow.RETURN and site.number:
            text = f"jmp {site.behind}" if self._code.isa == "x86_64" else f"b {site.behind}"
            yield code(text)
        else:
            yield code(_dialect(text, ins.mnemonic))

    def _inside(self, address: int, within: set[int]) -> None:
        if address not in within:
            raise InputError(
                f"{self._contract.symbol} goes on at {address:#x}, outside of it: it cannot be "
                "improved"
            )

    def _inlined(self, call: Instruction) -> Iterator[Line]:
        """Yield a callee's instructions from its start to its return; the others go to `apart`."""
        self.sites += 1
        site = _Site(self.sites, f".Lbehind_call{self.sites}")
        callee = self._callee(call)
        within = {ins.address for ins in callee}
        straight = [ins for ins in callee if ins.address >= (call.target or 0)]
        ends = next((n for n, ins in enumerate(straight) if ins.flow is Flow.RETURN), None)
        if ends is None:
            raise InputError(f"{self._contract.symbol} calls what does not return")
        own = straight[: ends + 1]
        for ins in own[:-1]:
            yield from self._statement(ins, site, within)
        yield label(site.name(own[-1].address))
        yield label(site.behind)
        rest = [ins for ins in callee if ins not in own]
        for ins in rest:
            self.apart += self._statement(ins, site, within)

    def _callee(self, call: Instruction) -> list[Instruction]:
        """Return the instructions that a call may execute, by address."""
        by_address = {i.address: i for i in decode(self._code.isa, self._code.text)}
        reached: dict[int, Instruction] = {}
        pending = [call.target or 0]
        while pending:
            at = pending.pop()
            if at in reached:
                continue
            ins = by_address.get(at)
            if ins is None or ins.flow in (Flow.CALL, Flow.INDIRECT) or "rsp" in ins.text:
                raise InputError(
                    f"{self._contract.symbol} calls {at:#x}, which cannot be inlined: it calls, "
                    "uses the stack or lies elsewhere"
                )
            reached[at] = ins
            if entry := self._fixups.get(at):
                pending.append(entry.fixup)
            if ins.target is not None:
                pending.append(ins.target)
            if ins.flow not in (Flow.JUMP, Flow.RETURN):
                pending.append(ins.end)
        return [reached[at] for at in sorted(reached)]


_MACROS = {"x86_64": "_ASM_EXTABLE_UA", "arm64": "_asm_extable_uaccess"}


def _padding(assembled: Code) -> dict[int, int]:
    """Return alignment nops by address: the power of two for the first of a run, 0 for others."""
    out: dict[int, int] = {}
    run: list[Instruction] = []
    for ins in assembled.instructions:
        if re.fullmatch(r"nop[wl]?|data16|cs", ins.mnemonic):
            run.append(ins)
            continue
        if run:
            length = ins.address - run[0].address
            powers = range(2, assembled.align.bit_length())
            power = max((p for p in powers if ins.address % (1 << p) == 0), default=0)
            if power and length < 1 << power:
                out |= {nop.address: 0 for nop in run} | {run[0].address: power}
        run = []
    return out


def _dialect(text: str, mnemonic: str) -> str:
    """Return an instruction in the kernel's dialect."""
    if mnemonic in ("stac", "clac"):
        return f'ALTERNATIVE "", "{mnemonic}", X86_FEATURE_SMAP'
    if mnemonic in ("ret", "retq"):
        return "RET" if mnemonic == "retq" else "ret"
    return " ".join(text.split())


_HEADERS = {
    "x86_64": (
        "/* SPDX-License-Identifier: GPL-2.0-or-later */",
        "#include <linux/export.h>",
        "#include <linux/linkage.h>",
        "#include <asm/cpufeatures.h>",
        "#include <asm/alternative.h>",
        "#include <asm/asm.h>",
        "",
    ),
    "arm64": (
        "/* SPDX-License-Identifier: GPL-2.0-or-later */",
        "#include <linux/linkage.h>",
        "#include <asm/asm-uaccess.h>",
        "#include <asm/assembler.h>",
        "",
    ),
}
