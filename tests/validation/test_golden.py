"""The simulator's answers stand still while its code moves."""

import pytest


@pytest.fixture(scope="module")
def golden(validation):
    return validation("golden")


@pytest.mark.parametrize(
    "name",
    ["kernels.txt", "timelines.txt", pytest.param("public.csv", marks=pytest.mark.slow)],
)
def test_answers_are_what_they_were(golden, name):
    found = golden.differences(name)
    if found is None:
        pytest.skip("the public blocks of BHive and uiCA are not in $LOOPWRIGHT_SHARED/data")
    assert not found, "\n".join([*found[:20], "if these changes are meant: make golden"])


def test_the_first_public_blocks_are_answered_as_they_were(golden):
    found = golden.public(3 * golden.CHUNK)
    if found is None:
        pytest.skip("the public blocks of BHive and uiCA are not in $LOOPWRIGHT_SHARED/data")
    known = (golden.FOLDER / "public.csv").read_text().splitlines()
    assert len(found.splitlines()) > 100
    assert not set(found.splitlines()) - set(known), "if these changes are meant: make golden"


def test_writing_says_how_many_lines_changed(golden, monkeypatch, tmp_path):
    monkeypatch.setattr(golden, "REPO", tmp_path)
    file = tmp_path / "kernels.txt"
    file.write_text("a | 1\nb | 2\n")
    assert golden._write(file, "a | 1\nb | 2\n") == "no line changed"
    assert golden._write(file, "a | 1\nb | 3\nc | 4\n").startswith("1 lines removed, 2 added; ")
    assert file.read_text() == "a | 1\nb | 3\nc | 4\n"


def test_a_difference_is_named(golden, monkeypatch, tmp_path):
    (tmp_path / "kernels.txt").write_text("a | 1\nb | 2\n")
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setitem(golden.GOLDEN, "kernels.txt", lambda: "a | 1\nb | 3\n")
    assert golden.differences("kernels.txt") == ["- b | 2", "+ b | 3"]
