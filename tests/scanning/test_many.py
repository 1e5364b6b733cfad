"""A folder of files into one table: each file once, in order, and the table whole or not there."""

import csv
import gzip
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import loopwright as lw
from loopwright import toolchain
from loopwright.errors import InputError
from loopwright.rows import Rows
from loopwright.scanning import folder_scan, images

COLUMNS = {"name": "string", "size": "int64", "share": "float64"}


def scan(path):
    """Return two rows a file; a file that says "bad" is refused."""
    content = path.read_bytes()
    if b"bad" in content:
        raise InputError(f"{path} is bad")
    return Rows(("size", "name", "share"), [(len(content), path.name, n / 2) for n in (0, 1)])


@pytest.fixture
def folder(tmp_path):
    files = {
        "b/one.o": b"\x7fELF one",
        "a/lib.a": b"!<arch>\nlib",
        "a/two.so": b"\x7fELF two",
        "same.so": b"\x7fELF two",
        "notes.txt": b"text",
        "page.1.gz": gzip.compress(b"a manual page"),
        "x.ko.gz": gzip.compress(b"\x7fELF module"),
        "vmlinuz-6.1": b"\0" * 510 + b"\x55\xaa",
        "c/bad.o": b"\x7fELF bad",
    }
    for name, content in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in" / "link.o").symlink_to("b/one.o")
    return tmp_path / "in"


def relative(folder, paths):
    return [str(path.relative_to(folder)) for path in paths]


def test_files_with_code_are_listed_once_each(folder):
    scanned, same = images.listed_files(folder)
    assert relative(folder, scanned) == [
        "a/lib.a", "a/two.so", "b/one.o", "c/bad.o", "vmlinuz-6.1", "x.ko.gz"
    ]  # fmt: skip
    assert relative(folder, same) == ["same.so"]
    assert relative(folder, same.values()) == ["a/two.so"]


def test_a_folder_without_code_is_one_line(tmp_path):
    (tmp_path / "readme").write_text("no code")
    with pytest.raises(InputError, match="holds no file with code"):
        images.listed_files(tmp_path)


@pytest.mark.parametrize("dask", [None, "local"])
def test_rows_stand_in_the_order_of_paths(folder, tmp_path, dask):
    out = tmp_path / "loops.csv"
    scanned = folder_scan.gather(folder, out, scan, COLUMNS, dask)
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["binary", *COLUMNS]
    assert [row[0] for row in rows[1::2]] == [
        "a/lib.a", "a/two.so", "b/one.o", "vmlinuz-6.1", "x.ko.gz"
    ]  # fmt: skip
    assert [row[0] for row in rows[1::2]] == [row[0] for row in rows[2::2]]
    assert rows[1][1:] == ["lib.a", "11", "0.0"]
    assert (scanned.files, scanned.rows) == (5, 10)
    assert list(scanned.refused) == [Path("c/bad.o")]
    assert "is bad" in scanned.refused[Path("c/bad.o")]


def test_a_scan_of_a_folder_is_the_scans_of_its_files(tmp_path):
    folder = tmp_path / "in"
    (folder / "below").mkdir(parents=True)
    for name, loop in {
        "one.o": "1: add $1, %rax; cmp %rcx, %rax; jne 1b",
        "below/two.o": "nop",
    }.items():
        text = f".globl f\n.type f, @function\nf: {loop}\n ret\n.size f, .-f\n"
        subprocess.run(
            [toolchain.find("x86_64").gcc, "-c", "-x", "assembler", "-", "-o", folder / name],
            input=text, text=True, check=True,
        )  # fmt: skip
    scanned = folder_scan.scan_folder(folder, tmp_path / "all.csv", microarch="zen2,skylake")
    assert (scanned.files, scanned.rows) == (2, 2)
    rows = list(csv.DictReader((tmp_path / "all.csv").open()))
    alone = lw.scan(folder / "one.o", microarch="zen2,skylake")
    assert [row["binary"] for row in rows] == ["one.o", "one.o"]
    assert [row["microarch"] for row in rows] == list(alone["microarch"])
    assert [float(row["cycles"]) for row in rows] == list(alone["cycles"])


def test_parquet_has_the_types_of_the_columns(folder, tmp_path):
    out = tmp_path / "loops.parquet"
    folder_scan.gather(folder, out, scan, COLUMNS)
    table = pq.read_table(out)
    assert [str(field.type) for field in table.schema] == ["string", "string", "int64", "double"]
    assert table.num_rows == 10
    assert table.column("share").to_pylist() == [0.0, 0.5] * 5


def test_results_come_in_order_whoever_is_first():
    order = [(2, "c"), (0, "a"), (1, "b"), (4, "e"), (3, "d")]
    assert list(folder_scan._in_order(iter(order))) == sorted(order)


@pytest.mark.parametrize("name", ["loops.csv", "loops.parquet"])
def test_a_table_that_is_interrupted_leaves_the_one_before(tmp_path, name):
    out = tmp_path / name
    out.write_text("before")

    def interrupted():
        with folder_scan.written_table(out, {"n": "int64"}) as write:
            write([(1,), (2,)])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "said"),
    [("loops.xlsx", "does not end in .csv or .parquet"), ("file/loops.csv", "cannot write .*file")],
)
def test_a_table_that_cannot_be_written_is_one_line(tmp_path, name, said):
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(InputError, match=said),
        folder_scan.written_table(tmp_path / name, {"n": "int64"}),
    ):
        pass
