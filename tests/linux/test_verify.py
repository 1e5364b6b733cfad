"""Verification of patches: tiers apply and object on real trees, and the parts they stand on."""

import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from few_variants import few
from linux_trees import SOMEONE, whole_tree

from loopwright import kernels
from loopwright.cli import run
from loopwright.errors import InputError
from loopwright.linux import build, built_code, object_tier, trees, verification, verify
from loopwright.linux.built_code import Alternative, Image
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make
from loopwright.linux.trees import Tree

BOTH = ("6.12", "6.1")
PATCHES = [
    ("x86_64/clear_user/aligned16", "6.12"),
    ("x86_64/put_event/masked", "6.12"),
    ("x86_64/copy_user/overlapped", "6.12"),
    ("arm64/copy_user/to_user_nopan", "6.12"),
    ("x86_64/copy_user/unrolled64", "6.12"),
    ("x86_64/copy_user/negative_index", "6.12"),
    ("x86_64/clear_user/aligned16", "6.1"),
    *(("x86_64/put_event/write_begin", series) for series in BOTH),
    ("x86_64/csum/adcx_adox", "6.12"),
    *(("arm64/copy_user/to_user_batched", series) for series in BOTH),
    ("arm64/copy_user/from_user_nopan", "6.1"),
]


def patched(spec: str, tree: Tree, folder: Path) -> verification.PatchedVariant:
    """A variant's patch, made in folder."""
    variant = kernels.select(spec)[1][0]
    made = make(variant, tree.root, folder, Evidence(), SOMEONE)
    return verification.of_patch(variant, tree, made.files[0])


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """Return what verifies a variant's patch in tiers apply and object, once each."""

    @cache
    def rows(spec, series):
        tree = whole_tree(series)
        before = snapshot(tree.root)
        found = verify.run(patched(spec, tree, tmp_path_factory.mktemp("patch")), "object")
        assert snapshot(tree.root) == before
        return found

    return rows


def holds(spec: str, rows: pd.DataFrame) -> None:
    failed = rows[rows["status"] == verification.FAIL]
    assert failed.empty, failed[["check", "what"]].to_dict("records")
    passed = set(rows.loc[rows["status"] == "pass", "check"].str.partition(" of ")[0])
    assert {"git am", "checkpatch", "same code", "build"} <= passed
    left = verify.open_points(rows)
    if "csum" in spec:  # it has fixups of its own: said, not passed over
        own = (
            "EX_TYPE_ZEROPAD",
            "boot_cpu_data",
        )  # of the kernel: a fixup, and what CPU it runs on
        assert any(name in point for point in left for name in own)
    elif reason := kernels.select(spec)[1][0].unreached:
        [point] = left
        assert "not proven: " in point
        assert reason in point
    else:
        assert all(point.startswith("includers of ") for point in left)  # built by tier boot
        assert {"exception table", "alternatives", "registers", "contract"} <= passed
        contract = rows.loc[rows["check"].str.startswith("contract"), "what"].iloc[0]
        (cases,) = re.findall(r"(\d+) cases with no feature", contract)
        assert int(cases) > 40000
    if spec.startswith("arm64"):
        over = rows.loc[rows["check"].str.startswith("over-report"), "what"]
        assert all(re.match(r"up to \d+ bytes .* own object up to \d+", what) for what in over)
        assert len(over) == 2


def snapshot(root: Path) -> set[tuple[str, int, int]]:
    folders = ("arch/x86/lib", "arch/arm64/lib", "include/linux", "lib", "fs", "scripts")
    below = [p for part in folders for p in (root / part).iterdir()]
    return {(str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in [root, *below]}


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "series"), PATCHES)
def test_patches_hold_in_tiers_apply_and_object(spec, series, verified):
    holds(spec, verified(spec, series))


@pytest.mark.slow
def test_an_error_is_named_with_its_command_and_its_log(tmp_path):
    tree = whole_tree("6.12")
    good = patched("x86_64/clear_user/aligned16", tree, tmp_path)
    (file,) = good.files
    broken = {file: good.files[file].replace("_ASM_EXTABLE_UA(.Lbytes, .Lexit)", "")}
    rows = verify.run(
        verification.PatchedVariant(tree, good.variants, broken, good.patch), "object"
    )
    failed = rows[rows["status"] == verification.FAIL].set_index("check")
    assert {"git am", "same code", "contract of rep_stos_alternative"} <= set(failed.index)
    row = failed.loc["contract of rep_stos_alternative"]
    assert "no exception-table entry" in row["what"]
    assert "--verify object" in row["command"]
    assert row["what"] in Path(row["log"]).read_text()


