"""Listings of assembled code, for sources whose text differs from what is executed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loopwright.code.instructions import Code, Flow, Instruction, decode
from loopwright.errors import InputError
from loopwright.improving.listing import MADE, Line, Listing, code, label
from loopwright.kernels import Contract

INLINED = "calls inlined"


def lift(assembled: Code, contract: Contract) -> Listing:
    """Return a listing of assembled code, with generated labels.

    Calls of routines in the same text are inlined, which is a step of the listing. InputError for
    code that continues elsewhere, or whose callees use the stack.
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
    used = {word for one in lines for word in re.findall(r"[.\w$]+", f"{one.text} {one.target}")
            if one.kind in ("code", "entry")}  # fmt: skip
    kept = (one for one in lines if one.kind != "label" or one.text in used)
    return Listing(tuple(kept), contract, assembled.isa, steps)


@dataclass(frozen=True)
class _Site:
    """An inlined call: its number, 0 for the routine itself, and the label behind it."""

    number: int
    behind: str = ""

    def name(self, address: int) -> str:
        return f".L{address:x}" if not self.number else f".Lcall{self.number}_{address:x}"


class _Routine:
    """The statements of a routine in the making; those out of the way follow its own."""

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
        for one in self._code.instructions:
            if one.address in self._padding:
                if power := self._padding[one.address]:
                    yield Line("text", f"\t.p2align {power}")
            elif one.flow is Flow.CALL and one.target is not None:
                yield label(site.name(one.address))
                yield from self._inlined(one)
            else:
                yield from self._statement(one, site, within)

    def _statement(self, one: Instruction, site: _Site, within: set[int]) -> Iterator[Line]:
        yield label(site.name(one.address))
        if entry := self._fixups.get(one.address):
            self._inside(entry.fixup, within)
            name = f"{MADE}{site.number}_{one.address}"
            yield label(name)
            macro = _MACROS[self._code.isa] if "UACCESS" in entry.type else "_ASM_EXTABLE"
            self.entries.append(Line("entry", name, site.name(entry.fixup), macro))
        text = one.text
        if one.target is not None:
            self._inside(one.target, within)
            text = re.sub(r"(#?0x[0-9a-f]+|#?\d+)$", site.name(one.target), text)
        if one.flow is Flow.RETURN and site.number:
            text = f"jmp {site.behind}" if self._code.isa == "x86_64" else f"b {site.behind}"
            yield code(text)
        else:
            yield code(_dialect(text, one.mnemonic))

    def _inside(self, address: int, within: set[int]) -> None:
        if address not in within:
            raise InputError(
                f"{self._contract.symbol} goes on at {address:#x}, outside of it: it cannot be "
                "improved"
            )

    def _inlined(self, call: Instruction) -> Iterator[Line]:
        """Yield a callee's instructions from its start to its return; others go out of the way."""
        self.sites += 1
        site = _Site(self.sites, f".Lbehind_call{self.sites}")
        callee = self._callee(call)
        within = {one.address for one in callee}
        straight = [one for one in callee if one.address >= (call.target or 0)]
        ends = next((n for n, one in enumerate(straight) if one.flow is Flow.RETURN), None)
        if ends is None:
            raise InputError(f"{self._contract.symbol} calls what does not return")
        own = straight[: ends + 1]
        for one in own[:-1]:
            yield from self._statement(one, site, within)
        yield label(site.name(own[-1].address))
        yield label(site.behind)
        rest = [one for one in callee if one not in own]
        for one in rest:
            self.apart += self._statement(one, site, within)

    def _callee(self, call: Instruction) -> list[Instruction]:
        """Return the instructions that a call may execute, by address."""
        by_address = {i.address: i for i in decode(self._code.isa, self._code.text)}
        found: dict[int, Instruction] = {}
        waiting = [call.target or 0]
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            one = by_address.get(at)
            if one is None or one.flow in (Flow.CALL, Flow.INDIRECT) or "rsp" in one.text:
                raise InputError(
                    f"{self._contract.symbol} calls {at:#x}, which cannot be inlined: it calls, "
                    "uses the stack or lies elsewhere"
                )
            found[at] = one
            if entry := self._fixups.get(at):
                waiting.append(entry.fixup)
            if one.target is not None:
                waiting.append(one.target)
            if one.flow not in (Flow.JUMP, Flow.RETURN):
                waiting.append(one.end)
        return [found[at] for at in sorted(found)]


_MACROS = {"x86_64": "_ASM_EXTABLE_UA", "arm64": "_asm_extable_uaccess"}


def _padding(assembled: Code) -> dict[int, int]:
    """Return the nops that align the next instruction: the alignment for the first of a run."""
    out: dict[int, int] = {}
    run: list[Instruction] = []
    for one in assembled.instructions:
        if re.fullmatch(r"nop[wl]?|data16|cs", one.mnemonic):
            run.append(one)
            continue
        if run:
            length = one.address - run[0].address
            powers = range(2, assembled.align.bit_length())
            power = max((p for p in powers if one.address % (1 << p) == 0), default=0)
            if power and length < 1 << power:
                out |= {nop.address: 0 for nop in run} | {run[0].address: power}
        run = []
    return out


def _dialect(text: str, mnemonic: str) -> str:
    """Return an instruction in the kernel's spelling."""
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
