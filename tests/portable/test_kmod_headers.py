"""What the kernel module is built against, where it lies elsewhere, or is not whole."""

import pytest

from loopwright.errors import InputError
from loopwright.portable import kmod


@pytest.fixture
def headers(tmp_path):
    """A folder with what names a kernel, as far as it is looked at before a build."""
    folder = tmp_path / "else/where/linux-headers-6.1.0-1"
    (folder / "include/config").mkdir(parents=True)
    (folder / "include/config/auto.conf").write_text("CONFIG_X86_64=y\nCONFIG_MODULES=y\n")
    (folder / "include/generated").mkdir()
    (folder / "include/generated/utsrelease.h").write_text('#define UTS_RELEASE "6.1.0-1"\n')
    (folder / "Makefile").write_text("modules:\n")
    return folder


def refused(headers, tmp_path):
    with pytest.raises(InputError) as error:
        kmod.build(headers, tmp_path / "kmod", ["x86_64/csum/adc1"])
    return str(error.value)


def test_headers_whose_other_half_is_missing_are_named(headers, tmp_path):
    """Of Debian's two packages of headers one includes the other by where it is installed."""
    common = tmp_path / "usr/src/linux-headers-6.1.0-1-common"
    (headers / "Makefile").write_text(f"include {common}/Makefile\n")
    said = refused(headers, tmp_path)
    assert "two packages" in said
    assert str(common) in said
    assert not (tmp_path / "kmod").exists()


@pytest.mark.parametrize("name", ["scripts", "tools", "Makefile"])
def test_a_link_that_leads_nowhere_is_named(headers, tmp_path, name):
    """Debian's lead to the kernel's build programs, Ubuntu's to the other half, by `..`."""
    (headers / name).unlink(missing_ok=True)
    (headers / name).symlink_to(f"../../lib/linux-kbuild-6.1/{name}")
    said = refused(headers, tmp_path)
    assert f"{headers / name} is a link to ../../lib/linux-kbuild-6.1/{name}" in said
    assert "install" in said
    assert not (tmp_path / "kmod").exists()


def test_a_link_of_the_other_half_is_named(headers, tmp_path):
    common = tmp_path / "usr/src/linux-headers-6.1.0-1-common"
    common.mkdir(parents=True)
    (common / "Makefile").write_text("modules:\n")
    (common / "scripts").symlink_to("../../lib/linux-kbuild-6.1/scripts")
    (headers / "Makefile").write_text(f"include {common}/Makefile\n")
    assert f"{common}/scripts is a link to" in refused(headers, tmp_path)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("@echo 'a.c:1:1: error: no such thing' >&2; exit 1", "a.c:1:1: error: no such thing"),
        ("@./scripts/absent", "scripts/absent"),
        ("@exit 3", "Error 3"),
        ("@true", "make ended with exit code 0"),
    ],
)
def test_a_build_that_fails_says_what_failed_it(headers, tmp_path, recipe, said):
    (headers / "Makefile").write_text(f".PHONY: modules\nmodules:\n\t{recipe}\n")
    found = refused(headers, tmp_path)
    assert found.startswith(f"the module does not build against {headers}: ")
    assert said in found
