"""Calls that follow each other, step by step: the routine's, and those of the loop around it."""

import subprocess

import numpy as np
import pytest

from loopwright import kernels, paths, toolchain
from loopwright.code import assemble
from loopwright.code.instructions import Code, Flow, decode, register_number
from loopwright.errors import InputError
from loopwright.kernels import contract_of
from loopwright.machine import emulator, trace
from loopwright.machine.emulator import Call
from loopwright.machine.trace import RECORD, Tracer

# Prints what the harness writes around a routine: its caller's loop, from the text's start.
_EMIT = r"""
#include "caller.h"
#include "machine.h"
#include <stdio.h>

const int machine_registers = REGISTERS, machine_stack_pointer = STACK;

int main(void)
{
	static uint8_t blob[4096];
	struct job job = {.may_change = MAY_CHANGE, .zeroed = ZEROED};
	struct placement placement = {.values = {DST, SRC, COUNT}};
	size_t gap = (OFFSET + SIZE + 127) / 64 * 64 - OFFSET, used;
	static const int in[] = {IN};

	for (int role = 0; role < 4; role++)
		if (in[role] >= 0)
			job.in[role] = (struct operand){in[role], 64};
	used = caller_emit(blob + gap, 64, &job, &placement, 64 - gap + ENTRY);
	for (size_t i = 0; i < gap + used; i++)
		printf("%02x", blob[i]);
	return 0;
}
"""
_IDS = ["x86_64/copy_user/movsq", "x86_64/put_event/stat_direct", "x86_64/csum/adcx_adox",
        "x86_64/clear_user/plain", "arm64/copy_user/to_user_pairs"]  # fmt: skip


def _variant(name):
    kernel, _, variant = name.rpartition("/")
    return kernels.load(kernel).variants[variant]


def _mask(isa, names):
    return sum(1 << register_number(isa, name) for name in set(names) - {"flags"})


@pytest.mark.parametrize("name", _IDS)
@pytest.mark.parametrize("offset", [0, 12])
def test_the_caller_is_the_one_that_the_harness_measures_with(name, offset, tmp_path):
    variant = _variant(name)
    contract, code = contract_of(variant), assemble.user_code(variant)
    values = {"dst": 0x7F10_1000_0001, "src": 0x7F20_2000_0803, "count": 70000, "sum": 0}
    mine = {register: values[role] for role, register in contract.inputs.items()}
    found = trace.caller_of(code, contract, mine, offset)
    changed = [*contract.may_change, *contract.inputs.values(), *contract.returns.values()]
    inputs = [contract.inputs.get(role) for role in values]
    defines = {
        "REGISTERS": 16 if code.isa == "x86_64" else 32,
        "STACK": 4 if code.isa == "x86_64" else 31,
        "MAY_CHANGE": f"{_mask(code.isa, changed)}ull",
        "ZEROED": f"{_mask(code.isa, contract.zeroed)}ull",
        "OFFSET": offset, "SIZE": len(code.text), "ENTRY": code.entry,
        "IN": ",".join(str(register_number(code.isa, n)) if n else "-1" for n in inputs),
        **{role.upper(): f"{value}ull" for role, value in values.items()},
    }  # fmt: skip
    source, program = tmp_path / "emit.c", tmp_path / "emit"
    source.write_text(_EMIT)
    gcc = toolchain.find(toolchain.host_isa()).gcc
    # Both ISAs' callers are written by plain C, which any machine runs.
    subprocess.run(
        [gcc, *(f"-D{k}={v}" for k, v in defines.items()), f"-I{paths.HARNESS}", str(source),
         str(paths.HARNESS / code.isa / "caller.c"), "-o", str(program)],
        check=True,
    )  # fmt: skip
    emitted = bytes.fromhex(subprocess.run([program], capture_output=True, text=True).stdout)
    start = found.before[0]
    assert (offset + start) % 64 == 0
    assert emitted[start : len(found.code)] == found.code[start:]
    assert found.code.startswith(code.text)


@pytest.mark.parametrize("name", _IDS)
def test_the_steps_of_a_call_are_those_of_the_routine_between_those_of_its_caller(name):
    variant = _variant(name)
    contract, code = contract_of(variant), assemble.variant_code(variant)
    size = 300 if contract.counted else 1
    [packed] = Tracer(code, contract, 12).calls([Call(size, 8, 16)])
    steps = np.frombuffer(packed.steps, RECORD)
    own = emulator.trace_call(code, contract, Call(size, 8, 16), 12)
    before = list(steps["position"]).index(code.entry)
    middle = steps[before : before + len(own.steps)]
    assert list(middle["position"]) == [s.instruction.address for s in own.steps]
    assert list(middle["repeats"]) == [s.repeats for s in own.steps]
    for side in ("load", "store"):
        real = [getattr(s, side) for s in own.steps]
        assert list(middle[side]) == [a.address if a else -1 for a in real]
    assert packed.offset % 64 == 12
    around = [
        decode(code.isa, packed.code[at:end], at)[0]
        for at, end in _ends([*steps["position"][:before], *steps["position"][-2:]], packed.code)
    ]
    assert around[before - 1].flow is Flow.CALL
    assert around[before - 1].target == code.entry
    assert around[-1].flow is Flow.BRANCH
    assert around[-1].target == steps["position"][0]
    # What a call pushes is what its return pops.
    assert steps["store"][before - 1] == middle["load"][-1]


def _ends(positions, code):
    """Return where each instruction ends: they stand one behind the other."""
    return zip(positions, [*positions[1:], len(code)], strict=True)


def test_one_tracer_gives_the_same_steps_in_any_order_of_calls():
    variant = _variant("x86_64/copy_user/movsq_aligned")
    contract, code = contract_of(variant), assemble.variant_code(variant)
    calls = [Call(size, dst, src) for size in (4096, 0, 100) for dst in (0, 4095) for src in (9, 0)]
    several = list(Tracer(code, contract, 0).calls(calls))
    for call, found in zip(calls, several, strict=True):
        assert [found] == list(Tracer(code, contract, 0).calls([call]))


def test_calls_that_cannot_be_traced_say_why_and_leave_the_others():
    variant = _variant("x86_64/copy_user/movsq")
    contract, code = contract_of(variant), assemble.variant_code(variant)
    bad, good, far = Tracer(code, contract, 0).calls([Call(-1), Call(8), Call(8, 5000)])
    assert isinstance(bad, InputError)
    assert "below 0" in str(bad)
    assert good.steps
    assert "5000" in str(far)


def test_code_that_faults_or_does_not_return_is_an_error_of_its_call(monkeypatch):
    monkeypatch.setattr(emulator, "MOST_STEPS", 10_000)
    contract = contract_of(_variant("x86_64/copy_user/movsb"))
    for text, why in (("488b042500000000c3", "faults"), ("ebfe", "does not return")):
        data = bytes.fromhex(text)
        code = Code("x86_64", data, 0, len(data), decode("x86_64", data), {"f": 0}, (), ())
        [found] = Tracer(code, contract, 0).calls([Call(8)])
        assert isinstance(found, InputError)
        assert why in str(found)


def test_hooks_that_do_not_compile_say_so(monkeypatch, tmp_path):
    broken = tmp_path / "recorder.c"
    broken.write_text("int nothing(void) { return }\n")
    monkeypatch.setattr(emulator, "_SOURCE", broken)
    emulator._hooks.cache_clear()
    try:
        with pytest.raises(InputError, match=r"recorder\.c does not compile: .*error"):
            emulator._hooks()
    finally:
        emulator._hooks.cache_clear()
