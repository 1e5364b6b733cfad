"""Finding pieces of kernel sources, and merging a variant's text into a tree's."""

import pytest

from loopwright.linux import routines
from loopwright.linux.edits import keep_tree_lines

ASM = """\
/* What it does; SYM_FUNC_START(decoy) in a comment is none. */
SYM_FUNC_START(first)
	RET
SYM_FUNC_END(first)
EXPORT_SYMBOL(first)

/*
 * Clears things.
 */
SYM_FUNC_START(second)
.Lloop:
	movq %rax,(%rdi)	/* one word */
	jnz .Lloop
	RET
SYM_FUNC_END(second)
EXPORT_SYMBOL(second)
"""

C = """\
struct thing;

/* Only said to exist. */
extern int put(struct thing *it, int value);

/* Puts "put(" in a string: } */
static inline int
put(struct thing *it,
		int value)
{
	if (value) {
		log("put( }");
		return '}';
	}
	return 0;
}

int use(struct thing *it)
{
	return put(it, 1);
}
"""


def test_asm_function_is_found_without_what_stands_around_it():
    span = routines.asm_function(ASM, "second")
    assert span is not None
    piece = span.of(ASM)
    assert piece.startswith("SYM_FUNC_START(second)\n.Lloop:")
    assert piece.endswith("SYM_FUNC_END(second)\n")
    assert span.replaced(ASM, "gone\n").count("EXPORT_SYMBOL(second)") == 1


@pytest.mark.parametrize("name", ["decoy", "sec", "second_one"])
def test_asm_function_that_is_not_there(name):
    assert routines.asm_function(ASM, name) is None


def test_asm_function_without_its_end_is_not_found():
    assert routines.asm_function(ASM.replace("SYM_FUNC_END(second)", ""), "second") is None


def test_c_function_is_its_definition_with_its_whole_declaration():
    span = routines.c_function(C, "put")
    assert span is not None
    piece = span.of(C)
    assert piece.startswith("static inline int\nput(struct thing *it,\n")
    assert piece.endswith("\treturn 0;\n}\n")


def test_c_function_that_is_only_called_or_declared_is_not_found():
    assert routines.c_function(C, "log") is None
    assert routines.c_function("int put(int value);\n", "put") is None


def test_c_function_defined_twice_is_not_chosen_from():
    assert routines.c_function(C + "int put(void)\n{\n}\n", "put") is None


def test_comment_above_belongs_to_the_function_only_right_above_it():
    start = ASM.index("SYM_FUNC_START(second)")
    assert ASM[routines.comment_above(ASM, start) :].startswith("/*\n * Clears things.")
    apart = ASM.replace(" */\nSYM_FUNC_START(second)", " */\n\nSYM_FUNC_START(second)")
    start = apart.index("SYM_FUNC_START(second)")
    assert routines.comment_above(apart, start) == start


def test_macro_and_region():
    content = "\t.macro ldp1 a, b\n\tldp \\a, \\b\n\t.endm\n\t.macro ldp1x\n\t.endm\n"
    span = routines.macro(content, "ldp1")
    assert span is not None
    assert span.of(content) == "\t.macro ldp1 a, b\n\tldp \\a, \\b\n\t.endm\n"
    body = "start:\n\tnop\n.Lbody:\n\tldp1\tA_l,   A_h\n\tret\n.Lexit:\n"
    region = routines.region(body, ".Lbody:", ".Lexit:")
    assert region is not None
    assert region.of(body) == ".Lbody:\n\tldp1\tA_l,   A_h\n\tret\n"
    line = routines.region(body, "ldp1 A_l, A_h", "ret")
    assert line is not None
    assert line.of(body) == "\tldp1\tA_l,   A_h\n"
    assert routines.region(body, ".Lexit:", ".Lbody:") is None


def test_labels_are_the_named_ones_and_are_renamed_as_whole_words():
    code = ".Lloop:\n1:\tjnz .Lloop_end\n\tjnz .Lloop\n.Lloop_end:\n"
    assert routines.labels(code) == [".Lloop", ".Lloop_end"]
    renamed = routines.rename(code, ".Lloop", ".Lother")
    assert renamed == ".Lother:\n1:\tjnz .Lloop_end\n\tjnz .Lother\n.Lloop_end:\n"


