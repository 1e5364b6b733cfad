"""What a routine finds around it differs from call to call: the stack, registers, page ends."""

from dataclasses import replace

import pytest

from loopwright import kernels
from loopwright.checking.check import harness_record
from loopwright.code import assemble
from loopwright.kernels import contract_of

# Of a variant: the bytes that are replaced, by which, and what the harness says.
ERRORS = {
    "a part of a structure that is left as the stack was": (
        "x86_64/put_event/stat_buffer",
        "c744242400000000",  # movl $0,0x24(%rsp)
        "c744242500000000",
        "dst byte 36 is 0x81, not 0",
    ),
    "a stack that is given back by `or`": (
        "x86_64/put_event/stat_buffer",
        "4881c490000000",  # add $0x90,%rsp
        "4881cc90000000",
        "sets the stack pointer",
    ),
    "an error that is lost where a register of the caller is zero": (
        "x86_64/put_event/put_user_twice",
        "85c9",  # test %ecx,%ecx
        "85d9",
        "records said to be stored, 0 can be",
    ),
    "an error of the first of two stores that nobody looks at": (
        "x86_64/put_event/put_user_twice",
        "85c97521",  # test %ecx,%ecx; jne
        "85c96690",
        "records said to be stored, 0 can be",
    ),
    "a sum that is folded without the carry between its halves": (
        "x86_64/csum/adc4",
        "48c1e820",  # shr $32,%rax
        "48c1e810",
        "folds to",
    ),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_that_shows_only_in_some_surroundings_is_found(kind):
    spec, old, new, said = ERRORS[kind]
    variant = kernels.select(spec)[1][0]
    code = assemble.user_code(variant)
    body = code.text[code.entry :]
    if bytes.fromhex(old) not in body:
        pytest.skip("this compiler made other code of it")
    text = code.text[: code.entry] + body.replace(bytes.fromhex(old), bytes.fromhex(new), 1)
    contract = contract_of(variant)
    assert harness_record(code, contract, "whole")["passed"]
    record = harness_record(replace(code, text=text), contract, "broken")
    assert not record["passed"]
    assert said in record["failure"]
