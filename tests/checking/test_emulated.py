"""What is held by address and width in an emulated core, and how far it has reached."""

from dataclasses import replace

import few_variants
import pytest
from quick import some

from loopwright import kernels, toolchain
from loopwright.checking import body, check, emulated
from loopwright.code import assemble
from loopwright.linux import routines
from loopwright.machine import harness, hosts
from loopwright.machine.watch import Access

LOOP = "x86_64/copy_user/loop32"


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Return a function that gives the proof of a variant with text of its source replaced."""

    def proof(spec, old, new):
        variant = kernels.select(spec)[1][0]
        assert variant.source.read_text().count(old) == 1
        change = variant.source.name, old, new
        few_variants.changed(monkeypatch, tmp_path, variant.kernel, change)
        variant = kernels.select(spec)[1][0]
        return emulated.prove(emulated.configurations(variant), kernels.contract_of(variant))

    return proof


COVERED = ["x86_64/copy_user/overlapped", "x86_64/csum/adc1", "x86_64/put_event/masked",
           "x86_64/clear_user/immediates", "arm64/copy_user/from_user_nopan"]  # fmt: skip


@pytest.mark.parametrize(
    "spec", some(COVERED, {"x86_64/put_event/masked", "x86_64/clear_user/immediates"})
)
def test_every_branch_condition_and_entry_of_a_right_variant_is_reached(spec):
    variant = kernels.select(spec)[1][0]
    found = emulated.prove(emulated.configurations(variant), kernels.contract_of(variant))
    assert found.failure == ""
    assert found.summary == "100 %"
    assert found.hit >= {e.insn for e in assemble.variant_code(variant).exceptions}


TAIL = "0:	movb (%rsi),%al\n"
LARGE = ".Llarge_words:\n"
WORD = "10:	movq (%rsi),%rax\n"
# Without a branch: 1 in rax where its sign was set, and where it was 0.
HALF = "	movq %%%s,%%rax\n	shrq $63,%%rax\n	subq %%rax,%%rcx\n"
ZERO = (
    "	pushq %rdx\n	leaq -1(%rax),%rdx\n	notq %rax\n	andq %rdx,%rax\n	popq %rdx\n"
    "	shrq $63,%rax\n"
)
WRONG = {
    "stored back beyond the end": (
        ".Lexit:\n", ".Lexit:\n	movb (%rdi),%al\n	movb %al,(%rdi)\n", "reads the destination"),
    "a byte stored beyond the end": (
        ".Lexit:\n", ".Lexit:\n	movb %al,(%rdi)\n", "outside of it"),
    "overread inside of a page": (TAIL, "0:	movl (%rsi),%eax\n", "reads 4 bytes at src byte"),
    "red zone": (LARGE, LARGE + "	movq %rbx,-8(%rsp)\n", "8 bytes below the stack pointer"),
    "stack of others": (LARGE, LARGE + "	movq 8(%rsp),%rax\n", "its caller's frame"),
    "stack that holds nothing": (
        LARGE, LARGE + "	subq $8,%rsp\n	movq (%rsp),%rax\n	addq $8,%rsp\n", "not stored to"),
    "type of an entry": (
        "	_ASM_EXTABLE_UA(11b, .Lf", "	_ASM_EXTABLE(11b, .Lf", "of another type"),
    "no fence": ("11:	movq %rax,(%rdi)", "11:	movnti %rax,(%rdi)", "no sfence has ordered"),
    "a return that is a branch": (
        LARGE, f"{LARGE}	call 9f\n	jmp 7f\n9:	subq $-7,(%rsp)\n	ret\n	.nops 3\n7:\n",
        "a return address"),
    "a call that is left": (LARGE, f"{LARGE}	call 9f\n9:	addq $8,%rsp\n", "has not returned"),
    "a return address as data": (
        LARGE, f"{LARGE}	call 9f\n9:	movq (%rsp),%rax\n	addq $8,%rsp\n", "a return address"),
    "stack by many pushes": (
        LARGE,
        f"{LARGE}	.rept 140\n	pushq %rax\n	.endr\n	addq $1016,%rsp\n	addq $104,%rsp\n",
        "bytes of stack, more than"),
    "the upper half of a source": (LARGE, f"{LARGE}{HALF % 'rsi'}", "was not stored to (size 65"),
    "the upper half of the stack": (LARGE, f"{LARGE}{HALF % 'rsp'}", "was not stored to (size 64"),
    "bit 29 of a size": (LARGE, f"{LARGE}	btrq $29,%rcx\n", "said to be left"),
    "a size of two constants": (
        LARGE, f"{LARGE}	leaq -300(%rcx),%rax\n	subq $77,%rax\n{ZERO}	subq %rax,%rcx\n",
        "(size 377"),
    "words that are their own address": (
        "11:	movq %rax,(%rdi)\n",
        f"	pushq %rax\n	xorq %rdi,%rax\n{ZERO}	addq %rax,(%rsp)\n	popq %rax\n"
        "11:	movq %rax,(%rdi)\n", "stores 0x"),
    "two entries": (
        "	_ASM_EXTABLE_UA(17b, .Lfour_words_fault)\n",
        "	_ASM_EXTABLE_UA(17b, .Lfour_words_fault)\n	_ASM_EXTABLE_UA(17b, .Lexit)\n",
        "two entries in the exception table"),
    "wrong for a moment": (
        WORD, "	movb $1,(%rdi)\n	_ASM_EXTABLE_UA(.Lfour_words, .Lfour_words_fault)\n" + WORD,
        "stores 0x1 to dst byte"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_values_do_not_show_is_seen(changed, name):
    old, new, said = WRONG[name]
    found = changed(LOOP, old, new)
    assert said in found.failure


def test_what_only_one_content_decides_is_reached(changed):
    store = f"{WORD}11:	movq %rax,(%rdi)\n"
    found = changed(
        LOOP, store, store.replace("11:", "	cmpl $0x20746547,%eax\n	je 9f\n11:") + "9:\n"
    )
    assert "was not stored to" in found.failure


# One loop, proven in less than a second.
CLEAR = "x86_64/clear_user/plain"
AHEAD = "SYM_FUNC_START(rep_stos_alternative)\n"


def test_a_rare_point_is_found_by_what_comparisons_saw(changed):
    """The size of 12345 bytes stands nowhere in the code."""
    scaled = "	pushq %rdx\n	leaq (%rcx,%rcx,2),%rdx\n	subq $37034,%rdx\n	decq %rdx\n"
    scaled += "	popq %rdx\n	jne 9f\n	decq %rcx\n9:\n"
    found = changed(CLEAR, AHEAD, f"{AHEAD}{scaled}")
    assert "size 12345" in found.failure or "branch never passed" in found.summary


def test_an_entry_that_nothing_can_use_is_not_proven(changed):
    entry = ".Lbytes:\n"
    found = changed(CLEAR, entry, f"	_ASM_EXTABLE_UA(.Lexit, .Lexit)\n{entry}")
    assert found.failure == ""
    assert "entry never used" in found.summary


def test_a_branch_that_never_goes_one_way_is_not_proven(changed):
    always = "	testq %rax,%rax\n	jne .Lexit\n"  # it clears with zero
    found = changed(CLEAR, AHEAD, AHEAD + always)
    assert found.failure == ""
    assert found.summary.startswith("not proven: +0x")
    assert "branch never taken" in found.summary


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("	popq %rax\n	jmp *%rax\n", "no branch that is allowed"),
        ("	ret $0\n", "no branch that is allowed"),
        ("	movl %ds,%eax\n	movl %eax,%es\n	ret\n", "sets register es"),
        ("	rdtsc\n	ret\n", "reads the time"),
        ("	wrgsbase %rsi\n	ret\n", "sets a segment's base"),
        ("	popfq\n	ret\n", "sets all flags"),
        ("	movq %gs:0,%rax\n	ret\n", "memory of the CPU or the task"),
        ("	callq *%rax\n	ret\n", "no branch that is allowed"),
        ("	pushfq\n	popq %rax\n	ret\n", "reads flags that differ"),
        ("	movq %rax,%xmm1\n	ret\n", "not an integer instruction"),
        ("	fninit\n	ret\n", "not an integer instruction"),
        ("	clflush (%rdi)\n	ret\n", "flushes a cache line"),
        ("	sidt (%rsi)\n	ret\n", "system table"),
        ("	leaq 0(%rip),%rax\n	ret\n", "depends on where the code lies"),
        ("	movq %rdi,%rsp\n	ret\n", "a distance that is not constant"),
        ("	subq $4096,%rsp\n	addq $4096,%rsp\n	ret\n", "moves the stack pointer by 4096"),
    ],
)
def test_what_a_routine_may_use_is_a_list(changed, new, said):
    assert said in changed(LOOP, ".Lexit:\n	RET\n", f".Lexit:\n{new}").failure


@pytest.mark.parametrize(
    "spec", ["arm64/copy_user/from_user_pairs", "arm64/copy_user/from_user_nopan"]
)
def test_loads_of_user_memory_have_a_users_permissions(changed, spec):
    old = "	user_ldst 9998f, ldtrb, "
    assert "kernel's permissions" in changed(spec, old, old.replace("ldtrb", "ldrb")).failure


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("	msr	fpcr, xzr\n	mov	x0, #0\n	ret\n", "sets a system register"),
        ("	mov	x7, x30\n	mov	x0, #0\n	ret	x7\n", "no plain return"),
        (
            "	str	x3, [sp, #-16]\n	mov	x0, #0\n	ret\n",
            "16 bytes below the stack pointer",
        ),
        ("	mrs	x3, cntvct_el0\n	mov	x0, #0\n	ret\n", "reads a system register"),
        ("	fmov	x3, d0\n	mov	x0, #0\n	ret\n", "not an integer instruction"),
        ("	adr	x3, .\n	mov	x0, #0\n	ret\n", "depends on where the code lies"),
        ("	mov	sp, x1\n	mov	x0, #0\n	ret\n", "a distance that is not constant"),
        (
            "	sub	sp, sp, #2048\n	add	sp, sp, #2048\n	mov	x0, #0\n	ret\n",
            "by 2048 bytes",
        ),
    ],
)
def test_arm64_state_is_held_too(changed, new, said):
    old = "	mov	x0, #0\n	ret\n"
    assert said in changed("arm64/copy_user/from_user_pairs", old, new).failure


def test_access_of_a_users_memory_is_between_stac_and_clac():
    variant = kernels.select("x86_64/put_event/masked")[1][0]
    [configuration, *_] = emulated.configurations(variant)
    assert configuration.access.gated
    bare = configuration.code.text.replace(bytes.fromhex("0f01cb"), bytes.fromhex("0f1f00"))
    found = emulated.run(
        replace(configuration.code, text=bare), kernels.contract_of(variant), configuration.access
    )
    assert "not between stac and clac" in found.failure


KEYS = {
    "contract": lambda f, c: (f, replace(c, uncopied="at_least")),
    "entry types": lambda f, c: (_with(f, type="EX_TYPE_DEFAULT"), c),
    "fixups": lambda f, c: (_with(f, fixup=f.code.exceptions[-1].fixup), c),
    "permissions": lambda f, c: (replace(f, access=Access(gated=True)), c),
    "code": lambda f, c: (replace(f, code=replace(f.code, text=f.code.text + b"\x90")), c),
}


def _with(configuration, **change):
    first, *rest = configuration.code.exceptions
    return replace(
        configuration,
        code=replace(configuration.code, exceptions=(replace(first, **change), *rest)),
    )


def test_the_cache_is_asked_by_all_that_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_BUILD", str(tmp_path))
    variant = kernels.select("x86_64/clear_user/plain")[1][0]
    contract, [configuration] = kernels.contract_of(variant), emulated.configurations(variant)
    assert not emulated.prove([configuration], contract).cached
    for what, change in KEYS.items():
        other, asked = change(configuration, contract)
        assert not emulated.prove([other], asked).cached, what
    assert emulated.prove([configuration], contract).cached
    # It is asked by who chooses the cases, too.
    monkeypatch.setattr(emulated, "_version", lambda: "another")
    assert not emulated.prove([configuration], contract).cached


def _asked(code, contract, *, gated=False):
    with pytest.MonkeyPatch.context() as patch:
        nothing = {"passed": 0, "over_report_bytes": 0}
        patch.setattr(emulated, "kept_if_passed", lambda key, _: {**nothing, "asked": key})
        return check.harness_record(code, contract, "one", gated=gated)["asked"]


def test_the_cache_of_runs_is_asked_by_all_that_decides(monkeypatch):
    """Each change makes another question, and so a run instead of an answer that was kept."""
    variant = kernels.select("x86_64/copy_user/overlapped")[1][0]
    contract, code = kernels.contract_of(variant), assemble.user_code(variant)
    first, *rest = code.exceptions
    erms = assemble.variant_code(variant, with_=frozenset({"X86_FEATURE_ERMS"}))
    before = _asked(code, contract)
    asked = [
        before,
        _asked(code, contract, gated=True),
        _asked(erms, contract),
        _asked(replace(code, text=code.text + b"\x90"), contract),
        _asked(replace(code, exceptions=(replace(first, fixup=rest[-1].fixup), *rest)), contract),
        _asked(code, replace(contract, uncopied="at_least")),
        _asked(code, replace(contract, may_change=("rax",))),
        _asked(code, replace(contract, faulting=("dst",))),
        _asked(code, replace(contract, overread=7)),
        _asked(code, replace(contract, guards=("dst",))),
    ]
    for module, name, value in (
        (harness, "version", lambda _: "another"),
        (hosts, "features", lambda: frozenset({"erms"})),
        (toolchain, "find", lambda isa: isa),
        (emulated, "harness_constants", lambda _: [123]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            asked.append(_asked(code, contract))
    assert len(set(asked)) == len(asked)
    assert _asked(code, contract) == before


def test_code_that_no_emulator_knows_is_not_proven():
    variant = kernels.select("x86_64/clear_user/plain")[1][0]
    code = assemble.variant_code(variant)
    vector = bytes.fromhex("c5f9efc0")  # vpxor %xmm0,%xmm0,%xmm0
    moved = tuple(replace(e, insn=e.insn + 4, fixup=e.fixup + 4) for e in code.exceptions)
    other = replace(code, text=vector + code.text, exceptions=moved, size=code.size + 4)
    found = emulated.prove(
        [emulated.Configuration("", other, Access())], kernels.contract_of(variant)
    )
    assert "not proven" in found.summary


def test_a_body_is_what_control_reaches():
    code = assemble.variant_code(kernels.select("x86_64/copy_user/movsb")[1][0])
    reached = body.of(code)
    assert reached.refused == ""
    assert max(reached.steps) < max(i.address for i in code.instructions)


def test_same_code_has_the_same_entries_fixups_and_types():
    code = assemble.variant_code(kernels.select("x86_64/clear_user/plain")[1][0])
    first, *rest = code.exceptions
    assert routines.same_code(code, replace(code))
    for entries in (
        (replace(first, type="EX_TYPE_DEFAULT"), *rest),
        (replace(first, fixup=rest[0].fixup), *rest),
        (first, *rest, replace(first, fixup=rest[0].fixup)),
        (first, *rest, first),
        tuple(rest),
    ):
        assert not routines.same_code(code, replace(code, exceptions=entries))


def test_what_is_not_reached_comes_with_the_reason_of_its_variant():
    variant = kernels.select("x86_64/put_event/write_begin")[1][0]
    said = emulated.prove(emulated.configurations(variant), kernels.contract_of(variant)).summary
    assert said.startswith("not proven: +0x")
    assert emulated.argued(said, variant) == f"{said} ({variant.unreached})"
    assert emulated.argued("100 %", variant) == "100 %"


def test_a_count_cut_to_16_bits_is_seen_in_what_other_cpus_run(changed):
    """With ERMS nothing reaches the loop of words; the code of other CPUs does."""
    old = ".Llarge_movsq:\n	/*"
    found = changed("x86_64/copy_user/movsb", old, ".Llarge_movsq:\n	movzwl %cx,%ecx\n	/*")
    assert "with no feature" in found.failure


def test_an_over_report_has_a_limit(changed):
    old = "9998:	sub	x0, end, dst\n"
    new = (
        "9998:	sub	x3, dst, dstin\n	cmp	x3, #512\n	b.lo	7f\n"
        "	and	x3, x3, #-512\n7:	add	x3, x3, dstin\n	sub	x0, end, x3\n"
    )
    found = changed("arm64/copy_user/from_user_pairs", old, new)
    assert "bytes too many said to be left, 127 are allowed" in found.failure


def test_a_failure_names_the_register(changed):
    found = changed(LOOP, LARGE, f"{LARGE}	movl %r12d,%r12d\n")
    assert "register r12 changed" in found.failure