def test_likeness_tells_a_changed_function_from_another_one():
    loop = "1:\tmovq %rax,(%rdi)\n\taddq $8,%rdi\n\tsubq $8,%rcx\n\tjae 1b\n\tret\n"
    close = loop.replace("addq", "leaq").replace("$8,%rdi", "8(%rdi),%rdi")
    other = "\tpushq %rbx\n\tcpuid\n\tmovl %ebx,(%rsi)\n\tpopq %rbx\n\tiretq\n"
    assert routines.likeness(loop, close) > 0.7
    assert routines.likeness(loop, other) < 0.5


def test_what_is_said_of_a_block_that_changes_is_said_anew():
    old = "\t/* by tens */\n\tif (n > 9) {\n\t\tn -= 10;\n\t}\n\t/* rest */\n\tf(n);\n"
    new = "\t/* by twenties */\n\tif (n > 9) {\n\t\tn -= 20;\n\t}\n\tf(n);\n"
    kept = keep_tree_lines(old, new, asm=False)
    assert kept == old.replace("by tens", "by twenties").replace("10", "20")


def test_new_instructions_are_spelled_as_the_tree_spells_them():
    old = "\tinc %rdi\n\tdec %rcx\n\tmovb $0,(%rdi)\n\tjnz 1b\n\tRET\n"
    new = "\tmovq %rax,(%rdi)\n\tincq %rdi # on\n\tdecq %rcx\n\tjne 2f\n2:\tincq %rdi\n\tRET\n"
    kept = keep_tree_lines(old, new, asm=True)
    assert "\tdec %rcx\n" in kept
    assert "\tincq %rdi # on\n" in kept or "\tinc %rdi" in kept
    assert "\tjne 2f\n" in kept  # another target than the tree's


def test_merge_keeps_the_spelling_and_comments_of_lines_that_mean_the_same():
    old = "\tcmp $8,%ecx\n\tjz 1f\n\n\t/* theirs */\n\tinc %rdi\n\tmovb $1,(%rdi)\n1:\tRET\n"
    new = "\tcmpl $8,%ecx\n\tje 1f\n\t/* ours */\n\tincq %rdi\n\tmovw $1,(%rdi)\n1:\tRET\n"
    kept = keep_tree_lines(old, new, asm=True)
    assert kept == old.replace("movb", "movw")


def test_merge_never_takes_another_size_or_indentation_for_the_same():
    sized = keep_tree_lines("\tmovb $1,(%rdi)\n", "\tmovl $1,(%rdi)\n", asm=True)
    assert sized == "\tmovl $1,(%rdi)\n"
    c = keep_tree_lines("\tif (a) {\n\t}\n}\n", "\tb();\n}\n", asm=False)
    assert c == "\tb();\n}\n"


def test_merge_drops_the_blank_line_of_a_stretch_that_is_gone():
    old = ".Lx:\n\t/* gone */\n\tnop\n\n\t/* stays */\n\tRET\n"
    assert keep_tree_lines(old, ".Lx:\n\tRET\n", asm=True) == ".Lx:\n\t/* stays */\n\tRET\n"


def test_merge_tries_the_trees_spelling_but_for_operand_constraints():
    old = 'a = 1 + 1;\nasm("x" : "=r"(a) : : "memory");\n'
    new = 'a = 2;\nb();\nasm("x" : "=&r"(a));\n'
    tried: list[str] = []

    def same_code(candidate: str) -> bool:
        tried.append(candidate)
        return "b();" in candidate

    assert keep_tree_lines(old, new, asm=False, same_code=same_code) == new
    kept = keep_tree_lines(
        "a = 1 + 1;\nc();\n", "a = 2;\nc();\n", asm=False, same_code=lambda _: True
    )
    assert kept == "a = 1 + 1;\nc();\n"
    assert all('"memory"' not in candidate for candidate in tried)


def test_includes_are_added_behind_those_of_their_folder():
    content = "#include <linux/linkage.h>\n#include <asm/asm.h>\n\ncode\n"
    added = routines.add_include(content, "<linux/export.h>")
    assert added.startswith("#include <linux/linkage.h>\n#include <linux/export.h>\n#include <asm")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (" #define masked(x) NULL\n", True),
        ("static inline int masked(int x)\n{\n", True),
        ("extern int\nmasked(int x);\n", True),
        ("/* masked(x) */\n", False),
        ("\ty = masked(x);\n", False),
        ("#ifdef masked\n", False),
    ],
)
def test_a_name_is_defined_by_macro_or_declaration_not_by_its_use(header, found):
    assert routines.defines(header, "masked") is found
