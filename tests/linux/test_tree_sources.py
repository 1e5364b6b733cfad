"""What is no Linux tree, and packages of them that cannot be had."""

import pytest

from loopwright import kernels
from loopwright.errors import InputError
from loopwright.linux import trees
from loopwright.linux.message import Evidence
from loopwright.linux.patch import make


def variant(name: str) -> kernels.Variant:
    return kernels.load("x86_64/clear_user").variants[name]


def test_bad_trees_are_told_in_one_line(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "none", tmp_path / "file", empty):
        with pytest.raises(InputError, match=str(bad)) as raised:
            make(variant("plain"), bad, tmp_path / "out", Evidence())
        assert "\n" not in str(raised.value)


def test_a_package_that_cannot_be_kept_gives_a_reason_and_a_way(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the cache would be")
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    tree = trees.find(None)
    assert tree.path is None
    assert str(tmp_path / "cache") in tree.note
    assert "--tree" in tree.note
    with pytest.raises(InputError, match="--tree"):
        trees.find("debian:6.12")


@pytest.mark.parametrize("spec", ["debian:", "debian:six", "debian:../x"])
def test_odd_package_specs_are_refused(spec):
    with pytest.raises(InputError, match="names no kernel series"):
        trees.find(spec)
    assert trees.debian_package("6.1") == "linux-source-6.1"


def test_includers_through_headers_are_all_found_or_none(tmp_path):
    includes = {"a.h": "x.h", "b.h": "x.h", "direct.c": "x.h", "by_a.c": "a.h", "by_b.S": "b.h"}
    for file, header in includes.items():
        (tmp_path / file).write_text(f'#include "{header}"\n')
    tree = trees.Tree(tmp_path, "6.12")
    assert sorted(trees.includers(tree, "x86_64", "x.h", 5)) == ["by_a.c", "by_b.S", "direct.c"]
    assert trees.includers(tree, "x86_64", "x.h", 2) is None  # the headers' own are not known
