"""The check of contracts: good variants pass, and no broken one does."""

from dataclasses import replace

import pandas as pd
import pytest
from checkout import DATA
from few_variants import changed

from loopwright import kernels, toolchain
from loopwright.checking.check import holds, run
from loopwright.errors import InputError
from loopwright.machine import harness

FIXTURES = DATA / "kernels"
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 code natively")


@pytest.fixture(autouse=True)
def _fixtures(monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Return a function that checks a copy of a fixture with text in one file replaced."""

    def checked(kernel, variant, old, new, file=None):
        changed(monkeypatch, tmp_path, kernel, (file or f"{variant}.S", old, new))
        return run(kernels.select(f"{kernel}/{variant}")[1]).iloc[0]

    return checked


# Good variants of arm64 are those of kernels/, in test_check_kernels.
@pytest.mark.slow
@pytest.mark.parametrize("isa", kernels.ISAS)
def test_good_variants_pass(isa):
    _, variants = kernels.select(f"{isa}/fixture")
    rows = run(variants)
    assert list(rows["variant"]) == [v.name for v in variants]
    assert rows["passed"].all(), rows["failure"].tolist()
    assert (rows["failure"] == "").all()
    assert (rows["cases"] > 40_000).all()
    assert (rows["entries_hit"] == rows["entries"]).all()
    assert (rows["over_report_bytes"] == 0).all()
    again = run(variants)
    assert again["note"].str.startswith("cached").all()
    assert again["passed"].all()


COPY = "copy_words"
TEST = "\ttestq\t%rcx, %rcx\n"
STORE = "4:\tmovb\t%al, (%rdi)\n"
DONE = ".Ldone:\n"
COPY_MUTANTS = {
    "wrong fixup label": ("EXTABLE 1b, .Ltail", "EXTABLE 1b, .Ldone", "bytes said to be left"),
    "missing table entry": ("EXTABLE 4b, .Ldone", "", "no exception-table entry"),
    "fixup that faults again": ("EXTABLE 4b, .Ldone", "EXTABLE 4b, 4b", "faults without end"),
    "one byte too many": (DONE, f"{DONE}\tmovb\t%al, (%rdi)\n", "outside the destination"),
    "far store": (DONE, f"{DONE}\tmovb\t%al, 2000(%rdi)\n", "far from the destination"),
    "one byte too few": (STORE, f"cmpq $1, %rcx; je 5f\n{STORE}5:\n", "not"),
    "wrong byte": (STORE, f"incb %al\n{STORE}", "dst byte 0 is"),
    "store to the source": (STORE, f"{STORE}\tmovb\t$1, -1(%rsi)\n", ""),
    "callee-saved register": (DONE, f"{DONE}\txorl\t%ebx, %ebx\n", "register rbx changed"),
    "high half of a register": (DONE, f"{DONE}\tmovl\t%r15d, %r15d\n", "register r15 changed"),
    "vector register": (DONE, f"{DONE}\tpxor\t%xmm9, %xmm9\n", "not an integer instruction"),
    "mmx register": (DONE, f"{DONE}\tpxor\t%mm1, %mm1\n", "not an integer instruction"),
    "mxcsr": (DONE, f"{DONE}\tpushq\t$0x1f00\n\tldmxcsr\t(%rsp)\n\tpopq\t%rax\n", "mxcsr"),
    "direction flag": (DONE, f"{DONE}\tstd\n", "direction flag"),
    "large sizes only": (
        "\tjb\t.Lbytes\n",
        "\tjb\t.Lbytes\n\tcmpq\t$2000, %rcx\n\tjb\t.Lword\n\txorl\t%ebx, %ebx\n",
        "register rbx changed (size 2049",
    ),
    "bogus remainder": (DONE, f"{DONE}\tincq\t%rcx\n", "1 bytes said to be left, 0 are"),
    "negative remainder": (DONE, f"{DONE}\tdecq\t%rcx\n", "-1 bytes said to be left, 0 are"),
    "read before the source": (TEST, f"\tmovb\t-1(%rsi), %al\n{TEST}", "src byte -1"),
    "read behind the source": (TEST, f"\tmovb\t(%rsi,%rcx), %al\n{TEST}", "src byte"),
    "read outside, with a fixup": (
        ".Lbytes:\n",
        ".Lbytes:\n6:\tmovb\t-1(%rsi), %al\n7:\tEXTABLE 6b, 7b\n",
        "where it may not",
    ),
    "read in no buffer": (DONE, f"{DONE}\tmovb\t16, %al\n", "in neither buffer"),
    "stack imbalance": (
        "\tret\n",
        "\tpopq\t%rax\n\tpushq\t%rax\n\tpushq\t%rax\n\tret\n",
        "stack pointer is off by -8",
    ),
    "return that pops": ("\tret\n", "\tret\t$8\n", "no branch that is allowed"),
    "push without pop": ("\tret\n", "\tpushq\t%rax\n\tret\n", "fault at"),
    "caller's frame": (DONE, f"{DONE}\tmovq\t%rax, 24(%rsp)\n", "caller's stack frame"),
    "infinite loop": (DONE, f"{DONE}\tjmp\t.\n", "does not return"),
    "illegal instruction": (DONE, f"{DONE}\tud2\n", "illegal instruction"),
    "privileged instruction": (DONE, f"{DONE}\tcli\n", "is privileged: cli"),
    "division by zero": (DONE, f"{DONE}\txorl\t%eax, %eax\n\tdivb\t%al\n", "arithmetic"),
    "jump into nowhere": (DONE, f"{DONE}\tjmp\t*%rdi\n", "no branch that is allowed"),
    "end of the process": (
        DONE, f"{DONE}\tmovl\t$231, %eax\n\tsyscall\n", "makes a system call: syscall",
    ),
    "harmless system call": (
        DONE,
        f"{DONE}\tpushq\t%rcx\n\tpushq\t%r11\n\tmovl\t$39, %eax\n\tsyscall\n"
        "\tpopq\t%r11\n\tpopq\t%rcx\n",
        "makes a system call: syscall",
    ),
    "system call that no case makes": (
        DONE, f"{DONE}\tjmp 9f\n\tint $0x80\n9:\n", "makes a system call: int $0x80",
    ),
}  # fmt: skip


@X86_ONLY
@pytest.mark.parametrize("mutant", COPY_MUTANTS)
def test_broken_copies_are_caught(broken, mutant):
    old, new, said = COPY_MUTANTS[mutant]
    row = broken("x86_64/fixture", COPY, old, new)
    assert not row["passed"]
    assert said in row["failure"]
    assert "\n" not in row["failure"]


STOS = "1:\trep stosb\n"
OTHERS = {
    "clear: register": ("clear_string", "\tret\n", "\txorl\t%ebx, %ebx\n\tret\n", "rbx changed"),
    "clear: flags": ("clear_string", "\tret\n", "\tcmpq\t%rax, %rdi\n\tret\n", "flags changed"),
    "clear: fixup": ("clear_string", "1b, .Ldone", "1b, 2f\n2:\tmovl $0, %ecx\n\tret", "left"),
    "clear: too few": ("clear_string", "1:", "jrcxz .Ldone; leaq -1(%rcx), %rcx\n1:", "not 0"),
    "clear: too many": ("clear_string", DONE, f"{DONE}\tstosb\n", "outside the destination"),
    "clear: not zero": ("clear_string", STOS, f"movb $1, %al\n{STOS}movb $0, %al\n", "not 0"),
    "clear: entry": ("clear_string", "EXTABLE 1b", "EXTABLE .Ldone", "no exception-table entry"),
    "sum: last byte": ("checksum_words", "movzbl\t(%rdi), %ecx", "xorl %ecx, %ecx", "folds to"),
    "sum: carry": ("checksum_words", "\taddl\t%ecx, %eax\n\tadcl\t$0, %eax\n",
                   "\taddw\t%cx, %ax\n", "folds to"),
    "sum: too far": ("checksum_words", "movzbl\t(%rdi)", "movzwl\t(%rdi)", ""),
    "sum: wide count": ("checksum_words", "\tmovl\t%esi, %esi\n", "", ""),
    "sum: seed": ("checksum_words", "movl\t%edx, %eax", "xorl\t%eax, %eax", "folds to"),
    "put: gap": ("put_records", "3:\tmovl\t$0", "3:\tmovq\t$0", "no field"),
    "put: field": ("put_records", "3:\tmovl\t$0, 12(%rdi)", "3:\tmovw\t$0, 12(%rdi)", "not 0"),
    "put: field order": ("put_records", "movq\t8(%rsi)", "movq\t4(%rsi)", "dst byte"),
    "put: source end": ("put_records", "movq\t8(%rsi)", "movq\t9(%rsi)", ""),
    "put: stored": ("put_records", DONE, f"{DONE}\taddq\t$1, %rax\n", "records said to be stored"),
    "put: fixup": ("put_records", "3b, .Ldone", "3b, .Lnext\n.Lnext: incq %rax\n\tret",
                   "records said to be stored"),
    "put: stac": ("put_gated", "\tOPEN\n1:", "1:", "not between stac and clac"),
    "put: clac": ("put_gated", "\tCLOSE\n\tincq", "\tincq", "user access is left open"),
    "put: clac after a fault": ("put_gated", "2b, .Lfault", "2b, .Ldone", "is left open"),
    "put: closed too early": ("put_gated", "2:\t", "\tCLOSE\n2:\t", "not between stac and clac"),
    "put: entry": ("put_records", "EXTABLE 2b, .Ldone", "", "no exception-table entry"),
}  # fmt: skip


@X86_ONLY
@pytest.mark.parametrize("mutant", OTHERS)
def test_broken_effects_are_caught(broken, mutant):
    variant, old, new, said = OTHERS[mutant]
    row = broken("x86_64/fixture", variant, old, new)
    assert not row["passed"]
    assert said in row["failure"]


A_DONE = ".Ldone:\n"
ARM64 = {
    "wrong fixup label": ("EXTABLE 3b, .Ldone", "EXTABLE 3b, .Lbytes", "faults without end"),
    "missing table entry": ("EXTABLE 2b, .Ltail", "", "no exception-table entry"),
    "no progress": ("EXTABLE 1b, .Ltail", "EXTABLE 1b, .Ldone", "no progress"),
    "bytes claimed": (A_DONE, f"{A_DONE}\tmov\tx6, x5\n", "at least"),
    "bogus remainder": ("\tret\n", "\tadd\tx0, x0, #1\n\tret\n", "bytes said to be left"),
    "register": (A_DONE, f"{A_DONE}\tmov\tx19, xzr\n", "x19 changed"),
    "platform register": (A_DONE, f"{A_DONE}\tmov\tx18, xzr\n", "x18 changed"),
    "vector register": (A_DONE, f"{A_DONE}\tmovi\tv8.16b, #0\n", "not an integer instruction"),
    "one byte too many": (A_DONE, f"{A_DONE}\tstrb\tw3, [x6]\n", "outside the destination"),
    "stack imbalance": (A_DONE, f"{A_DONE}\tsub\tsp, sp, #16\n", "off by -16"),
    "infinite loop": (A_DONE, f"{A_DONE}\tb\t.\n", "does not return"),
    "illegal instruction": (A_DONE, f"{A_DONE}\tudf\t#1\n", "illegal instruction"),
    "system call": (A_DONE, f"{A_DONE}\tmov\tx8, #178\n\tsvc\t#0\n", "system call: svc #0"),
}


@pytest.mark.parametrize("mutant", ARM64)
def test_broken_arm64_copies_are_caught(broken, mutant):
    old, new, said = ARM64[mutant]
    row = broken("arm64/fixture", COPY, old, new)
    assert not row["passed"]
    assert said in row["failure"]


@X86_ONLY
def test_a_variant_that_calls_do_not_reach_whole_does_not_hold():
    variant = kernels.select("x86_64/fixture")[1][0]
    rows = pd.DataFrame({"passed": [True], "coverage": ["not proven: +0x8 branch never taken"]})
    assert not holds(rows, [variant])
    assert holds(rows, [replace(variant, unreached="no caller gets there")])
    assert holds(rows.assign(coverage="100 %"), [variant])
    assert not holds(rows.assign(coverage="100 %", passed=False), [variant])


def test_stac_and_clac_are_left_out_for_most_cases_and_said_to_be():
    rows = run(kernels.select("x86_64/fixture")[1]).set_index("variant")
    assert "without stac/clac: user space cannot execute them" in rows["note"]["put_gated"]
    assert "stac" not in rows["note"]["put_records"]
    assert rows["cases"]["put_gated"] > rows["cases"]["put_records"]


@X86_ONLY
def test_a_system_call_is_stopped_where_nobody_decodes():
    """The harness is given code as it is: a kit's, or with data among it."""
    code = "b827000000" + "0f05" + "c3"  # getpid
    job = f"job check\nid a\nisa x86_64\neffect clear\nin dst rdi\nin count rcx\ncode {code}\nend\n"
    [record] = harness.run("x86_64", job)
    assert not record["passed"]
    assert record["failure"].startswith("+0x7 makes a system call")


@X86_ONLY
def test_flags_must_stay_where_the_contract_says_so(broken):
    old = 'may_change = ["rax", "rsi", "rdi", "flags"]'
    row = broken("x86_64/fixture", COPY, old, old.replace(', "flags"', ""), "kernel.toml")
    assert row["failure"].startswith("the flags changed")


@X86_ONLY
def test_a_side_that_may_not_fault_is_only_given_whole(broken):
    old = 'may_change = ["rax", "rsi", "rdi", "flags"]'
    row = broken("x86_64/fixture", COPY, old, f'{old}\nfaulting = ["dst"]', "kernel.toml")
    assert row["passed"]
    assert row["unhit"] != ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('count = "rcx" }\nreturns', 'count = "rcz" }\nreturns', "rcz"),
        ('returns = { uncopied = "rcx" }\nmay', 'returns = { rest = "rcx" }\nmay', "rest"),
        ('src = "rsi", count = "rcx"', 'count = "rcx"', "needs an input src"),
        ("src_record = 16", "src_record = 12", "outside src_record"),
        ('returns = { stored = "rax" }', "returns = {}", "no result stored"),
    ],
)
@X86_ONLY
def test_contracts_that_make_no_sense_are_named(broken, old, new, said):
    variant = "put_records" if "record" in said or "stored" in said else COPY
    with pytest.raises(InputError) as error:
        broken("x86_64/fixture", variant, old, new, "kernel.toml")
    assert said in str(error.value)
    assert "kernel.toml" in str(error.value) or variant in str(error.value)


@X86_ONLY
def test_a_missing_feature_is_named(tmp_path, monkeypatch):
    summary = 'summary = "eight bytes an iteration"'
    needs = "kernel.toml", summary, f'{summary}\nneeds = ["xop"]'
    wrong = f"{COPY}.S", DONE, f"{DONE}\tud2\n"
    changed(monkeypatch, tmp_path, "x86_64/fixture", wrong, needs)
    row = run(kernels.select(f"x86_64/fixture/{COPY}")[1]).iloc[0]
    assert "this host lacks xop" in row["note"]