def changed(good: verification.PatchedVariant, old: str, new: str) -> verification.PatchedVariant:
    """A subject with an error put into each of its files."""
    broken = {file: text.replace(old, new) for file, text in good.files.items()}
    assert broken != good.files
    return verification.PatchedVariant(good.tree, good.variants, broken, good.patch)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_ASM_EXTABLE_UA(.Lqwords,", "_ASM_EXTABLE(.Lqwords,", "is EX_TYPE_DEFAULT"),
        (
            "_ASM_EXTABLE_UA(.Lqwords, .Lrest)",
            "_ASM_EXTABLE_TYPE(.Lqwords, .Lrest, EX_TYPE_FAULT)",
            "is EX_TYPE_FAULT",
        ),
    ],
)
def test_an_entry_of_another_kind_than_its_access_needs_is_found(old, new, message, tmp_path):
    good = patched("x86_64/clear_user/aligned16", whole_tree("6.12"), tmp_path)
    rows = verify.run(changed(good, old, new), "object")
    failed = rows[rows["status"] == verification.FAIL].set_index("check")["what"]
    what = failed["exception table of rep_stos_alternative"]
    assert message in what
    assert "an access to a user's memory needs EX_TYPE_UACCESS" in what


@pytest.mark.slow
def test_what_cannot_be_proven_is_in_the_patch_and_no_pass(tmp_path):
    tree = whole_tree("6.12")
    variant = kernels.select("x86_64/csum/adc2")[1][0]
    made = make(variant, tree.root, tmp_path / "a", Evidence(), SOMEONE)
    left = verify.open_points(
        verify.run(verification.of_patch(variant, tree, made.files[0]), "object")
    )
    assert [point.partition(":")[0] for point in left] == ["contract of csum_partial (tier object)"]
    again = make(variant, tree.root, tmp_path / "b", Evidence(unproven=left), SOMEONE)
    text = " ".join(again.files[0].read_text().split())
    assert "Not shown: " in text
    assert "contract of csum_partial (tier object): its exception table has EX_TYPE_ZEROPAD" in text


HEADER = "include/linux/eventpoll.h"


@pytest.mark.slow
def test_every_source_that_includes_a_changed_header_is_built(verified):
    rows = verified("x86_64/put_event/masked", "6.12").set_index("check")
    built = rows.loc[f"includers of {HEADER}", "what"]
    assert "fs/file_table.o" in built
    assert "io_uring/epoll.o" in built


@pytest.mark.slow
def test_sources_that_include_a_changed_header_are_found(tmp_path):
    tree = whole_tree("6.12")
    sources = trees.includers(tree, "x86_64", HEADER, 200)
    assert {"fs/eventpoll.c", "fs/file_table.c", "io_uring/epoll.c", "kernel/kcmp.c"} <= {*sources}
    assert not [file for file in sources if file.startswith("arch/arm")]
    subject = patched("x86_64/put_event/masked", tree, tmp_path)
    objects, left_out = object_tier.including(HEADER, subject, "CONFIG_KCMP=y\n")
    assert {"fs/file_table.o", "kernel/kcmp.o"} <= {*objects}
    assert {"fs/eventpoll.c", "io_uring/epoll.c"} <= {*left_out}


@pytest.mark.slow
def test_the_verb_prints_each_check_and_returns_them_as_rows(tmp_path, monkeypatch, capsys):
    few(monkeypatch, tmp_path / "kernels", "x86_64/clear_user", "unrolled64", "aligned16")
    tree = whole_tree("6.12")
    command = [
        "patch", "x86_64/clear_user/aligned16", "--tree", str(tree.root),
        "-o", str(tmp_path / "out"), "--microarch", "sandybridge", "--no-measure",
        "--verify", "apply", "--json",
    ]  # fmt: skip
    assert run(command) == 0
    output = capsys.readouterr()
    assert "apply: git am: pass in " in output.err
    assert '"check": "checkpatch"' in output.out


