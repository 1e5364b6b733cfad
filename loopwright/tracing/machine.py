"""An emulated core with code and a stack.

Unicorn (github.com/unicorn-engine/unicorn) executes x86-64 and AArch64 on any host; it proves what
code does, and says nothing of time. Its x86-64 knows no AVX.
"""

from collections.abc import Mapping

import unicorn
from unicorn import arm64_const, x86_const
from unicorn.unicorn import Uc, UcError

from loopwright.code.instructions import Code
from loopwright.errors import InputError
from loopwright.tracing.memory import PAGE
from loopwright.tracing.recorder import Recorder

CODE = 0x40_0040  # a line behind a page start, as the harness has it
STACK = 0x7000_0000
STACK_BYTES = 16 * PAGE
# Below a page's end, so that short buffers, which start with a page or in its middle, do not alias.
STACK_TOP = STACK + STACK_BYTES - PAGE // 8

_COUNTER = {"x86_64": "rip", "arm64": "pc"}


class Machine:
    """Code at an offset from a 64-byte boundary, and all that it does written down."""

    def __init__(self, code: Code, offset: int) -> None:
        """Take code; nothing but it and a stack can be accessed."""
        self.isa = code.isa
        self.base = CODE + offset
        self.end = self.base + len(code.text)  # where the routine returns to: no code is there
        self.core = core_of(code.isa)
        self.recorder = Recorder(self.core)
        first = self.base // PAGE * PAGE
        self.map(first, -(-(self.end + 1 - first) // PAGE) * PAGE)
        self.core.mem_write(self.base, code.text)
        self.map(STACK, STACK_BYTES)

    def map(self, address: int, size: int) -> None:
        """Let pages be accessed."""
        self.core.mem_map(address, size)

    def prepare(self, inputs: Mapping[str, int]) -> None:
        """Begin anew, before a call with these registers."""
        self.recorder.clear()
        for name, value in inputs.items():
            self.core.reg_write(register(self.isa, name), value)
        if self.isa == "x86_64":
            self.core.mem_write(STACK_TOP, self.end.to_bytes(8, "little"))
            self.core.reg_write(x86_const.UC_X86_REG_RSP, STACK_TOP)
        else:
            self.core.reg_write(arm64_const.UC_ARM64_REG_SP, STACK_TOP)
            self.core.reg_write(arm64_const.UC_ARM64_REG_LR, self.end)

    def run(self, at: int) -> UcError | None:
        """Run from an address to the return; the error where something stops it before."""
        try:
            self.core.emu_start(at, self.end)
        except UcError as error:
            return error
        return None

    def read(self, name: str) -> int:
        """Return what a register holds."""
        return int(self.core.reg_read(register(self.isa, name)))

    @property
    def at(self) -> int:
        """Return where in the code the core stands, from its start."""
        return self.read(_COUNTER[self.isa]) - self.base


def refusal(error: UcError, where: str) -> InputError:
    """Return what to say of an error that no exception table helps in."""
    if error.errno == unicorn.UC_ERR_INSN_INVALID:
        return InputError(f"{where}: an instruction that Unicorn does not know (it has no AVX)")
    return InputError(f"{where}: {error}")


def core_of(isa: str) -> Uc:
    """Return an emulated core of an ISA, with nothing in its memory."""
    if isa == "arm64":
        return Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    core = Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
    core.ctl_set_cpu_model(x86_const.UC_CPU_X86_EPYC_ROME)  # has stac, clac, adcx and adox
    return core


def register(isa: str, name: str) -> int:
    """Return the number that Unicorn gives a register; InputError for an unknown name."""
    names: Mapping[str, int] = vars(x86_const if isa == "x86_64" else arm64_const)
    number = names.get(f"UC_{'X86' if isa == 'x86_64' else 'ARM64'}_REG_{name.upper()}")
    if number is None:
        raise InputError(f"register {name!r} is not known to {isa}")
    return number
