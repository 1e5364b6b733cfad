"""The loop explorer: the simulator in WebAssembly, and the page in a browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import browsing
import pandas as pd
import pytest
from checkout import ROOT

from loopwright import paths
from loopwright.code import binding
from loopwright.toolchain import host_isa

PAGE = ROOT / "out" / "explorer" / "index.html"
WASM = "loopwright.wasm"
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", ROOT.parent / "shared"))
LOOP = "4801d0 4883c201 4881fa00100000 75f0"
ARM64_LOOP = "258440f8 058400f8 420400f1 a1ffff54"
CLEAR = "48c7070000000048ffc975f4"
ARM64_LOAD = "258440f8420400f1c1ffff54"
CORES = ["zen2", "zen4", "skylake", "sandybridge"]

# The build takes minutes of its own: `make explorer`.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built():
    if not PAGE.is_file():
        pytest.skip("the page is not built here: make explorer")
    return PAGE


def test_licences_of_what_is_bundled_are_in_the_page(built):
    texts = built.read_text().rpartition("<!-- Parts of this page:")[2]
    for part in ("@codemirror/view:", "preact:", "iced-x86 1.", "disarm64 0.", "asm-rs 0."):
        assert f"\n{part}" in texts
    assert texts.count("Permission is hereby granted, free of charge") > 10


@pytest.fixture(scope="module")
def answers(built):
    """Return what answers calls in node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here")
    script = ROOT / "tests" / "explorer" / "answer.mjs"
    command = [node, script, built.with_name(WASM), ROOT / "explorer" / "src" / "simulator.js"]

    def run(calls):
        asked = "".join(json.dumps(call) + "\n" for call in calls)
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def native(tmp_path, flags, text):
    path = tmp_path / "input"
    path.write_text(text)
    return binding.mca([*flags, str(path)], paths.models_root(), None)


@pytest.fixture(scope="module")
def page(chromium, built):
    return browsing.opened(chromium, built, browsing.SIZES["desktop"])


def figures(browser):
    return [e.text.split()[0] for e in browser.find_elements("css selector", ".figure")]


def show(browser, **settings):
    """Open a link with settings and wait for the answer of all its cores."""
    fields = "&".join(f"{name}={value}" for name, value in settings.items())
    browser.get("about:blank")
    browser.get(f"{PAGE.as_uri()}#{fields}")
    wanted = settings.get("cores", "").count(",") + 1
    browsing.wait_until(browser, lambda: len(figures(browser)) == wanted)
    return browser


def test_a_thousand_blocks_have_the_cli_figures_to_the_last_bit(answers, tmp_path):
    public = SHARED / "data" / "bhive_public.csv"
    if not public.is_file():
        pytest.skip(f"no {public}")
    blocks = pd.read_csv(public)["hex"].drop_duplicates()
    blocks = blocks[blocks.str.len().sort_values().index][:1000].tolist()
    assert len(blocks) == 1000
    flags = ["-json", "-code-alignment=0", "-code-offset=20", "-skip-unsupported-instructions=any"]
    # An empty line ends a region.
    inputs = {core: "\n\n".join(blocks[n::4]) + "\n" for n, core in enumerate(CORES)}
    said = answers([[["mca", *flags, f"-mcpu={core}"], text] for core, text in inputs.items()])
    for (core, text), here in zip(inputs.items(), said, strict=True):
        code, out, _ = native(tmp_path, [*flags, f"-mcpu={core}"], text)
        assert code == 0
        assert len(json.loads(out)["CodeRegions"]) == 250
        assert here["out"] == out


@pytest.mark.parametrize(("core", "code"), [("zen4", LOOP), ("tsv110", ARM64_LOOP)])
def test_offsets_are_those_of_the_cli(answers, tmp_path, core, code):
    (offsets,) = answers([[["offsets", core], code]])
    _, out, _ = native(tmp_path, ["-json", f"-mcpu={core}"], code)
    view = json.loads(out)["CodeRegions"][0]["CodeAlignmentView"]
    assert offsets == view["CyclesByOffset"]
    assert len(set(offsets)) > 1


def test_bad_input_is_an_error_and_the_next_call_is_answered(answers):
    said = answers(
        [[["loops", "any"], "48 ff c"], [["loops", "any"], ""], [["loops", "any"], LOOP]]
    )
    assert "an odd number of hex digits" in said[0]["error"]
    assert "no instructions" in said[1]["error"]
    assert said[2]["loops"][0]["code"] == LOOP.replace(" ", "")


def test_assembled_instructions_have_their_meaning_and_length(answers, tmp_path):
    public = SHARED / "data" / "bhive_public.csv"
    if not public.is_file():
        pytest.skip(f"no {public}")
    blocks = pd.read_csv(public)["hex"].drop_duplicates().tolist()[:60]
    flags = ["-json", "-mcpu=skylake", "-instruction-tables", "-skip-unsupported-instructions=any"]

    def lengths(text):
        code, out, err = native(tmp_path, flags, text)
        assert code == 0, err
        return [
            (text, len(info["Encoding"]))
            for region in json.loads(out)["CodeRegions"]
            for text, info in zip(
                region["Instructions"],
                region["InstructionInfoView"]["InstructionList"],
                strict=True,
            )
        ]

    wanted = [one for one in lengths("\n\n".join(blocks)) if not one[0].startswith("nop")]
    text = "\n".join(instruction for instruction, _ in wanted)
    (said,) = answers([[["loops", "x86"], text]])
    assert lengths(said["loops"][0]["code"]) == wanted


