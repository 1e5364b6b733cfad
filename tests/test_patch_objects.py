"""Patched objects, built in whole kernel trees by the kernel's own makefiles."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from loopwright import assemble, kernels
from loopwright.patch import Evidence, Identity, make

pytestmark = pytest.mark.slow

BUILDS = [
    ("x86_64/clear_user/aligned16", "6.12", "arch/x86/lib/clear_page_64.o"),
    ("x86_64/clear_user/aligned16", "6.1", "arch/x86/lib/clear_page_64.o"),
    ("x86_64/copy_user/unrolled64", "6.12", "arch/x86/lib/copy_user_64.o lib/usercopy.o"),
    ("x86_64/csum/adcx_adox", "6.12", "arch/x86/lib/csum-partial_64.o"),
    ("x86_64/put_event/masked", "6.12", "fs/eventpoll.o fs/file_table.o kernel/kcmp.o"),
    ("x86_64/put_event/write_begin", "6.1", "fs/eventpoll.o fs/file_table.o kernel/kcmp.o"),
    ("arm64/copy_user/to_user_nopan", "6.12", "arch/arm64/lib/copy_to_user.o"),
    ("arm64/copy_user/from_user_nopan", "6.1", "arch/arm64/lib/copy_from_user.o"),
]
MAKE = {"x86_64": ("ARCH=x86",), "arm64": ("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-")}


def whole_tree(series: str) -> Path:
    """An unpacked kernel, all of it, below LOOPWRIGHT_TREES."""
    root = Path(os.environ.get("LOOPWRIGHT_TREES", "")) / f"linux-source-{series}"
    if not (root / "scripts/Makefile.build").is_file():
        pytest.skip(
            f"no whole Linux {series} tree: set LOOPWRIGHT_TREES to a folder that holds "
            f"linux-source-{series}, unpacked from Debian's package of that name"
        )
    for tool in ("flex", "bison", "bc", "aarch64-linux-gnu-gcc"):
        if not shutil.which(tool):
            pytest.skip(f"building kernel objects needs {tool}: install it")
    if not Path("/usr/include/libelf.h").is_file():
        pytest.skip("building kernel objects needs libelf: `apt install libelf-dev`")
    return root


def run(*command: object, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr[-2000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def configured(tmp_path_factory: pytest.TempPathFactory):
    """A function that gives a linked copy of a tree and a configured build folder, once each."""
    made: dict[tuple[str, str], tuple[Path, Path]] = {}

    def of(series: str, isa: str) -> tuple[Path, Path]:
        if (series, isa) not in made:
            root = whole_tree(series)
            folder = tmp_path_factory.mktemp("objects")
            source, build = folder / "source", folder / "build"
            try:
                shutil.copytree(root, source, symlinks=True, copy_function=os.link)
            except OSError:
                shutil.copytree(root, source, symlinks=True, dirs_exist_ok=True)
            build.mkdir()
            setting = (f"O={build}", *MAKE[isa])
            run("make", "-s", *setting, "defconfig", cwd=source)
            # With IBT objtool leaves single objects unchecked.
            run(source / "scripts/config", "-d", "X86_KERNEL_IBT", cwd=build)
            run("make", "-s", *setting, "olddefconfig", cwd=source)
            run("nice", "make", "-s", "-j2", *setting, "prepare", cwd=source)
            made[series, isa] = source, build
        return made[series, isa]

    yield of
    for source, _ in made.values():
        shutil.rmtree(source.parent)


@pytest.mark.parametrize(("spec", "series", "objects"), BUILDS)
def test_patched_objects_build_without_a_word_of_gcc_or_objtool(
    spec, series, objects, configured, tmp_path
):
    kernel, (variant,) = kernels.select(spec)
    source, build = configured(series, kernel.isa)
    who = Identity("Some One", "some.one@example.org")
    patch = make(variant, source, tmp_path, Evidence(), who).files[0]
    # patch(1) writes new files and renames them: the tree behind the links stays as it is.
    run("patch", "-p1", "-s", "-i", patch, cwd=source)
    try:
        said = run(
            "make", "-s", "-j1", f"O={build}", *MAKE[kernel.isa], *objects.split(), cwd=source
        )
    finally:
        run("patch", "-R", "-p1", "-s", "-i", patch, cwd=source)
    assert said.strip() == ""
    first = build / objects.split()[0]
    if variant.source.suffix == ".S" and "clear" not in spec:
        # One pair of relocations for each entry of the exception table.
        table = run("readelf", "-rW", first, cwd=build).partition(".rela__ex_table")[2]
        entries = (
            len(re.findall(r"R_(?:X86_64_PC32|AARCH64_PREL32)", table.partition("\n\n")[0])) / 2
        )
        assert entries == len(assemble.variant_code(variant).exceptions)
