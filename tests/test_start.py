"""What is imported when: a verb waits for nothing that it does not need."""

import inspect
import json
import pkgutil
import subprocess
import sys

import pytest

import loopwright as lw

# What takes long to import, and a prediction can do without.
HEAVY = {"pandas", "numpy", "scipy", "matplotlib", "jinja2", "rich", "elftools", "capstone"}


LIGHT = [
    ["--help"],
    ["predict", "--help"],
    ["measure", "--help"],
    ["list"],
    ["list", "microarchs"],
    ["predict", "--hex", "4883c0014839c875f7", "--microarch", "zen2"],
    ["predict", "--hex", "4883c0014839c875f7", "--microarch", "zen2", "--json"],
    ["predict", "--hex", "4883c0014839c875f7", "--microarch", "zen2", "--model", "llvm-mca"],
]


def imported(commands: list[list[str]]) -> list[set[str]]:
    """Return the top-level modules that are there after each of the commands, run in order."""
    script = (
        "import json, sys; from loopwright.cli import run\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    assert run(command) == 0\n"
        "    print('imported:', *{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [set(x.split()[1:]) for x in done.stdout.splitlines() if x.startswith("imported:")]


def test_nothing_heavy_is_imported_where_it_is_not_needed():
    after = imported(LIGHT)
    assert len(after) == len(LIGHT)
    assert "loopwright" in after[0]
    assert "iced_x86" not in after[0], "the help needs no verb"
    heavy = [(command, there & HEAVY) for command, there in zip(LIGHT, after, strict=True)]
    assert not [one for one in heavy if one[1]]


# Run commands as they run where no extra is installed.
BASE = (
    "import json, sys; from loopwright.errors import extras\n"
    "sys.modules.update((name, None) for names in extras().values() for name in names)\n"
    "from loopwright.cli import run\n"
    "sys.exit(max(run(command) for command in json.loads(sys.argv[1])))"
)


def test_verbs_of_the_base_need_no_extra(tmp_path):
    loop = tmp_path / "loop.s"
    loop.write_text("f: nop\ndec %rcx\njnz f\n")
    commands = [
        ["list"],
        ["doctor"],
        ["predict", "--asm", str(loop), "--microarch", "zen2"],
        ["mca", "-mcpu=znver2", str(loop)],
        ["scan", "/bin/true", "--microarch", "zen2"],
        ["core", "zen2"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", BASE, json.dumps(commands)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    (lacking,) = [line for line in done.stdout.splitlines() if line.startswith("extra measure")]
    assert "pandas" in lacking
    assert "pip install 'loopwright[measure]'" in lacking


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (["check", "x86_64/csum/adc4"], "pandas", "measure"),
        (["trace", "x86_64/csum/adc4", "--size", "64"], "numpy", "measure"),
        (["scan", sys.executable, "--html", "page.html"], "jinja2", "report"),
    ],
)
def test_what_needs_an_extra_names_it(arguments, module, extra):
    done = subprocess.run(
        [sys.executable, "-c", BASE, json.dumps([arguments])], capture_output=True, text=True
    )
    assert done.returncode == 2
    said = f"loopwright: {module} is missing: pip install 'loopwright[{extra}]'\n"
    assert done.stderr == said


def test_a_verb_is_a_function_whatever_was_imported_before():
    script = (
        "import loopwright.predicting.explain, loopwright.linux.patch, loopwright.checking\n"
        "import loopwright as lw\n"
        "assert [getattr(lw, name).__name__ for name in lw.__all__] == lw.__all__"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_module_is_called_like_a_verb():
    assert not {module.name for module in pkgutil.iter_modules(lw.__path__)} & set(lw.__all__)


def test_the_package_names_its_verbs_and_refuses_others():
    assert set(lw.__all__) <= set(dir(lw))
    assert all(inspect.getdoc(getattr(lw, name)) for name in lw.__all__)
    with pytest.raises(AttributeError, match="no attribute 'predicted'"):
        _ = lw.predicted


def test_a_prediction_says_what_can_be_asked():
    assert list(inspect.signature(lw.predict).parameters)[:3] == ["spec", "hex", "blocks"]
    assert "iterations" in inspect.signature(lw.timeline).parameters
    with pytest.raises(TypeError, match="hexx"):
        lw.predict(hexx="90")
