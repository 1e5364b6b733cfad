"""A hurt loop of assembly in a Linux tree becomes a patch, and its object is scanned again."""

from pathlib import Path

import pytest
from linux_trees import SOMEONE, git, pristine, whole_tree
from scanned import by_name

from loopwright.errors import InputError
from loopwright.linux import object_tier
from loopwright.linux.build import Overlay, hold
from loopwright.linux.edits import Change
from loopwright.linux.mail import Mail
from loopwright.linux.verification import CheckError
from loopwright.scanning import alignment_patches, binary_loops
from loopwright.scanning.alignment_patches import PatchedFile
from loopwright.scanning.scan import Question, Scan, scanned

pytestmark = pytest.mark.slow  # they configure and build a kernel

FILE, FUNCTION = "arch/x86/lib/clear_page_64.S", "rep_stos_alternative"


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """The object of 6.12's own clear_page_64.S, which has a hurt loop on Zen 2."""
    folder = tmp_path_factory.mktemp("object")
    tree = whole_tree("6.12")
    with hold(tree) as overlay:
        overlay.put({})
        build = object_tier.prepare(overlay, "x86_64")
        name = FILE.replace(".S", ".o")
        object_tier.build_anew(build, [name])
        path = folder / "clear_page_64.o"
        path.write_bytes((build.folder / name).read_bytes())
    return scanned(Question(path, microarch="zen2,sandybridge"))


def test_the_patch_applies_and_its_object_has_the_loop_at_a_better_place(
    scan: Scan, tmp_path: Path
) -> None:
    tree = whole_tree("6.12")
    before = (tree.root / FILE).stat()
    made = alignment_patches.patch(scan, FUNCTION, str(tree.root), tmp_path / "out", None, SOMEONE)
    assert (tree.root / FILE).stat().st_mtime_ns == before.st_mtime_ns
    assert [row["status"] for row in made.checks] == ["pass"] * 6
    assert made.file
    text = made.file.read_text()
    assert "x86/lib: Align a loop of rep_stos_alternative()" in text
    assert "+\t.p2align" in text
    assert "never run" in text  # a return stands before it
    assert "Predicted by loopwright pipeline" in " ".join(text.split())
    where = pristine(tree.root, made.file, tmp_path / "pristine")
    git(where, "am", "-q", str(made.file))
    with hold(tree) as overlay:
        overlay.put({FILE: (where / FILE).read_text()})
        build = object_tier.prepare(overlay, "x86_64")
        object_tier.build_anew(build, [FILE.replace(".S", ".o")])
        loops = by_name(build.folder / FILE.replace(".S", ".o"))
        overlay.put({})
    (hurt,) = [n for n, fix in enumerate(scan.found_fixes) if fix.candidate]
    wanted = binary_loops.shape(scan.found.loops[hurt])
    (moved,) = [x for x in loops.values() if binary_loops.shape(x) == wanted]
    assert moved.address % 16 == 0
    assert scan.found.loops[hurt].address % 16


def _patched_file(scan: Scan, overlay: Overlay, alignments: dict[int, int]) -> PatchedFile:
    tree = whole_tree("6.12")
    loops = [x for x in scan.found.loops if x.function == FUNCTION]
    cores = [one.core for one in scan.costs]
    return PatchedFile(tree, overlay, "x86_64", FUNCTION, FILE, loops, [alignments], cores)


def test_a_change_that_hurts_another_loop_is_found(scan: Scan) -> None:
    """Bytes put before another loop of the object, so that it lies across a line for certain."""
    with hold(whole_tree("6.12")) as overlay:
        patched = _patched_file(scan, overlay, {})
        for check in (patched._prepare, patched._find):
            check()
        text = patched.tree.read(FILE)
        tail = ".Lclear_user_tail:\n"
        across = f"\tjmp {tail[:-2]}\n\t.p2align 6\n\t.skip 60, 0x90\n{tail}"
        assert tail in text
        patched._rebuild(text.replace(tail, across))
        with pytest.raises(CheckError, match=r"rep_stos_alternative\+0x\w+ gets slower on zen2"):
            patched._others()
        overlay.put({})


def test_a_change_of_an_instruction_is_found(scan: Scan) -> None:
    with hold(whole_tree("6.12")) as overlay:
        patched = _patched_file(scan, overlay, {})
        for check in (patched._prepare, patched._find):
            check()
        patched._rebuild(patched.tree.read(FILE).replace("sub $8,%ecx", "sub $16,%ecx"))
        with pytest.raises(CheckError, match="other instructions"):
            patched._same()
        overlay.put({})


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nothing", "no loop in a function 'nothing'"),
        ("clear_page_orig", "hurt by its code offset"),
    ],
)
def test_what_needs_no_patch_is_said(scan: Scan, function: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        alignment_patches.patch(scan, function, str(whole_tree("6.12").root), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_patch_that_git_does_not_take_is_not_kept(tmp_path: Path) -> None:
    tree = whole_tree("6.12")
    same = Change(FILE, tree.read(FILE), tree.read(FILE))
    mail = Mail((same,), "x86/lib: Change nothing\n", "", SOMEONE, rfc=False)
    with pytest.raises(InputError, match="cannot be made"):
        mail.keep(tree, tmp_path, "nothing")
    assert list(tmp_path.iterdir()) == []
