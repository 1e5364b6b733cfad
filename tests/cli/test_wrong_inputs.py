"""Wrong inputs of every kind: one line that says what is wrong, exit code 2 or 1, no traceback."""

import io
import os
import subprocess
import sys

import pandas as pd
import pytest
from checkout import LOOPWRIGHT

import loopwright as lw
from loopwright.cli import options, run
from loopwright.errors import InputError

ADD = "4801d8"
KERNEL = "x86_64/clear_user"
COPY = "x86_64/copy_user"

# Commands, and the words by which the line names what is wrong with each.
WRONG = {
    "predict": "give one of",
    "predict nothing": "",
    "predict x86_64": "",
    f"predict {KERNEL}/nothing": "",
    f"predict {KERNEL} --microarch zen9": "zen9",
    f"predict {KERNEL} --microarch ,": "",
    f"predict {KERNEL} --microarch tsv110": "arm64",
    f"predict {KERNEL} --microarch host,zen9": "",
    f"predict {KERNEL} --model guess": "",
    f"predict {KERNEL} --offset 64": "0..63",
    f"predict {KERNEL} --offset -1": "",
    f"predict {KERNEL} --offset x": "",
    f"predict {KERNEL} --notion twice": "loop",
    f"predict {KERNEL} --notion call": "--sizes",
    f"predict {KERNEL} --align 0:0": "--sizes",
    f"predict {KERNEL} --sizes 0x10": "",
    f"predict {KERNEL} --sizes -5": "",
    f"predict {KERNEL} --set rename.width": "",
    f"predict {KERNEL} --set rename.breadth=3": "",
    f"predict {KERNEL} --microarch zen2 --set rename.width=none": "",
    f"predict {KERNEL} --timeline 0": "1 to 1000",
    f"predict {KERNEL} --timeline x": "",
    f"predict {KERNEL} --timeline 2 --ports": "",
    f"predict {KERNEL} --json --csv": "exclude",
    f"predict {KERNEL} --hex {ADD}": "one of",
    f"predict {KERNEL} --isa arm64": "",
    f"predict {KERNEL} --nothing": "",
    "predict --hex": "",
    "predict --hex=": "empty",
    "predict --hex zz": "'z'",
    "predict --hex 480": "3 digits",
    f"predict --hx {ADD}": "--hex",
    "predict --hex 0x": "",
    "predict --hex ff --microarch zen2": "",
    "predict --hex 0f0b0f --microarch zen2": "",
    f"predict --hex {ADD} --asm EMPTY": "",
    "predict PROSE": "--asm PROSE",
    "predict OBJECT": "--obj OBJECT",
    "check PROSE": "--asm PROSE",
    "trace PROSE": "--asm PROSE",
    "predict --obj PROSE": "--asm PROSE",
    "scan PROSE": "--asm PROSE",
    "predict --asm EMPTY": "",
    "predict --asm MISSING": "",
    "predict --asm FOLDER": "",
    "predict --asm GARBAGE": "",
    "predict --asm PROSE": "",
    "predict --asm LISTING": "",
    "predict --asm EMPTY --isa z80": "",
    "predict - --asm PROSE": "",
    "predict -": "",
    "predict --obj MISSING": "",
    "predict --obj FOLDER": "",
    "predict --obj GARBAGE": "",
    "predict --obj PROSE:symbol": "",
    "predict --blocks MISSING": "No such file",
    "predict --blocks EMPTY": "",
    "predict --blocks PROSE": "",
    "predict --blocks GARBAGE": "",
    "predict --obj /dev/zero": "",
    "predict --blocks /dev/zero": "",
    "predict --hex 06": "no whole x86-64 instruction",
    "predict --hex ffffffff --microarch tsv110": "no whole AArch64 instruction",
    f"predict {KERNEL} --microarch zen": "zen2",
    f"predict {KERNEL} --model llvm": "llvm-mca",
    "predict x86_64/copy_usr": "x86_64/copy_user",
    f"predict {COPY}/movsw": "movsq",
    f"predict --hex {ADD} --timeline 2 --model osaca": "osaca",
    f"predict --hex {ADD} --ports --model llvm-mca": "llvm-mca",
    f"predict --hex {ADD} --timeline 2 --offset 64": "0..63",
    f"predict {COPY} --sizes -1": "-1",
    "predict x86_64/put_event/stat_direct --sizes 64,128": "a call is 144 bytes",
    f"predict {COPY} --sizes 9999999999": "9999999999",
    f"predict {COPY} --sizes ,": "no size",
    f"predict {COPY} --sizes nowhere.txt": "nowhere.txt",
    f"predict {COPY} --sizes 64 --align 5000:0": "5000",
    f"predict {COPY} --sizes 64 --align 1": "--align",
    f"predict {COPY} --sizes 64 --align ,": "alignment",
    f"predict {COPY} --sizes 64 --notion loop": "loop",
    f"predict {COPY} --sizes 64 --ports": "--ports",
    f"predict {COPY} --sizes 64 --set nothing=1": "nothing",
    "predict --hex 90 --sizes 64": "KERNEL",
    "measure": "",
    "measure nothing": "",
    "measure --asm PROSE": "",
    "measure --obj MISSING": "",
    "measure --hex zz": "'z'",
    "measure --hex 0fff": "no whole x86-64 instruction",
    f"measure {KERNEL} --hex {ADD}": "",
    f"measure --hex {ADD} --sizes 64": "",
    f"measure --hex {ADD} --offset 99": "",
    f"measure --hex {ADD} --processes 0": "",
    f"measure {KERNEL} --notion loop": "",
    f"measure {COPY} --sizes 64,x": "64,x",
    f"measure {KERNEL} --estimate nothing": "",
    "compare": "",
    "compare nothing": "",
    "compare --asm PROSE": "",
    f"compare {KERNEL} --hex {ADD}": "",
    f"compare {KERNEL} --offset 3": "",
    f"compare --hex {ADD} --offset 70": "",
    f"compare --hex {ADD} --microarch zen9": "",
    f"trace {KERNEL} --size 8": "several variants",
    f"trace {KERNEL}/plain --size x": "",
    f"trace {KERNEL}/plain --size 8 --align 1": "",
    f"trace {KERNEL}/plain --size 8 --fault dst": "",
    f"trace {COPY}/movsq --size -3": "below 0",
    f"trace {COPY}/movsq --size 3 --align 5000:0": "5000",
    f"trace {COPY}/movsq --size 3 --align 0:0,1:0": "one alignment",
    f"trace {COPY}/movsq --size 3 --fault dst:9": "dst:9",
    f"trace {COPY}/movsq --size 3 --fault stack:1": "stack",
    "trace x86_64/csum/adc1 --size 4 --fault src:1": "none",
    "trace x86_64/put_event/stat_direct --size 4": "one record",
    f"trace {COPY}/movsq --size 3 --microarch zen9": "zen9",
    f"trace {COPY}/movsq --size 9999999999": "MiB",
    "check nothing": "",
    "core zen9": "zen9",
    "core zen2 --html /proc/zen2.html": "cannot write /proc/zen2.html",
    "core zen2 --beside zen9": "zen9",
    "core zen2 --html page.txt": "does not end in .html",
    "core neoverse-n1 --beside zen2": "zen2 is x86_64 and neoverse-n1 arm64",
    "list kernls": "kernels",
    f"recommend {KERNEL} --set a=b": "",
    f"recommend {KERNEL} --no-measure --set uop_cache.reads=99999": "",
    f"report {KERNEL} --no-measure -o /proc/out": "",
    "kit -o /proc/kit.tar.gz": "",
    "calibrate -o /proc/cores --machine simulated:zen4": "",
    "scan MISSING": "",
    "scan EMPTY": "",
    "scan /dev/zero": "",
    "predct": "predict",
    f"recommend {COPY} --sizes nowhere": "nowhere",
    f"patch {COPY} --tree nowhere -o MISSING": "nowhere",
    f"patch {COPY} --tree /usr -o MISSING": "not a Linux tree",
    "import /dev/zero": "",
    "mca /dev/zero": "",
    "improve x86_64/put_event": "name a variant",
    f"improve {KERNEL}/plain --microarch tsv110": "does not run x86_64 code",
    f"improve {KERNEL}/rep_stosq --microarch zen2": "has no cost: zen2: no figures",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "EMPTY").write_text("")
    (folder / "FOLDER").mkdir()
    (folder / "OBJECT").write_bytes(b"\x7fELF")
    (folder / "GARBAGE").write_bytes(bytes(range(256)))
    (folder / "PROSE").write_text("It was a dark and stormy night;\nthe rain fell, in torrents.\n")
    (folder / "LISTING").write_text("  401136:\t06 07\tbad\n  401138:\t06\tbad\n")
    return folder


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_input_is_one_line(command, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    before = sorted(files.iterdir())
    code = run(command.split())
    told = capsys.readouterr()
    assert code == 2, told
    assert told.err.count("\n") == 1, told.err
    assert told.err.startswith("loopwright: ")
    assert WRONG[command] in told.err
    assert "Traceback" not in told.out + told.err
    assert told.out == ""
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize("option", ["--profile", "--symbols"])
def test_a_device_is_no_file_of_names_or_samples(option, capsys):
    assert run(["scan", sys.executable, option, "/dev/zero"]) == 2
    assert "/dev/zero is a pipe or a device" in capsys.readouterr().err


def test_a_text_without_end_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(options, "_MOST_TEXT", 1000)
    assert run(["predict", "--asm", "/dev/zero"]) == 2
    assert "more than 1,000 characters" in capsys.readouterr().err


def test_a_mistake_in_intel_syntax_is_read_as_x86(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"mov eax, [rax\n")))
    assert run(["predict", "-"]) == 2
    assert "read as arm64" not in capsys.readouterr().err