def test_a_part_of_the_sources_cannot_be_built(tmp_path):
    for name, text in (("Makefile", "VERSION = 6\nPATCHLEVEL = 12\n"), ("Kbuild", "")):
        (tmp_path / name).write_text(text)
    tree = trees.read(tmp_path)
    with pytest.raises(InputError, match="building needs a whole tree"), build.hold(tree):
        pass


def test_the_overlay_follows_changes_and_leaves_the_tree_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_BUILD", str(tmp_path / "build"))
    root = tmp_path / "linux"
    files = {"Makefile": "VERSION = 6\nPATCHLEVEL = 12\n", "Kbuild": "", "lib/a.c": "a\n"}
    files |= {"scripts/Makefile.build": "", ".config": "built\n", "lib/a.o": "built\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    tree = trees.read(root)
    with build.hold(tree) as held:
        held.put({"lib/a.c": "changed\n", "lib/b.c": "new\n"})
        assert (held.source / "lib/a.c").read_text() == "changed\n"
        assert (held.source / "lib/b.c").read_text() == "new\n"
        assert not (held.source / ".config").exists()
        assert not (held.source / "lib/a.o").exists()
        changed = (held.source / "lib/a.c").stat().st_mtime_ns
        held.put({})
        assert (held.source / "lib/a.c").read_text() == "a\n"
        # make has to see that the file is another one than what was built last.
        assert (held.source / "lib/a.c").stat().st_mtime_ns >= changed
        assert not (held.source / "lib/b.c").exists()
    assert {p: (root / p).read_text() for p in files} == files


def image(isa: str, text: str, *patches: Alternative) -> Image:
    return Image(isa, bytes.fromhex(text), {"f": 0}, {"f": len(text) // 2}, (), patches)


def test_alternatives_keep_the_targets_of_branches():
    jump = Alternative(1, 5, bytes.fromhex("e9 00ffffff"), 0x1000, "X86_FEATURE_A", False, False)
    code = image("x86_64", "90 9090909090 c3", jump)
    assert built_code.with_features(code, frozenset()) == code.text
    moved = built_code.with_features(code, frozenset({"X86_FEATURE_A"}))
    # 0x1000 + 5 - 0x100 is 0xf05: from behind the site at 1 that is 0xeff.
    assert moved.hex() == "90e9ff0e0000c3"
    branch = Alternative(0, 4, bytes.fromhex("01000014"), 0x100, "ARM64_HAS_A", False, False)
    arm = image("arm64", "1f2003d5 c0035fd6", branch)
    assert built_code.with_features(arm, frozenset({"ARM64_HAS_A"}))[:4].hex() == "41000014"
    assert built_code.feature_sets([jump]) == [frozenset(), frozenset({"X86_FEATURE_A"})]


def test_short_replacements_are_padded_and_inverse_ones_taken_without_the_feature():
    alternative = Alternative(0, 3, bytes.fromhex("f8"), 0x100, "X86_FEATURE_A", True, False)
    code = image("x86_64", "909090c3", alternative)
    assert built_code.with_features(code, frozenset()).hex() == "f89090c3"
    assert built_code.with_features(code, frozenset({"X86_FEATURE_A"})) == code.text


@pytest.mark.parametrize(
    ("isa", "code", "written"),
    [
        ("x86_64", "53 4889fb 5b c3", set()),  # rbx is saved
        ("x86_64", "4889fb c3", {"rbx"}),
        ("x86_64", "4989f8 31c0 c3", {"r8", "rax"}),
        ("arm64", "f30302aa c0035fd6", {"x19"}),  # mov x19, x2
        ("arm64", "f30f1ff8 f30302aa f30741f8 c0035fd6", set()),  # x19 is saved
    ],
)
def test_registers_that_code_loses(isa, code, written):
    assert built_code.written_registers(isa, bytes.fromhex(code)) == written


def test_vector_registers_and_the_direction_flag():
    assert built_code.vector_registers("x86_64", bytes.fromhex("660fefc0c3")) == {"zmm0"}
    assert built_code.vector_registers("x86_64", bytes.fromhex("4889f8c3")) == set()
    assert built_code.vector_registers("arm64", bytes.fromhex("2004c03d")) == {"q0"}
    assert built_code.direction_flag(bytes.fromhex("fdf3a4fcc3")) == 0
    assert built_code.direction_flag(bytes.fromhex("fdf3a4c3")) == 1
