"""Where control goes in code, without what else an instruction does: quicker than to decode it."""

from typing import NamedTuple

import iced_x86 as iced

from loopwright.code.decode import X86_FLOW, near_target, repeats
from loopwright.code.instructions import Flow


class FlowStep(NamedTuple):
    """One instruction: its address, the address behind it, and where it sends control."""

    address: int
    end: int
    flow: Flow
    target: int | None = None
    string: bool = False


def steps(isa: str, code: bytes, address: int) -> list[FlowStep]:
    """Return the instructions of code up to the first byte that starts none."""
    return _x86(code, address) if isa == "x86_64" else _arm64(code, address)


def _x86(code: bytes, address: int) -> list[FlowStep]:
    out = []
    for ins in iced.Decoder(64, code, ip=address):
        if ins.is_invalid:
            break
        flow = X86_FLOW.get(ins.flow_control, Flow.INDIRECT)
        target = near_target(ins) if flow is not Flow.NEXT else None
        out.append(FlowStep(ins.ip, ins.next_ip, flow, target, repeats(ins)))
    return out


def _arm64(code: bytes, address: int) -> list[FlowStep]:
    """Read branches by their fixed bits (Arm ARM, C4.1.65)."""
    out = []
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        here, flow, target = address + at, Flow.NEXT, None
        if word & 0x7C000000 == 0x14000000:
            flow = Flow.CALL if word >> 31 else Flow.JUMP
            target = here + 4 * _signed(word, 0, 26)
        elif word & 0xFE000000 == 0x54000000 or word & 0x7E000000 == 0x34000000:
            flow, target = Flow.BRANCH, here + 4 * _signed(word, 5, 19)
        elif word & 0x7E000000 == 0x36000000:
            flow, target = Flow.BRANCH, here + 4 * _signed(word, 5, 14)
        elif word & 0xFE000000 == 0xD6000000:
            kind = word >> 21 & 7
            flow = {1: Flow.CALL, 2: Flow.RETURN, 4: Flow.RETURN}.get(kind, Flow.INDIRECT)
        out.append(FlowStep(here, here + 4, flow, target))
    return out


def _signed(word: int, low: int, width: int) -> int:
    value = word >> low & ((1 << width) - 1)
    return value - (1 << width) if value >> (width - 1) else value
