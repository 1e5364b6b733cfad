"""Edits in a small tree of our own: what is found, what is kept apart, what is refused."""

from pathlib import Path

import pytest
from few_variants import changed

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.linux import edits, routines, trees
from loopwright.linux.edits import Change
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 3\nEXTRAVERSION = -lw1\n"
FILE = "arch/x86/lib/clear_page_64.S"
CALLER = "arch/x86/include/asm/uaccess_64.h"
# Another routine beside the one that is replaced, with labels that a variant has too.
PAGE = """\
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

SYM_FUNC_START(clear_whole_page)
	movl $512,%ecx
.Lqwords:
	movq %rax,(%rdi)
	leaq 8(%rdi),%rdi
	decl %ecx
	jnz .Lqwords
.Lexit:
	RET
SYM_FUNC_END(clear_whole_page)

/*
 * Clears rcx bytes at rdi.
 */
SYM_FUNC_START(rep_stos_alternative)
	testq %rcx,%rcx
	je .Lnone
.Lone:
	movb %al,(%rdi)
	inc %rdi
	dec %rcx
	jnz .Lone
.Lnone:
	RET

	_ASM_EXTABLE_UA(.Lone, .Lnone)
SYM_FUNC_END(rep_stos_alternative)
EXPORT_SYMBOL(rep_stos_alternative)
"""
CALL = """\
static inline unsigned long clear(void *addr, unsigned long size)
{
\t/* call rep_stos_alternative */
\tasm volatile("1:\\n"
\t\tALTERNATIVE("rep stosb", "call rep_stos_alternative", ALT_NOT(X))
\t\t"2:\\n"
\t\t: "+c" (size), "+D" (addr), ASM_CALL_CONSTRAINT
\t\t: "a" (0));
\treturn size;
}
"""


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    root = tmp_path / "linux"
    for file, content in {
        "Makefile": MAKEFILE,
        "Kbuild": "",
        FILE: PAGE,
        CALLER: CALL,
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content)
    return root


