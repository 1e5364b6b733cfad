"""Labels of assembly: the one at a loop's first byte, and what is put before it."""

from pathlib import Path

import pytest
from scanned import built, by_name

from loopwright.errors import InputError
from loopwright.linux.trees import Tree
from loopwright.scanning import alignment_patches, images

TEXT = """\
	.globl f
	.type f, @function
f:	/* not_one: */
	movl $3, %ecx
	.macro again
5:	decl %edx
	jne 5b
	.endm
	jmp .Lin
	.p2align 4
.Lhead:
1:	addl %ecx, %eax
.Lin:	decl %ecx
	jne .Lhead
	again
	ret
	.size f, .-f
"""


def test_labels_are_those_that_are_assembled_once() -> None:
    assert [(x.name, x.line) for x in alignment_patches.labels(TEXT)] == [
        ("f", 3),
        (".Lhead", 11),
        ("1", 12),
        (".Lin", 13),
    ]


def test_a_macro_may_make_a_label() -> None:
    text = "L(head):\n\tsubs x0, x0, 1\nL (no):\n\tb.ne L(head)\n"
    assert [label.name for label in alignment_patches.labels(text)] == ["L(head)"]


def test_a_function_has_its_loops_by_each_of_its_names(tmp_path: Path) -> None:
    alias = TEXT.replace("\tret\n", "\tret\n\t.weak g\n\t.set g, f\n")
    image = images.read_image(built(tmp_path, alias))
    loops = list(by_name(built(tmp_path, alias)).values())
    assert len(loops) == 2
    for name, count in (("f", 2), ("g", 2), ("h", 0), ("", 0)):
        assert len(alignment_patches.inside(image.sections, loops, name)) == count


def test_the_label_of_a_loop_is_the_first_at_its_first_byte(tmp_path: Path) -> None:
    found_labels = alignment_patches.labels(TEXT)
    path = built(tmp_path, alignment_patches.marked(TEXT, found_labels))
    sections = images.read_image(path).sections
    named = {
        loop.into: getattr(alignment_patches.at_head(sections, found_labels, loop), "name", None)
        for loop in by_name(built(tmp_path, TEXT, name="plain.o")).values()
    }
    assert list(named.values()) == [".Lhead", None]  # the other one comes from a macro


def test_a_directive_takes_the_place_of_the_one_that_is_there() -> None:
    found_labels = {label.name: label for label in alignment_patches.labels(TEXT)}
    over = alignment_patches.aligned(TEXT, found_labels[".Lhead"], 32)
    assert over == TEXT.replace("\t.p2align 4\n.Lhead", "\t.p2align 5\n.Lhead")
    new = alignment_patches.aligned(TEXT, found_labels[".Lin"], 64)
    assert new == TEXT.replace(".Lin:\t", "\t.p2align 6\n.Lin:\t")


def _tree(root: Path, **files: str) -> Tree:
    for name, text in files.items():
        path = root / "arch/x86/lib" / f"{name}.S"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root, "6.12")


def test_the_file_of_a_function_is_the_one_that_begins_it(tmp_path: Path) -> None:
    tree = _tree(
        tmp_path,
        one="SYM_FUNC_START(walk)\n",
        two="/* SYM_FUNC_START(walk) */\n\tcall walk\n",
        three="SYM_TYPED_FUNC_START(walk_on)\n",
    )
    assert alignment_patches.assembly_source(tree, "x86_64", "walk") == "arch/x86/lib/one.S"
    assert alignment_patches.assembly_source(tree, "x86_64", "walk_on") == "arch/x86/lib/three.S"
    with pytest.raises(InputError, match=r"no assembly file of .* defines stand"):
        alignment_patches.assembly_source(tree, "x86_64", "stand")


def test_two_files_with_one_function_are_a_question(tmp_path: Path) -> None:
    tree = _tree(tmp_path, one="SYM_FUNC_START(walk)\n", two="ENTRY(walk)\n")
    with pytest.raises(InputError, match=r"one\.S, arch/x86/lib/two\.S .*: which"):
        alignment_patches.assembly_source(tree, "x86_64", "walk")
