"""Run one call of a variant's code under Unicorn, and write down every instruction.

Unicorn (github.com/unicorn-engine/unicorn) executes x86-64 and AArch64 on any host; it proves what
code does, and says nothing of time. Its x86-64 knows no AVX.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import unicorn
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.code.decode import decode
from loopwright.code.instructions import Code, Flow, Instruction
from loopwright.errors import InputError
from loopwright.kernels.contracts import Contract
from loopwright.tracing.memory import PAGE, Call, place
from loopwright.tracing.steps import Access, Step, Trace

MOST_STEPS = 4_000_000  # repetitions of string instructions included

_CODE = 0x40_0000
_STACK = 0x7000_0000
_STACK_BYTES = 16 * PAGE
_READS = (unicorn.UC_MEM_READ, unicorn.UC_MEM_READ_AFTER)


class _Seen:
    """A step as the hooks see it come about."""

    __slots__ = ("fault", "instruction", "load", "load_bytes", "repeats", "store", "store_bytes")

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.repeats = 0
        self.load = self.load_bytes = self.store = self.store_bytes = 0
        self.fault = ""


class _Machine:
    """An emulated core with a variant's code, its buffers and a stack."""

    def __init__(self, code: Code, contract: Contract, call: Call, offset: int) -> None:
        self.code, self.contract = code, contract
        self.buffers = place(contract, call)
        self.base = _CODE + offset
        self.end = self.base + len(code.text)  # where the routine returns to: no code is there
        self.at = {self.base + i.address: i for i in code.instructions}
        self.fixups = {e.insn: e.fixup for e in code.exceptions}
        self.seen: list[_Seen] = []
        self.core = _core(code.isa)
        self._map()
        self._arguments(call)
        hooks: Any = self.core
        hooks.hook_add(unicorn.UC_HOOK_CODE, self._on_code)
        hooks.hook_add(unicorn.UC_HOOK_MEM_READ, self._on_load)
        hooks.hook_add(unicorn.UC_HOOK_MEM_WRITE, self._on_store)

    def run(self) -> Trace:
        """Run to the return."""
        at = self.base + self.code.entry
        while at != self.end:
            try:
                self.core.emu_start(at, self.end, count=MOST_STEPS)
                at = self._program_counter()
                if at != self.end:
                    raise InputError(
                        f"{self.contract.symbol} does not return in {MOST_STEPS} steps"
                    )
            except UcError as error:
                at = self._fault(error)
        after = [seen.instruction.address for seen in self.seen[1:]]
        steps = itertools.zip_longest(self.seen, after)
        returned = {
            role: int(self.core.reg_read(_register(self.code.isa, name)))
            for role, name in self.contract.returns.items()
        }
        return Trace(self.base, tuple(self._step(seen, later) for seen, later in steps), returned)

    def _step(self, seen: _Seen, later: int | None) -> Step:
        ins = seen.instruction
        return Step(
            ins,
            taken=_taken(ins, later),
            repeats=seen.repeats if ins.string else 1,
            load=self._access(seen.load, seen.load_bytes) if seen.load_bytes else None,
            store=self._access(seen.store, seen.store_bytes) if seen.store_bytes else None,
            fault=seen.fault,
        )

    def _access(self, address: int, size: int) -> Access:
        for side, buffer in self.buffers.items():
            if buffer.start - PAGE <= address < buffer.start + buffer.size + PAGE:
                return Access(side, address - buffer.start, address, size)
        return Access("stack", address - (_STACK + _STACK_BYTES // 2), address, size)

    def _map(self) -> None:
        first = self.base // PAGE * PAGE
        self.core.mem_map(first, -(-(self.end + 1 - first) // PAGE) * PAGE)
        self.core.mem_write(self.base, self.code.text)
        self.core.mem_map(_STACK, _STACK_BYTES)
        for buffer in self.buffers.values():
            address, size = buffer.pages
            if size:
                self.core.mem_map(address, size)

    def _arguments(self, call: Call) -> None:
        values = {side: buffer.start for side, buffer in self.buffers.items()}
        values |= {"count": call.count, "sum": 0}
        for role, name in self.contract.inputs.items():
            self.core.reg_write(_register(self.code.isa, name), values[role])
        top = _STACK + _STACK_BYTES // 2
        if self.code.isa == "x86_64":
            self.core.mem_write(top, self.end.to_bytes(8, "little"))
            self.core.reg_write(x86_const.UC_X86_REG_RSP, top)
        else:
            self.core.reg_write(arm64_const.UC_ARM64_REG_SP, top)
            self.core.reg_write(arm64_const.UC_ARM64_REG_LR, self.end)

    def _on_code(self, core: Uc, address: int, size: int, data: object) -> None:
        del core, data
        ins = self._instruction(address, size)
        # A repeated string instruction is seen once for each element, and once for its end.
        if not (ins.string and self.seen and self.seen[-1].instruction is ins):
            self.seen.append(_Seen(ins))

    def _instruction(self, address: int, size: int) -> Instruction:
        found = self.at.get(address)
        if found is None:  # of a helper beside the routine
            start = address - self.base
            [found] = decode(self.code.isa, self.code.text[start : start + size], start)
            self.at[address] = found
        return found

    def _on_load(
        self, core: Uc, kind: int, address: int, size: int, value: int, data: object
    ) -> None:
        del core, kind, value, data
        seen = self.seen[-1]
        seen.load = seen.load or address
        seen.load_bytes += size
        seen.repeats += not seen.instruction.written_bytes

    def _on_store(
        self, core: Uc, kind: int, address: int, size: int, value: int, data: object
    ) -> None:
        del core, kind, value, data
        seen = self.seen[-1]
        seen.store = seen.store or address
        seen.store_bytes += size
        seen.repeats += 1

    def _fault(self, error: UcError) -> int:
        """Return where the exception table goes on; InputError where it has no entry."""
        faulted = self._program_counter() - self.base
        ins = self.at.get(self.base + faulted)
        memory = (unicorn.UC_ERR_READ_UNMAPPED, unicorn.UC_ERR_WRITE_UNMAPPED)
        shown = " ".join(ins.text.split()) if ins else f"the code at {faulted:#x}"
        where = f"{self.contract.symbol}: {shown}"
        if error.errno == unicorn.UC_ERR_INSN_INVALID:
            raise InputError(f"{where}: an instruction that Unicorn does not know (it has no AVX)")
        if error.errno not in memory:
            raise InputError(f"{where}: {error}")
        if faulted not in self.fixups:
            raise InputError(f"{where} faults, and no entry of the exception table is for it")
        seen = self.seen[-1]
        seen.fault = "src" if error.errno == unicorn.UC_ERR_READ_UNMAPPED else "dst"
        seen.repeats -= 1  # the last element was begun, and not done
        return self.base + self.fixups[faulted]

    def _program_counter(self) -> int:
        names = {"x86_64": "rip", "arm64": "pc"}
        return int(self.core.reg_read(_register(self.code.isa, names[self.code.isa])))


def run(code: Code, contract: Contract, call: Call, offset: int = 0) -> Trace:
    """Return what a call of code does, its text offset bytes behind a 64-byte boundary.

    InputError for a call that the contract has not, for code that Unicorn does not know, that
    faults where no exception table helps, or that does not return.
    """
    return _Machine(code, contract, call, offset).run()


def _core(isa: str) -> Uc:
    if isa == "arm64":
        return Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    core = Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    core.ctl_set_cpu_model(x86_const.UC_CPU_X86_EPYC_ROME)  # has stac, clac, adcx and adox
    return core


def _register(isa: str, name: str) -> int:
    names: Mapping[str, int] = vars(x86_const if isa == "x86_64" else arm64_const)
    number = names.get(f"UC_{'X86' if isa == 'x86_64' else 'ARM64'}_REG_{name.upper()}")
    if number is None:
        raise InputError(f"register {name!r} is not known to {isa}")
    return number


def _taken(ins: Instruction, later: int | None) -> bool | None:
    if ins.flow is Flow.NEXT:
        return None
    return later != ins.end if ins.flow is Flow.BRANCH else True
