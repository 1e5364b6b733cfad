"""The systematic search for mutants: what it makes, and that what passes is argued."""

import importlib.util
import sys

import pytest
from checkout import ROOT

from loopwright import kernels
from loopwright.code import assemble
from loopwright.linux import built_code

FOLDER = ROOT / "validation" / "mutants"
KINDS = {
    "dropped", "doubled", "size", "condition", "operation", "register", "address", "immediate",
    "entry",
}  # fmt: skip


@pytest.fixture
def search(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("search", FOLDER / "search.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "search", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("spec", "least"),
    [("x86_64/copy_user/overlapped", 700), ("arm64/copy_user/to_user_pairs", 1500)],
)
def test_mutants_differ_from_the_variant_and_are_of_every_kind(search, spec, least):
    code = assemble.user_code(kernels.select(spec)[1][0])
    made = list(search.OPERATORS[code.isa](code))
    assert len(made) >= least
    assert {name.partition(":")[0] for name, _ in made} >= KINDS
    own = (code.text, code.exceptions)
    assert not [name for name, one in made if (one.text, one.exceptions) == own]


def test_what_is_put_in_twice_does_something_the_second_time(search):
    code = assemble.user_code(kernels.select("arm64/copy_user/to_user_pairs")[1][0])
    made = [name for name, _ in search.OPERATORS["arm64"](code) if name.startswith("doubled")]
    words = {name.split()[2] for name in made}
    assert words >= {"add", "subs", "ldp", "ldrb"}  # pointers move on
    assert not words & {"sttr", "b.ge", "tbz", "ret", "cmp", "mov"}


@pytest.mark.slow
def test_what_cpus_with_another_feature_run_is_held_too(search):
    """The loop for CPUs with PAN, behind the branch of those without: no user code runs it."""
    variant = kernels.select("arm64/copy_user/from_user_nopan")[1][0]
    code = assemble.user_code(variant)
    (own, _), (form, taken) = search._forms(variant, code)
    assert (own, taken) == (code, "with ARM64_HAS_PAN: ")
    [name] = [
        n
        for n, _ in search.OPERATORS["arm64"](code)
        if "+0x1d8 add x6, x6, #0x40 -> add x6, x6, #0x3f" in n
    ]
    contract = kernels.contract_of(variant)
    mutants = [
        (n, dict(search.OPERATORS["arm64"](one))[name], False) for n, one in enumerate((own, form))
    ]
    assert [n for n, _ in search._failures("arm64", contract, mutants)] == [1]


def test_a_branch_that_only_kernels_without_bti_take_is_found(search):
    code = assemble.user_code(kernels.select("arm64/copy_user/from_user_pairs")[1][0])
    made = dict(search.OPERATORS["arm64"](code))
    [wrong] = [
        one for name, one in made.items() if name.endswith("ret -> br x30") and "+0x214" in name
    ]
    assert built_code.indirect_branches(wrong.text) == ["br x30"]
    assert built_code.indirect_branches(code.text) == []


def test_a_sample_is_found_or_argued(search):
    found = search.run(kernels.select("x86_64/clear_user/plain")[1][0], 6)
    known = search.arguments()
    assert len(found) >= 15
    assert {f.by for f in found} >= {search.CONTRACT}
    assert [f.mutant for f in found if f.by == search.PASSED and not search.reason(f, known)] == []


def test_every_argument_is_of_a_variant_that_there_is(search):
    names = {v.id for kernel in kernels.every() for v in kernel.variants.values()}
    known = search.arguments()
    assert known
    assert {mutant.partition(": ")[0] for mutant in known} <= names
    assert all(why for why in known.values())


def test_the_table_says_what_is_open(search):
    rows = [
        search.Outcome("x86_64/clear_user/plain", "dropped: +0x0 x -> nop", search.PASSED, ""),
        search.Outcome("x86_64/clear_user/plain", "dropped: +0x1 y -> nop", search.CONTRACT, "bad"),
    ]
    text = search.table(rows, 1)
    assert "| x86_64/clear_user/plain | 2 | 0 | 1 | 0 | 1 |" in text
    assert "Not argued (1)" in text