@pytest.mark.parametrize(
    ("text", "isa", "code"),
    [
        ("f:\n.L3:\tmovq\t$0, (%rdi)\n\tdecq\t%rcx # x\n\tjne\t.L3\n\tret\n", "x86_64", CLEAR),
        (".L3: mov QWORD PTR [rdi], 0\n dec rcx\n jne .L3\n", "x86_64", CLEAR),
        (".Ll:\n ldr x5, [x1], #8\n subs x2, x2, #1\n b.ne .Ll\n", "arm64", ARM64_LOAD),
    ],
)
def test_assembly_is_read(answers, text, isa, code):
    (said,) = answers([[["loops", "any"], text]])
    assert (said["isa"], [loop["code"] for loop in said["loops"]]) == (isa, [code])


def test_a_wrong_line_of_assembly_is_named(answers):
    said = answers([[["loops", "any"], "decq %rcx\nbogus %rax\n"]])
    assert said[0]["error"] == "line 2: bogus: no such instruction"


def test_the_simulator_is_small(built):
    packed = subprocess.run(
        ["gzip", "-9c", built.with_name(WASM)], capture_output=True, check=True
    ).stdout
    assert len(packed) < 2_500_000


def test_a_loop_of_16_bytes_is_slow_across_a_line(page):
    shown = show(page, text=LOOP.replace(" ", "+"), at=48, cores="zen4", focus="zen4")
    assert figures(shown) == ["1.00"]
    shown = show(page, text=LOOP.replace(" ", "+"), at=56, cores="zen4", focus="zen4")
    assert figures(shown) == ["2.00"]
    assert "crosses the line" in shown.find_element("css selector", ".details").text
    assert browsing.complaints(shown) == []


def test_keys_drag_the_loop_and_the_link_follows(page):
    from selenium.webdriver.common.keys import Keys

    shown = show(page, text=LOOP.replace(" ", "+"), at=48, cores="zen4", focus="zen4")
    shown.find_element("id", "at").send_keys(Keys.ARROW_RIGHT)
    browsing.wait_until(shown, lambda: figures(shown) == ["2.00"])
    browsing.wait_until(shown, lambda: "at=49" in shown.current_url)


def test_an_unvalidated_core_says_so(page):
    shown = show(page, text=LOOP.replace(" ", "+"), cores="zen4,sandybridge", focus="zen4")
    rows = shown.find_elements("css selector", ".cores li")
    assert ["not validated" in row.text for row in rows] == [False, True]


def test_a_bad_text_is_one_line(page):
    page.get("about:blank")
    page.get(f"{PAGE.as_uri()}#text=48+f&cores=zen4")
    browsing.wait_until(page, lambda: page.find_elements("css selector", "[role=alert]"))
    assert page.find_element("css selector", "[role=alert]").text.startswith("line 1: f: an odd")
    assert figures(page) == []


def test_an_object_file_gives_its_loops(page, tmp_path):
    if host_isa() != "x86_64":
        pytest.skip("the assembler of this host is not x86-64's")
    source = tmp_path / "two.s"
    source.write_text(
        "f:\nnop\n1: decq %rcx\njne 1b\nret\ng:\n2: addq $8, %rdi\ndecq %rcx\njne 2b\nret\n"
    )
    subprocess.run(["gcc", "-c", source, "-o", tmp_path / "two.o"], check=True)
    shown = show(page, text=LOOP.replace(" ", "+"), cores="zen4", focus="zen4")
    shown.find_element("css selector", "input[type=file]").send_keys(str(tmp_path / "two.o"))
    browsing.wait_until(shown, lambda: "f+0x1" in shown.find_element("css selector", ".input").text)
    options = shown.find_elements("css selector", ".input option")
    assert [o.text for o in options if o.text.startswith("g")] == ["g, 9 bytes"]


def test_the_text_to_quote_has_figures_and_their_source(page):
    shown = show(page, text=LOOP.replace(" ", "+"), at=56, cores="zen4", focus="zen4")
    browsing.wait_until(shown, lambda: shown.find_elements("css selector", ".details table"))
    shown.execute_script(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; };"
        "document.querySelector('.actions button:nth-child(2)').click()"
    )
    browsing.wait_until(shown, lambda: shown.execute_script("return window.copied"))
    copied = shown.execute_script("return window.copied")
    assert "AMD Zen 4: 2.00 here, 2.00 times its best" in copied
    assert "loopwright" in copied
    assert max(len(line) for line in copied.splitlines() if "file:" not in line) <= 72


@pytest.mark.parametrize("size", list(browsing.SIZES))
def test_it_reads_well_in_every_size_and_scheme(chromium, built, size):
    shown = browsing.opened(chromium, built, browsing.SIZES[size])
    browsing.wait_until(shown, lambda: len(figures(shown)) == 4)
    browsing.wait_until(shown, lambda: shown.find_elements("css selector", ".details table"))
    assert browsing.fits(shown)
    for scheme in ("light", "dark"):
        assert browsing.low_contrast(shown, scheme) == []
    shown.execute_script((ROOT / "explorer/node_modules/axe-core/axe.min.js").read_text())
    found = shown.execute_async_script("axe.run().then((r) => arguments[0](r.violations))")
    assert [(rule["id"], [n["html"][:90] for n in rule["nodes"]]) for rule in found] == []