def test_the_program_itself_says_no_more():
    done = subprocess.run(
        [LOOPWRIGHT, "predict", "-"], input=b"\xff\xfe\x00", capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "given",
    [
        {"hex": 5},
        {"asm": b"nop"},
        {"spec": 5},
        {"parameters": 5, "hex": ADD},
        {"microarch": 5, "hex": ADD},
        {"microarch": [], "hex": ADD},
        {"microarch": [3], "hex": ADD},
        {"notion": 3, "hex": ADD},
        {"offset": 1.5, "hex": ADD},
        {"blocks": 5},
        {"blocks": pd.DataFrame({"x": [1]})},
        {"blocks": pd.DataFrame({"id": [], "hex": []})},
        {"blocks": pd.DataFrame({"id": [1], "hex": ["90"], "offset": [77]})},
    ],
)
def test_python_values_of_other_types_are_refused_in_one_line(given):
    with pytest.raises(InputError) as caught:
        lw.predict(**given)
    assert "\n" not in str(caught.value)


def test_lists_bytes_and_frames_are_taken():
    by_text = lw.predict(hex=ADD, microarch="zen2,skylake")
    assert lw.predict(hex=bytes.fromhex(ADD), microarch=["zen2", "skylake"]).equals(by_text)
    blocks = pd.DataFrame({"id": ["a", 2], "hex": [ADD, bytes.fromhex(ADD)], "offset": [3, None]})
    rows = lw.predict(blocks=blocks, microarch=("zen2",), model=["pipeline"])
    assert list(rows["id"]) == ["a", "2"]
    assert list(rows["offset"]) == [3, 0]
    assert set(rows["cycles"]) == {1.0}


def test_an_output_without_rules_has_other_characters_for_them():
    command = [LOOPWRIGHT, "predict", "--hex", "48ffc875fb", "--microarch", "zen2", "--ports"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
    assert "decq %rax" in done.stdout
    assert done.stdout.isascii()
