"""The effects set, move, compare and scan: wrong variants fail, odd contracts are refused."""

import importlib.util
import re
import sys

import few_variants
import pytest
from checkout import DATA, ROOT
from quick import some

from loopwright import kernels, toolchain
from loopwright.checking import check
from loopwright.errors import InputError

FOLDER = ROOT / "validation" / "mutants"
FIXTURES = DATA / "kernels"
EFFECTS = ("set", "move", "compare", "scan")
# Of each effect: what must be said of one of its mutants.
SAID = {
    "set": "dst byte 1 is 0, not 0x1",
    "move": "src - dst = -32",
    "compare": "the sign of the first difference, byte 0, is 1",
    "scan": "at src byte 1 of 1",
}
X86_ONLY = pytest.mark.skipif(toolchain.host_isa() != "x86_64", reason="runs x86-64 code natively")


def _variants_script():
    spec = importlib.util.spec_from_file_location("wrong_variants", FOLDER / "variants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["wrong_variants"] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = _variants_script()
EVERY = SCRIPT.wrong_variants()
MUTANTS = {effect: [m for m in EVERY if m.group == effect] for effect in EFFECTS}


def _said(mutant):
    """Return what check says of a wrong variant."""
    with SCRIPT.changed(mutant) as variant:
        return SCRIPT.checked(variant)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_wrong_variant_fails_with_the_first_call_that_is_wrong(effect):
    assert any(SAID[effect] in _said(mutant) for mutant in MUTANTS[effect][:1])


@pytest.mark.slow
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_wrong_variant_fails(effect):
    assert len(MUTANTS[effect]) >= 5
    said = {mutant.kind: _said(mutant) for mutant in MUTANTS[effect]}
    assert not [kind for kind, why in said.items() if not why or why.startswith("not proven")]


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """Return a function that names a variant of a copy of the small routines, changed."""

    def make(variant, file, old, new):
        monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
        few_variants.changed(monkeypatch, tmp_path, "x86_64/effects", (file, old, new))
        return kernels.select(f"x86_64/effects/{variant}")[1]

    return make


# With how many entries of their tables calls hit.
FORMS = [("fill_string", 1), ("find_bytes", 0), ("length_bytes", 0), ("move_string", 2),
         ("compare_words", 4), ("scan_bytes", 1)]  # fmt: skip


@X86_ONLY
@pytest.mark.parametrize(("variant", "hit"), some(FORMS, FORMS[:1]))
def test_other_forms_of_the_effects_hold(variant, hit, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
    [row] = check.run(kernels.select(f"x86_64/effects/{variant}")[1]).to_dict("records")
    assert row["passed"], row["failure"]
    assert row["coverage"] == "100 %"
    assert row["entries_hit"] == hit


@pytest.mark.parametrize(
    ("variant", "old", "new", "why"),
    [
        ("fill_string", "EXTABLE 1b, .Ldone", "", "no exception-table entry"),
        ("fill_string", ".Ldone:\n", ".Ldone:\n\tmovl\t$0, %ecx\n", "0 bytes said to be left"),
        ("find_bytes", "cmpb\t%cl", "cmpb\t$0", "is returned, and the value is"),
        ("find_bytes", "\tdecq\t%rdx\n\tjnz", "\tdecq\t%rdx\n\tjns", "is returned, and the value"),
        ("find_bytes", "\tmovq\t%rdi, %rax\n", "\tleaq\t1(%rdi), %rax\n", "at byte 0"),
        ("length_bytes", "\tjae", "\tja", "at src byte 0 of 0"),
        ("length_bytes", "(%rdi,%rax)", "1(%rdi,%rax)", "length"),
        ("move_string", "\tjb\t.Lbackward\n", "", "src - dst = -"),
        pytest.param(
            "move_string",
            "\tcmpq\t%rdx, %rax\n\tjb",
            "\ttestq\t%rax, %rax\n\tjns",
            "said to be left",
            marks=pytest.mark.slow,
        ),
        (
            "move_string",
            "\tcld\n\tmovq\t%rcx, %rax\n",
            "\tcld\n\txorl\t%eax, %eax\n",
            "said to be left",
        ),
        ("move_string", "EXTABLE 2b, .Lbackward_done", "", "no exception-table entry"),
        (
            "compare_words",
            "EXTABLE 1b, .Lbyte",
            "EXTABLE 1b, .Lfault",
            "a fault is reported, and all",
        ),
        ("compare_words", "EXTABLE 2b, .Lbyte", "EXTABLE 2b, .Ldone", "no fault is reported"),
        ("compare_words", "EXTABLE 4b, .Lfault", "EXTABLE 4b, .Ldone", "no fault is reported"),
        ("compare_words", "\txorl\t%ecx, %ecx\n", "", "a fault is reported, and all"),
        ("scan_bytes", "\tjb\t.Lbyte", "\tjbe\t.Lbyte", "src byte 1 of 1, where it may not"),
        ("scan_bytes", "EXTABLE 1b, .Lfault", "EXTABLE 1b, .Lend", "no fault is reported"),
        ("scan_bytes", "EXTABLE 1b, .Lfault", "", "no exception-table entry"),
    ],
)
@X86_ONLY
def test_what_is_wrong_in_them_is_found(changed, variant, old, new, why):
    [row] = check.run(changed(variant, f"{variant}.S", old, new)).to_dict("records")
    assert why in row["failure"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('returns = { found = "rax" }', "returns = {}", "needs a result length or found"),
        ('found = "rax"', 'order = "rax"', "'scan' has no result 'order'; it has length, found"),
        ('value = "eax", count', "count", "effect 'set' needs an input value"),
        ('value = "eax"', 'byte = "eax"', "effect 'set' has no input 'byte'; it has dst, value"),
        ('returns = { length = "rax" }', 'returns = { length = "rax" }\nfaulting = ["src"]',
         "effect 'scan' with accesses that may fault ('faulting') needs a result faulted"),
        ('value = "eax", count = "rcx" }', 'value = "eax" }', "'set' needs an input count"),
    ],
)  # fmt: skip
def test_a_contract_that_an_effect_has_not_is_refused_at_the_door(changed, old, new, why):
    with pytest.raises(InputError, match=re.escape(why)) as caught:
        changed("find_bytes", "kernel.toml", old, new)
    assert "kernel.toml" in str(caught.value)
