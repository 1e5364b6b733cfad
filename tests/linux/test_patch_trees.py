"""Patches against Debian's Linux trees: applied, checked and assembled again by the tests."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from linux_trees import SOMEONE, git, linux, pristine, snapshot, touched, variant
from quick import some

from loopwright.errors import InputError
from loopwright.linux import routines, trees
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make

TARGETS = [
    ("x86_64/copy_user/unrolled64", "6.12"),
    ("x86_64/copy_user/overlapped", "6.12"),
    ("x86_64/copy_user/negative_index", "6.12"),
    ("x86_64/clear_user/aligned16", "6.12"),
    ("x86_64/clear_user/negative_index_fused", "6.1"),
    ("x86_64/csum/adc4", "6.12"),
    ("x86_64/csum/adcx_adox", "6.12"),
    ("x86_64/put_event/write_begin", "6.12"),
    ("x86_64/put_event/write_begin", "6.1"),
    ("x86_64/put_event/masked", "6.12"),
    ("arm64/copy_user/to_user_batched", "6.12"),
    ("arm64/copy_user/to_user_nopan", "6.12"),
    ("arm64/copy_user/from_user_nopan", "6.1"),
]
ALREADY = [
    ("x86_64/copy_user/movsq_aligned", "6.12"),
    ("x86_64/copy_user/movsb", "6.12"),
    ("x86_64/clear_user/unrolled64", "6.12"),
    ("x86_64/csum/two_chains_40", "6.12"),
    ("x86_64/put_event/put_user_twice", "6.12"),
    ("x86_64/put_event/put_user_twice", "6.1"),
    ("arm64/copy_user/to_user_pairs", "6.12"),
    ("arm64/copy_user/from_user_pairs", "6.1"),
]


QUICK = [
    ("x86_64/copy_user/unrolled64", "6.12"),
    ("x86_64/clear_user/negative_index_fused", "6.1"),
    ("x86_64/csum/adc4", "6.12"),
    ("x86_64/put_event/write_begin", "6.1"),
    ("arm64/copy_user/to_user_batched", "6.12"),
]


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    """Return what makes a variant's patch against a tree, which stays as it was, once each."""

    @cache
    def made(spec, series):
        root, out = linux(series), tmp_path_factory.mktemp("patch") / "out"
        before = snapshot(root)
        found = make(variant(spec), root, out, Evidence(), SOMEONE)
        assert snapshot(root) == before
        assert list(out.iterdir()) == [*found.files]
        return found

    return made


@pytest.mark.parametrize(("spec", "series"), some(TARGETS, QUICK))
def test_patch_applies_and_passes_the_trees_checkpatch_and_is_the_code_checked(
    spec, series, patched, tmp_path
):
    root, made = linux(series), patched(spec, series)
    assert made.status == "written"
    (patch,) = made.files

    repository = pristine(root, patch, tmp_path / "pristine")
    git(repository, "am", "-q", str(patch))
    assert git(repository, "log", "-1", "--format=%an <%ae>").strip() == str(SOMEONE)
    message = git(repository, "log", "-1", "--format=%B")
    assert message.startswith(made.subject + "\n\n")
    assert all(len(line) <= 75 for line in message.splitlines() if "://" not in line)
    assert message.rstrip().endswith(f"Signed-off-by: {SOMEONE}")

    script = [root / "scripts/checkpatch.pl", f"--root={root}", "--show-types"]
    found = subprocess.run(
        ["perl", *script, patch], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    errors = re.findall(r"ERROR:(\w+)", found.stdout)
    allowed = [f.type for f in made.findings if f.level == "ERROR" and f.allowed]
    assert errors == allowed
    assert f"total: {len(allowed)} errors" in found.stdout

    source = trees.read(root)
    for one in routines.together(variant(spec)):
        applied = {file: (repository / file).read_text() for file in touched(patch.read_text())}
        assert routines.difference(one, routines.find(one, source), source, applied) == ""


@pytest.mark.parametrize(("spec", "series"), ALREADY)
def test_what_the_tree_has_is_said_and_nothing_is_written(spec, series, tmp_path):
    made = make(variant(spec), linux(series), tmp_path / "out", Evidence(), SOMEONE)
    assert (made.status, made.files) == ("already there", ())
    assert variant(spec).name in made.notes[0]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("spec", "series", "message"),
    [
        (
            "x86_64/copy_user/overlapped",
            "6.1",
            r"copy_user_64\.S in .*6\.1.* has no function rep_movs_alternative; .*since Linux 6\.4",
        ),
        (
            "x86_64/put_event/masked",
            "6.1",
            r"uses masked_user_access_begin, which .*uaccess\.h in .* lacks; .*since Linux 6\.12",
        ),
        ("x86_64/put_event/masked_outside", "6.12", "makes no patch: the kernel exposes no mask"),
    ],
)
def test_what_a_tree_cannot_take_is_refused_in_one_line(spec, series, message, tmp_path):
    with pytest.raises(InputError, match=message) as raised:
        make(variant(spec), linux(series), tmp_path / "out", Evidence(), SOMEONE)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_callers_name_the_registers_that_the_new_code_changes(patched):
    patch = patched("x86_64/copy_user/unrolled64", "6.12").files[0].read_text()
    assert '+\t\t: : "memory", "rax", "r8", "r9", "r10", "r11");' in patch
    assert "+ * it simpler for us, we can clobber rsi/rdi, rax and r8-r11 freely." in patch


