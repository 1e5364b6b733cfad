"""What is known of a block before it runs: its counter, where its accesses point."""

import pytest

from loopwright import paths
from loopwright.errors import InputError
from loopwright.measuring import block, block_path
from loopwright.measuring.block import counted_loop, of_hex


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("488b4601", True),  # mov 1(%rsi), %rax
        ("488b4608", False),
        ("0f284620", False),  # movaps 32(%rsi), %xmm0
        ("0f104608", True),  # movups 8(%rsi), %xmm0: some CPUs do not refuse it
        ("0f104638", True),  # across a line
        ("c5fe6f4620", False),  # vmovdqu 32(%rsi), %ymm0
        ("c5fe6f4610", True),
        ("f20f104604", True),  # movsd 4(%rsi), %xmm0
        ("488d4601", False),  # lea
        ("48ffc6488b06", False),  # inc %rsi, and where it points then is not known
        ("6448 8b0425 01000000".replace(" ", ""), False),  # behind fs
        ("ff7601", True),  # push 1(%rsi)
    ],
)
def test_misaligned_accesses_are_known_by_their_operands(code, expected):
    assert block_path.misaligned("x86_64", bytes.fromhex(code)) is expected


@pytest.mark.parametrize(
    ("isa", "code", "told"),
    [
        ("x86_64", "0f31c1e81f74000fafc0", "rdtsc"),  # shr $31, %eax; je; imul
        ("x86_64", "0fc7f073fb", "rdrand"),  # jae back until there is one
        ("arm64", "40e03bd5400000b4", "mrs x0, cntvct_el0"),  # cbz x0, forwards
        ("arm64", "20e03bd5400000b4", "mrs x0, cntpct_el0"),
    ],
)
def test_blocks_that_branch_by_the_time_are_refused(isa, code, told):
    assert told in of_hex("row", code, 0, isa, None).refused
    assert "changes from run to run" in of_hex("row", code, 0, isa, None).refused


@pytest.mark.parametrize("code", ["0f31", "0f3148ffcf75f9"])
def test_blocks_that_read_the_time_alone_are_run(code):
    assert of_hex("row", code, 0, "x86_64", None).refused == ""


def test_pointers_are_where_the_harness_puts_them():
    machine = (paths.HARNESS / "block_machine.h").read_text()
    assert f"#define BLOCK_POINTER {block_path.FIRST_POINTER:#x}u" in machine
    steps = (paths.HARNESS / "x86_64" / "block.c").read_text()
    assert f"{{{block_path.POINTER_STEP:#x}, {block_path.ALIGNED_POINTER_STEP:#x}}}" in steps


@pytest.mark.parametrize(
    ("isa", "code", "counter", "repeated"),
    [
        ("x86_64", "4801c8", "r15", "4801c849ffcf75f8"),
        ("x86_64", "4d01ff", "r14", "4d01ff49ffce75f8"),
        ("x86_64", "4801c849ffcf75f8", "r15", "4801c849ffcf75f8"),  # a loop already
        ("x86_64", "90" * 124, "r15", "90" * 124 + "49ffcf" + "0f857bffffff"),
        ("arm64", "0000018b", "x28", "0000018b9c0700d1dcffffb5"),
    ],
)
def test_loops_count_in_a_register_that_the_block_leaves_alone(isa, code, counter, repeated):
    loop = counted_loop(isa, bytes.fromhex(code))
    assert (loop.counter, loop.code.hex()) == (counter, repeated)


@pytest.mark.parametrize(
    ("isa", "register", "code"),
    [
        ("x86_64", "r15", "49ffcf" + "4801c8" + "4d85ff" + "75f5"),
        ("x86_64", "rbx", "48ffcb" + "4801c8" + "4885db" + "75f5"),
        ("arm64", "x28", "9c0700d1" + "0000018b" + "dcffffb5"),
    ],
)
def test_a_loop_may_count_in_front_and_test_the_count_behind(isa, register, code):
    body = "0000018b" if isa == "arm64" else "4801c8"
    assert block.tested(isa, register, bytes.fromhex(body)).hex() == code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("4801c84839c875f8", "a number of iterations that is not known"),
        ("4d01ff49ffcf75f8", "counts in r15, which the block uses besides"),
        ("4801c84801d94801f24801fb4d01c54d01ca4d01d34d01e44d01f64d01ff", "no register to count"),
    ],
)
def test_loops_that_cannot_be_counted_are_refused(code, said):
    if "no register" in said:
        code += "4801ed4d01c9"  # rbp and r9
    with pytest.raises(InputError, match=said):
        counted_loop("x86_64", bytes.fromhex(code))
