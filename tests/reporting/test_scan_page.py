"""The page of a scan: that it holds what the rows say, and stays small."""

import re
from pathlib import Path

import pytest
from scan_pages import cycles, data_of, loops
from scanned import built

import loopwright as lw
from loopwright.cli import run
from loopwright.reporting import scan_page
from loopwright.reporting.html import write
from loopwright.scanning.scan import Question, scanned

CORES = ("zen2", "sandybridge")


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """Return the scan of an object, and its page."""
    folder = tmp_path_factory.mktemp("scan")
    page = folder / "scan.html"
    path = loops(folder)
    assert run(["scan", str(path), "--microarch", ",".join(CORES), "--html", str(page)]) == 0
    return path, page


def test_it_is_one_file_that_asks_for_no_other(scan):
    text = scan[1].read_text()
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert "url(http" not in text
    assert "@import" not in text
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    # The name of a routine ends no script.
    assert text.count("</script>b") == 0
    assert "a&lt;/script&gt;b" in text


def test_its_figures_are_those_of_the_rows(scan):
    path, page = scan
    side = data_of(page)["sides"][0]
    words = data_of(page)["words"]
    rows = lw.scan(path, microarch=",".join(CORES)).set_index(["address", "microarch"])
    states = {}
    for number, core in enumerate(data_of(page)["cores"]):
        for loop, at in enumerate(side["at"]):
            row = rows.loc[hex(at), core]
            assert words[side["function"][loop]] == row["function"]
            assert words[side["fix"][loop]] == row["fix"]
            costs = side["costs"][number]
            found = cycles(side, number, loop)
            states[row["function"], core] = costs["state"][loop]
            if found is None:
                assert words[costs["error"][str(loop)]] == row["error"]
                continue
            assert len(found) == 64
            assert (found[row["offset"]], min(found), max(found)) == (
                row["cycles"],
                row["best"],
                row["worst"],
            )
            assert words[costs["limit"].get(str(loop), 0)] == row["limit"]
    assert states["clears", "zen2"] == "h"
    assert states["clears", "sandybridge"] == "d"
    assert states["far", "zen2"] == "i"
    assert states["halts", "zen2"] == "-"


def test_the_boundary_that_hurts_is_where_it_lies(scan):
    page = data_of(scan[1])
    side, zen2 = page["sides"][0], page["cores"].index("zen2")
    loop = [page["words"][n] for n in side["function"]].index("clears")
    size, word, at = side["costs"][zen2]["boundary"][str(loop)]
    assert (size, page["words"][word]) == (64, "loop")
    assert (side["at"][loop] + at) % 64 == 0
    assert 0 < at < side["bytes"][loop]


def test_details_have_the_instructions_of_the_path(scan):
    page = data_of(scan[1])
    side = page["sides"][0]
    of = {page["words"][side["function"][n]]: found for n, found in side["code"].items()}
    assert set(of) == {"clears", "far", "halts", "a</script>b"}
    far, words = of["far"]
    texts = [words[text] for _, _, text in far["lines"]]
    assert [text.split()[0] for text in texts] == [
        "imulq", "testq", "je", "jmp", "imulq", "decq", "jne",
    ]  # fmt: skip
    assert "nop" not in "".join(texts)
    covered = sum(end - start for start, end in far["path"])
    assert sum(length for _, length, _ in far["lines"]) == covered == len(far["code"]) / 2
    exits = [at for at, _, text in far["lines"] if words[text].startswith("je ")]
    assert far["exits"] == exits
    clears, _ = of["clears"]
    assert "`.p2align" in clears["how"]


def test_a_timeline_is_that_of_the_same_code(scan):
    page = data_of(scan[1])
    side, zen2 = page["sides"][0], page["cores"].index("zen2")
    loop = [page["words"][n] for n in side["function"]].index("clears")
    by_core, words = side["timelines"][loop]
    offsets = [offset for offset, _ in by_core[zen2]]
    own = side["at"][loop] % 64
    assert offsets[0] == own
    # Where it is hurt there is that of its best place, too.
    assert cycles(side, zen2, loop)[offsets[1]] == 1.0
    code = side["code"][loop][0]["code"]
    wanted = lw.timeline(hex=code, microarch="zen2", offset=own, iterations=scan_page.ITERATIONS)
    assert len(by_core[zen2][0][1]) == len(wanted)
    for row, there in zip(by_core[zen2][0][1], wanted.to_dict("records"), strict=True):
        assert row[:2] == [there["iteration"], there["instruction"]]
        assert words[row[3]] == there["port"]
        assert row[-1] == there["retired_cycle"]


def test_places_of_an_arm64_loop_are_its_instructions(tmp_path):
    text = "\t.type sums, %function\nsums:\tadd x1, x1, x0\n\tsubs x2, x2, #1\n\tb.ne sums\n\tret\n"
    page = tmp_path / "arm.html"
    assert run(["scan", str(built(tmp_path, text, "arm64")), "--html", str(page)]) == 0
    found = data_of(page)
    assert found["isa"] == "arm64"
    assert len(cycles(found["sides"][0], 0, 0)) == 16


