"""Run one call of a variant's code in an emulated core, and write down every instruction."""

import itertools

import unicorn

from loopwright.code.instructions import Code, Flow, Instruction, decode
from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract
from loopwright.tracing import recorder
from loopwright.tracing.machine import STACK_TOP, Machine, refusal
from loopwright.tracing.memory import PAGE, Buffer, Call, place
from loopwright.tracing.recorder import Steps
from loopwright.tracing.steps import Access, Step, Trace

_UNMAPPED = {unicorn.UC_ERR_READ_UNMAPPED: "src", unicorn.UC_ERR_WRITE_UNMAPPED: "dst"}


def run(code: Code, contract: Contract, call: Call, offset: int = 0) -> Trace:
    """Return what a call of code does, its text offset bytes behind a 64-byte boundary.

    InputError for a call that the contract has not, for code that Unicorn does not know, that
    faults where no exception table helps, or that does not return.
    """
    buffers = place(contract, call)
    machine = Machine(code, offset)
    for buffer in buffers.values():
        address, size = buffer.pages
        if size:
            machine.map(address, size)
    machine.prepare(inputs(contract, buffers, call.count))
    faults = follow(machine, code, contract)
    returned = {role: machine.read(name) for role, name in contract.returns.items()}
    found = _Reader(code, buffers, machine.base)
    return Trace(machine.base, found.steps(machine.recorder.steps, faults), returned)


def inputs(contract: Contract, buffers: dict[str, Buffer], count: int) -> dict[str, int]:
    """Return what the registers of a contract hold before a call."""
    values = {side: buffer.start for side, buffer in buffers.items()}
    values |= {"count": count, "sum": 0}
    return {name: values[role] for role, name in contract.inputs.items()}


def follow(machine: Machine, code: Code, contract: Contract) -> dict[int, str]:
    """Run to the return, through fixups; return which steps faulted and on which side."""
    fixups = {e.insn: e.fixup for e in code.exceptions}
    faults = {}
    at = machine.base + code.entry
    while error := machine.run(at):
        steps, where = machine.recorder.steps, f"{contract.symbol}: {_shown(code, machine.at)}"
        if error.errno not in _UNMAPPED:
            raise refusal(error, where)
        if machine.at not in fixups:
            raise InputError(f"{where} faults, and no entry of the exception table is for it")
        faults[len(steps) - 1] = _UNMAPPED[error.errno]
        at = machine.base + fixups[machine.at]
    if machine.recorder.full:
        raise InputError(f"{contract.symbol} does not return in {recorder.MOST_STEPS} steps")
    return faults


def _shown(code: Code, address: int) -> str:
    found = next((i for i in code.instructions if i.address == address), None)
    return " ".join(found.text.split()) if found else f"the code at {address:#x}"


class Decoded:
    """The instructions of code by where they start: those of helpers beside the routine, too."""

    def __init__(self, code: Code) -> None:
        """Take code."""
        self._code = code
        self._known = {i.address: i for i in code.instructions}

    def at(self, address: int, size: int) -> Instruction:
        """Return the instruction of so many bytes at an address."""
        if address not in self._known:
            found = decode(self._code.isa, self._code.text[address : address + size], address)
            [self._known[address]] = found
        return self._known[address]


class _Reader:
    """Makes steps of what was recorded."""

    def __init__(self, code: Code, buffers: dict[str, Buffer], base: int) -> None:
        self._decoded, self._buffers, self._base = Decoded(code), buffers, base

    def steps(self, recorded: Steps, faults: dict[int, str]) -> tuple[Step, ...]:
        rows = recorded.tolist()
        after = (row[0] - self._base for row in rows[1:])
        return tuple(
            self._step(row, later, faults.get(n, ""))
            for n, (row, later) in enumerate(itertools.zip_longest(rows, after))
        )

    def _step(self, row: tuple[int, ...], later: int | None, fault: str) -> Step:
        address, load, store, load_bytes, store_bytes, loads, stores, size = row
        ins = self._decoded.at(address - self._base, size)
        done = stores if ins.written_bytes else loads
        return Step(
            ins,
            taken=_taken(ins, later),
            repeats=done - bool(fault) if ins.string else 1,  # the last was begun, and not done
            load=self._access(load, load_bytes) if loads else None,
            store=self._access(store, store_bytes) if stores else None,
            fault=fault,
        )

    def _access(self, address: int, size: int) -> Access:
        for side, buffer in self._buffers.items():
            if buffer.start - PAGE <= address < buffer.start + buffer.size + PAGE:
                return Access(side, address - buffer.start, address, size)
        return Access("stack", address - STACK_TOP, address, size)


def _taken(ins: Instruction, later: int | None) -> bool | None:
    if ins.flow is Flow.NEXT:
        return None
    return later != ins.end if ins.flow is Flow.BRANCH else True
