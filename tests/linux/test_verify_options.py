"""Which options a source needs by makefiles and Kconfig, and what a log of QEMU says was run."""

from pathlib import Path

import pytest

from loopwright.linux import boot_tier, build
from loopwright.linux.trees import Tree

FILES = {
    "Kconfig": 'source "lib/Kconfig"\nsource "arch/$(SRCARCH)/Kconfig"\n',
    "arch/x86/Kbuild": "obj-y += crypto/\nobj-$(CONFIG_DEEP) += deep/\n",
    "arch/x86/crypto/Makefile": (
        "obj-$(CONFIG_SHA) += sha-x86.o\nsha-x86-y := sha_asm.o \\\n\tsha_glue.o\n"
        "obj-y += always.o\n"
    ),
    "arch/x86/deep/Makefile": "obj-y += one.o\n",
    "arch/x86/Kconfig": "config DEEP\n\tbool\n",
    "lib/Kconfig": (
        "menuconfig HASHES\n\tbool\n\thelp\n\t  config THIS is a word of help,\n\t  if any.\n"
        "if HASHES\nconfig SHA\n\ttristate\n\tdepends on 64BIT && !SLOW\n"
        'menu "others"\n\tdepends on OTHERS\nconfig SUM\n\tbool\n\tdepends on BASE = n\n'
        "endmenu\nendif # HASHES\nconfig FREE\n\tbool\n"
    ),
    "lib/Makefile": "lib-$(CONFIG_SUM) += sum.o\nobj-$(CONFIG_FREE) += free.o\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree(tmp_path, "6.12")


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("arch/x86/crypto/sha_asm.S", {"SHA", "HASHES", "64BIT"}),  # a part of another object
        ("arch/x86/crypto/always.S", set()),
        ("arch/x86/deep/one.S", {"DEEP"}),  # its folder is only entered with it
        ("lib/sum.S", {"SUM", "HASHES", "OTHERS"}),  # BASE must not be set
        ("lib/free.S", {"FREE"}),  # behind the block's end
    ],
)
def test_a_source_needs_what_its_lists_name_and_what_that_depends_on(
    tree: Tree, file: str, wanted: set[str]
) -> None:
    assert set(build.options_of_source(tree, "x86_64", file)) == wanted


def test_jumps_to_watched_addresses_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "Trace 0: 0x7f8a44 [0000000000000000/ffffffff81172840/00280400/ff020000] f\n"
        "something else [0/ffffffff81172840/0]\n"
        "Trace 1: 0x7f8a44 [0000000000000000/ffffffff81172840/00280400/ff020000] \n"
        "Trace 0: 0x7f8a99 [0000000000000000/ffffffff81172858/00280400/ff020000] f\n"
    )
    assert boot_tier.entered_counts(log) == {0xFFFFFFFF81172840: 2, 0xFFFFFFFF81172858: 1}
    assert boot_tier.entered_counts(tmp_path / "none") == {}
    watched = boot_tier.log_options(log, [0x30, 0x10])
    assert watched[watched.index("-dfilter") + 1] == "0x10+1,0x30+1"