def test_only_lines_that_change_the_code_are_in_the_patch(patched):
    made = patched("x86_64/put_event/write_begin", "6.1")
    hunks = (
        made.files[0].read_text().partition("\n@@ ")[2].partition("\n")[2].partition("\n-- \n")[0]
    )
    removed = [line[1:].strip() for line in hunks.splitlines() if line.startswith("-")]
    assert removed == [
        "if (__put_user(revents, &uevent->events) ||",
        "__put_user(data, &uevent->data))",
        "return uevent+1;",
    ]


def test_both_directions_of_the_arm64_copies_change_together(patched):
    specs = (f"arm64/copy_user/{side}_user_batched" for side in ("to", "from"))
    texts = [patched(spec, "6.12").files[0].read_text() for spec in specs]
    assert [Path(file).name for file in touched(texts[0])] == [
        "copy_from_user.S",
        "copy_template.S",
        "copy_to_user.S",
    ]
    undated = [re.sub(r"(?m)^Date: .*$", "", text) for text in texts]
    assert undated[0] == undated[1]
    assert "__arch_copy_to_user() was not run" in texts[0]
    assert "__arch_copy_from_user() was not run" in texts[0]


def test_a_history_of_patches_is_recognised_at_each_step(tmp_path):
    """Back to rep movsq without alignment, then forward again to what the tree has today."""
    root = linux("6.12")
    old = make(variant("x86_64/copy_user/movsq"), root, tmp_path / "old", Evidence(), SOMEONE)
    past = tmp_path / "past"
    shutil.copytree(root, past, ignore=lambda folder, names: _others(root, Path(folder), names))
    git(past, "init", "-q")
    git(past, "add", "-f", "arch/x86/lib/copy_user_64.S")
    git(past, "commit", "-q", "-m", "as it is")
    git(past, "am", "-q", str(old.files[0]))
    again = make(variant("x86_64/copy_user/movsq"), past, tmp_path / "again", Evidence(), SOMEONE)
    assert again.status == "already there"
    new = make(
        variant("x86_64/copy_user/movsq_aligned"), past, tmp_path / "new", Evidence(), SOMEONE
    )
    assert new.status == "written"
    git(past, "am", "-q", str(new.files[0]))
    aim = variant("x86_64/copy_user/movsq_aligned")
    then = make(aim, past, tmp_path / "then", Evidence(), SOMEONE)
    assert then.status == "already there"


def _others(root: Path, folder: Path, names: list[str]) -> list[str]:
    """Names that a copy of the tree's files for x86 patches can do without."""
    wanted = ["Makefile", "Kbuild", "arch/x86/lib/copy_user_64.S", "scripts/checkpatch.pl"]
    wanted += ["arch/x86/include/asm/uaccess_64.h", "scripts/spelling.txt"]
    here = folder.relative_to(root).as_posix()
    paths = {name: name if here == "." else f"{here}/{name}" for name in names}
    return [
        n
        for n, path in paths.items()
        if not any(w == path or w.startswith(path + "/") for w in wanted)
    ]


@pytest.mark.slow
def test_two_at_once_fetch_one_package_once(tmp_path):
    linux("6.12")
    code = "from loopwright.linux import trees; print(trees.find('debian:6.12').path)"
    environment = os.environ | {"LOOPWRIGHT_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    if any(process.returncode for process in both):
        pytest.skip(f"Debian's package cannot be had here: {outputs[0][1]}")
    assert {out.strip() for out, _ in outputs} == {str(tmp_path / "linux-source-6.12")}
    fetched = [err for _, err in outputs if "unpacking" in err or "downloading" in err]
    assert len(fetched) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "linux-source-6.12",
        "linux-source-6.12.lock",
    ]
    made = make(
        variant("arm64/copy_user/to_user_nopan"),
        tmp_path / "linux-source-6.12",
        tmp_path / "out",
        Evidence(),
        SOMEONE,
    )
    assert made.status == "written"
