"""Kernel builds: what is kept of one, and what is thrown away."""

from types import SimpleNamespace

import pytest

from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.linux.build import BuildError, configured, require_tools

ISA = toolchain.host_isa()
# As much of a kernel's Makefile as configuring needs.
MAKEFILE = """\
tinyconfig defconfig:
	@echo $@ >$(O)/.config
olddefconfig:
	@! grep BROKEN $(O)/.config
"""
CONFIG = 'echo "$3 $4" >>"$2"\n'


@pytest.fixture
def overlay(tmp_path):
    """A folder that stands for a kernel's sources, held by this process."""
    try:
        require_tools(ISA)
    except InputError as missing:
        pytest.skip(str(missing))
    source = tmp_path / "source"
    (source / "scripts").mkdir(parents=True)
    (source / "Makefile").write_text(MAKEFILE)
    (source / "scripts/config").write_text(CONFIG)
    with (tmp_path / "lock").open("w") as lock:
        yield SimpleNamespace(source=source, folder=tmp_path, lock=lock.fileno())


def built(overlay, *options, base="tinyconfig"):
    """Configure, and leave an object as a build does."""
    build = configured(overlay, ISA, "built", base, options)
    objects = sorted(p.name for p in build.folder.glob("*.o"))
    (build.folder / f"{len(objects)}.o").touch()
    return objects, (build.folder / ".config").read_text().split("\n")[:-1]


def test_what_was_built_is_kept_where_options_change(overlay):
    assert built(overlay, "-e KUNIT") == ([], ["tinyconfig", "-e KUNIT"])
    assert built(overlay, "-e KUNIT") == (["0.o"], ["tinyconfig", "-e KUNIT"])
    objects, config = built(overlay, "-e CHECKSUM_KUNIT")
    assert objects == ["0.o", "1.o"]
    # It begins with the base: nothing is left of options that are no longer wanted.
    assert config == ["tinyconfig", "-e CHECKSUM_KUNIT"]


def test_another_base_and_what_was_cut_short_are_thrown_away(overlay):
    built(overlay)
    assert built(overlay, base="defconfig") == ([], ["defconfig"])
    assert built(overlay, base="defconfig")[0] == ["0.o"]
    (overlay.folder / "built/.loopwright-building").touch()
    assert built(overlay, base="defconfig")[0] == []
    (overlay.folder / "built/.loopwright-configured").unlink()
    assert built(overlay, base="defconfig")[0] == []


def test_nothing_is_kept_of_a_configuration_that_fails(overlay):
    built(overlay)
    with pytest.raises(BuildError, match="olddefconfig"):
        built(overlay, "-e BROKEN")
    assert not (overlay.folder / "built").exists()
    assert built(overlay)[0] == []