@pytest.fixture
def own_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of kernels with a copy of clear_user, to be changed by the test."""
    return changed(monkeypatch, tmp_path / "kernels", "x86_64/clear_user")


def variant(name: str) -> kernels.Variant:
    return kernels.load("x86_64/clear_user").variants[name]


def put(name: str, linux: Path) -> Change:
    source = trees.read(linux)
    target = routines.find(variant(name), source)
    changes, _ = edits.apply(variant(name), target, source)
    (change,) = changes
    return change


def test_version_and_files_of_a_tree(linux):
    source = trees.read(linux)
    assert source.version == "6.12.3-lw1"
    assert source.has(FILE)
    assert not source.has("arch/x86/lib/other.S")


def test_labels_of_the_rest_of_the_file_are_not_taken(linux):
    whole = put("plain", linux).new
    assert whole.count(".Lqwords:") == 1
    assert "_ASM_EXTABLE_UA(.Lqwords_clear_user, .Lrest)" in whole
    assert whole.startswith(PAGE[: PAGE.index("SYM_FUNC_START(rep_stos")])
    source = trees.read(linux)
    target = routines.find(variant("plain"), source)
    assert routines.difference(variant("plain"), target, source, {FILE: whole}) == ""


def test_code_that_differs_from_the_variant_is_told(linux):
    change = put("plain", linux)
    source = trees.read(linux)
    target = routines.find(variant("plain"), source)
    broken = {FILE: change.new.replace("subq $8,%rcx", "subq $9,%rcx", 1)}
    assert "differ" in routines.difference(variant("plain"), target, source, broken)
    moved = {FILE: change.new.replace("clear_user, .Lrest)", "clear_user, .Lbytes)")}
    assert "differ" in routines.difference(variant("plain"), target, source, moved)


BELOW = "SYM_FUNC_END(rep_stos_alternative)\n"


def test_exception_table_below_a_function_is_replaced_with_it(linux):
    entry = "\t_ASM_EXTABLE_UA(.Lone, .Lnone)\n"
    apart = PAGE.replace("\n" + entry, "").replace(BELOW, f"{BELOW}\n{entry}")
    assert apart.index(entry) > apart.index(BELOW)
    (linux / FILE).write_text(apart)
    whole = put("plain", linux).new
    assert ".Lone," not in whole
    assert whole.count("EXTABLE") == variant("plain").source.read_text().count("EXTABLE")
    source = trees.read(linux)
    target = routines.find(variant("plain"), source)
    assert routines.difference(variant("plain"), target, source, {FILE: whole}) == ""
    kept = whole.replace(BELOW, f"{BELOW}{entry.replace('.Lone, .Lnone', '.Lrest, .Lrest')}")
    assert "differ" in routines.difference(variant("plain"), target, source, {FILE: kept})


def test_exception_table_apart_from_its_function_is_refused(linux):
    (linux / FILE).write_text(PAGE + "\t_ASM_EXTABLE_UA(.Lone, .Lnone)\n")
    with pytest.raises(InputError, match=r"apart from rep_stos_alternative, whose label"):
        put("plain", linux)


def test_plain_exception_table_below_a_variants_function_is_kept(own_kernels, linux):
    source = own_kernels / "plain.S"
    text = source.read_text()
    lines = [line for line in text.splitlines(keepends=True) if "_ASM_EXTABLE_UA" in line]
    inside = text.replace("".join(lines), "")
    below = "".join(lines).replace("_UA", "")
    assert below != "".join(lines)
    assert lines
    source.write_text(inside.replace(BELOW, BELOW + below))
    whole = put("plain", linux).new
    assert whole.count("_ASM_EXTABLE(") == len(lines)
    assert "_ASM_EXTABLE_UA" not in whole
    tree = trees.read(linux)
    target = routines.find(variant("plain"), tree)
    user = whole.replace("_ASM_EXTABLE(", "_ASM_EXTABLE_UA(")
    assert "differ" in routines.difference(variant("plain"), target, tree, {FILE: user})


def test_a_renamed_function_takes_the_trees_name(linux):
    path = linux / FILE
    path.write_text(path.read_text().replace("rep_stos_alternative", "clear_user_original"))
    change = put("plain", linux)
    assert "SYM_FUNC_START(clear_user_original)" in change.new
    assert "rep_stos_alternative" not in change.new
    assert "EXPORT_SYMBOL(clear_user_original)" in change.new


def test_missing_function_is_named_with_its_file_and_age(linux):
    path = linux / FILE
    path.write_text(path.read_text().replace("rep_stos_alternative", "clear_it"))
    with pytest.raises(InputError, match=r"clear_page_64\.S in .* has no function rep_stos_alter"):
        routines.find(variant("plain"), trees.read(linux))


def test_function_changed_beyond_recognition_is_refused(linux):
    path = linux / FILE
    body = PAGE[PAGE.index("\ttestq %rcx") : PAGE.index("SYM_FUNC_END(rep_stos")]
    other = '\tpushq %rbx\n\tcall memzero_explicit\n\tud2\n\tASSERT "never"\n'
    path.write_text(PAGE.replace(body, other))
    with pytest.raises(InputError, match="changed beyond recognition"):
        routines.find(variant("plain"), trees.read(linux))


def test_missing_file_is_named(linux):
    (linux / FILE).unlink()
    with pytest.raises(InputError, match=rf"has no file {FILE}"):
        routines.find(variant("plain"), trees.read(linux))


def test_a_link_that_leads_out_of_the_tree_is_refused(linux, tmp_path):
    outside = tmp_path / "outside.S"
    outside.write_text(PAGE)
    (linux / FILE).unlink()
    (linux / FILE).symlink_to(outside)
    with pytest.raises(InputError, match="leads out of the kernel tree"):
        routines.find(variant("plain"), trees.read(linux))


@pytest.mark.parametrize("bad", ["/etc/passwd", "../outside.S", "arch/../../outside.S"])
def test_kernel_toml_whose_target_leaves_the_tree_is_refused(own_kernels, bad):
    toml = own_kernels / "kernel.toml"
    toml.write_text(toml.read_text().replace(f'file = "{FILE}"', f'file = "{bad}"'))
    with pytest.raises(InputError, match="leaves the kernel tree"):
        kernels.load("x86_64/clear_user")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ('{ kind = "patch", file = "a" }', "none of function, region, macro, line"),
        ('{ kind = "macro", file = "a" }', "'name' is missing"),
        ('{ kind = "function", file = "/a", name = "b" }', "leaves the kernel tree"),
        ('{ kind = "function", file = "a", name = "b", source = "../x.S" }', "no file beside"),
    ],
)
def test_bad_edits_are_refused_by_name(own_kernels, edit, said):
    toml = own_kernels / "kernel.toml"
    head, mark, rest = toml.read_text().partition('name = "plain"\n')
    toml.write_text(f"{head}{mark}edits = [{edit}]\n{rest}")
    with pytest.raises(InputError, match=said) as raised:
        kernels.load("x86_64/clear_user")
    assert "\n" not in str(raised.value)


def change(folder: Path, register: str) -> kernels.Variant:
    """Let a variant change one more register, and say so."""
    source = folder / "plain.S"
    first = "\tsubq $8,%rcx\n\tjb"
    source.write_text(source.read_text().replace(first, f"\tmovq %rdi,%{register}\n{first}"))
    toml = folder / "kernel.toml"
    head, mark, rest = toml.read_text().partition('name = "plain"\n')
    toml.write_text(f'{head}{mark}may_change = ["{register}"]\n{rest}')
    return variant("plain")


def test_registers_the_caller_does_not_know_of_are_added_to_its_list(own_kernels, linux):
    changed = change(own_kernels, "rdx")
    (fitted,) = edits.fit_callers(changed, "rep_stos_alternative", trees.read(linux), [])
    assert fitted.file == CALLER
    assert ': "a" (0) : "rdx");' in fitted.new
    assert fitted.new.replace(' : "rdx"', "") == CALL


def test_a_register_that_the_caller_lists_needs_no_change(own_kernels, linux):
    (linux / CALLER).write_text(CALL.replace(': "a" (0)', ': "a" (0) : "rdx"'))
    changed = change(own_kernels, "rdx")
    assert edits.fit_callers(changed, "rep_stos_alternative", trees.read(linux), []) == []


@pytest.mark.parametrize(
    ("register", "inputs"), [("rdx", '"a" (0), "d" (addr)'), ("rax", '"a" (0)')]
)
def test_a_register_the_caller_needs_behind_the_call_is_refused(
    own_kernels, linux, register, inputs
):
    (linux / CALLER).write_text(CALL.replace('"a" (0)', inputs))
    changed = change(own_kernels, register)
    with pytest.raises(InputError, match=rf"changes {register}, which .* needs unchanged"):
        edits.fit_callers(changed, "rep_stos_alternative", trees.read(linux), [])


@pytest.mark.parametrize(
    ("old", "new"),
    [('"+c" (size)', '"+d" (size)'), ('"+D" (addr)', '"+S" (addr)'), ('"a" (0)', '"b" (0)')],
)
def test_another_calling_convention_is_refused(linux, old, new):
    (linux / CALLER).write_text(CALL.replace(old, new))
    with pytest.raises(InputError, match="by another convention"):
        edits.fit_callers(variant("plain"), "rep_stos_alternative", trees.read(linux), [])


def test_a_caller_that_does_not_call_is_refused(linux):
    (linux / CALLER).write_text(CALL.replace('"call rep_stos_alternative"', '"call other"'))
    with pytest.raises(InputError, match="no inline assembly with `call rep_stos_alternative`"):
        edits.fit_callers(variant("plain"), "rep_stos_alternative", trees.read(linux), [])


OTHERS = {
    "arch/x86/lib/usercopy_other.S": "SYM_FUNC_START(other)\n\tcall {}\n\tRET\n",
    "arch/x86/include/asm/other.h": '#define clear_it(n) \\\n\tasm("call {}" : "+c" (n))\n',
    "lib/other.c": "#define routine {}\n",
    "drivers/other.c": "void (*routine)(void) = {};\n",
}


@pytest.mark.parametrize("file", OTHERS)
def test_a_caller_that_nobody_has_looked_at_is_refused(linux, file):
    (linux / file).parent.mkdir(parents=True, exist_ok=True)
    (linux / file).write_text(OTHERS[file].format("rep_stos_alternative"))
    with pytest.raises(InputError, match=rf"{file} in .* uses rep_stos_alternative where"):
        edits.fit_callers(variant("plain"), "rep_stos_alternative", trees.read(linux), [])
    # A word in a comment, a prototype and another architecture's file call nothing.
    (linux / file).write_text("/* as rep_stos_alternative */\nvoid rep_stos_alternative(void);\n")
    (linux / "arch/alpha").mkdir(parents=True)
    (linux / "arch/alpha/other.S").write_text("\tcall rep_stos_alternative\n")
    assert edits.fit_callers(variant("plain"), "rep_stos_alternative", trees.read(linux), []) == []


def test_every_statement_of_a_caller_names_the_registers(own_kernels, linux):
    (linux / CALLER).write_text(CALL + CALL.replace("static", "extern"))
    changed = change(own_kernels, "rdx")
    (fitted,) = edits.fit_callers(changed, "rep_stos_alternative", trees.read(linux), [])
    assert fitted.new.count(': "a" (0) : "rdx");') == 2


def test_a_tree_without_checkpatch_makes_no_patch(linux, tmp_path):
    with pytest.raises(InputError, match=r"has no scripts/checkpatch\.pl"):
        make(variant("plain"), linux, tmp_path / "out", Evidence())
    assert not (tmp_path / "out").exists()