def test_what_has_no_room_is_left_out_and_said(tmp_path, monkeypatch):
    question = Question(loops(tmp_path), microarch="zen2")
    monkeypatch.setattr(scan_page, "TOGETHER", 1)
    one = scanned(question)
    ranked = [each.loop for each in one.ranking]
    whole = sum(map(len, scan_page._details(one, ranked, ranked)["code"]["packs"]))
    monkeypatch.setattr(scan_page, "MOST_CODE", whole - 1)
    monkeypatch.setattr(scan_page, "MOST_TIMELINES", 1)
    page = tmp_path / "page.html"
    write(scan_page.of_scan(one, "again"), page)
    held = data_of(page)["sides"][0]["code"]
    assert [sorted(ranked)[at] for at in held] == ranked[:3]
    text = " ".join(page.read_text().split())
    assert "3 of 4 also have their instructions, 0 their timelines" in text
    # All of them have their strips all the same.
    assert len(data_of(page)["sides"][0]["at"]) == 4


def test_a_page_of_too_many_loops_has_those_that_lose_most(tmp_path, monkeypatch):
    monkeypatch.setattr(scan_page, "MOST", 1)
    page = tmp_path / "page.html"
    assert run(["scan", str(loops(tmp_path)), "--microarch", "zen2", "--html", str(page)]) == 0
    found = data_of(page)
    assert [found["words"][n] for n in found["sides"][0]["function"]] == ["clears"]
    assert "3 loops that lose least are not in this page" in page.read_text()


def test_without_loops_there_is_a_page_all_the_same(tmp_path):
    page = tmp_path / "page.html"
    assert run(["scan", str(built(tmp_path, "\tret\n")), "--html", str(page)]) == 0
    assert data_of(page)["sides"][0]["at"] == []


def test_two_builds_have_pairs_and_what_became_of_each(tmp_path, capsys):
    a, b = loops(tmp_path, 0, "a.o"), loops(tmp_path, 57, "b.o")
    page = tmp_path / "builds.html"
    asked = ["scan", str(a), str(b), "--microarch", "zen2", "--html", str(page), "--csv"]
    assert run(asked) == 0
    assert f"written: {page}" in capsys.readouterr().err
    found = data_of(page)
    words = {key: word for key, word, _ in found["states"]}
    pairs, (shown, before) = found["pairs"], found["sides"]
    changes = {}
    for one, two, change in zip(pairs["a"], pairs["b"], pairs["change"][0], strict=True):
        names = {found["words"][side["function"][n]] for side, n in ((before, one), (shown, two))}
        (name,) = names
        changes[name] = words[change]
    assert changes == {
        "clears": "hurt",
        "far": "same",
        "halts": "unknown",
        "a</script>b": changes["a</script>b"],
    }
    rows = lw.compare_builds(a, b, microarch="zen2").set_index("function")["change"]
    assert changes == rows.to_dict()
    # Instructions are there of what changed.
    held = [found["words"][shown["function"][n]] for n in shown["code"]]
    assert held[0] == "clears"
    assert {"far", "halts"}.isdisjoint(held)


def test_with_a_profile_shares_are_in_the_data(tmp_path):
    path = loops(tmp_path)
    profile = tmp_path / "profile.txt"
    profile.write_text("@[clears+8]: 75\n@[far+4]: 25\n")
    page = tmp_path / "page.html"
    asked = ["scan", str(path), "--microarch", "zen2", "--profile", str(profile)]
    assert run([*asked, "--html", str(page)]) == 0
    found = data_of(page)
    side = found["sides"][0]
    names = [found["words"][n] for n in side["function"]]
    shares = dict(zip(names, side["share"], strict=True))
    assert (shares["clears"], shares["far"], shares["halts"]) == (75.0, 25.0, 0.0)
    assert f"--profile {profile} --html {page}" in page.read_text()


@pytest.mark.parametrize(
    ("name", "more", "word"),
    [
        ("page.txt", [], "does not end in .html"),
        ("folder.html", [], "is a folder; name a file"),
        ("file/page.html", [], "is not a folder"),
        ("page.html", ["--measure", "1"], "leave --patch and --measure out"),
        ("page.html", ["--patch", "f", "--tree", "t", "-o", "d"], "leave --patch and --measure"),
    ],
)
def test_a_page_that_cannot_be_is_refused_before_the_scan(tmp_path, capsys, name, more, word):
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("")
    missing = tmp_path / "nothing.o"
    assert run(["scan", str(missing), "--html", str(tmp_path / name), *more]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.html"]


def test_of_a_folder_there_is_no_page(tmp_path, capsys):
    asked = ["scan", str(tmp_path), "-o", str(tmp_path / "x.csv"), "--html", str(Path("x.html"))]
    assert run(asked) == 2
    assert "is a folder" in capsys.readouterr().err
