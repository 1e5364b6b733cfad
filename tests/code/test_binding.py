"""A compiled simulator that is not of this checkout is noticed."""

import sys
from types import SimpleNamespace

import pytest

from loopwright.code import binding
from loopwright.errors import InputError


@pytest.mark.parametrize("known", [{}, {"SOURCES": binding._module().SOURCES ^ 1}])
def test_a_module_of_other_sources_is_refused_with_the_fix(monkeypatch, known):
    monkeypatch.setitem(sys.modules, "loopwright_pipeline", SimpleNamespace(**known))
    binding._module.cache_clear()
    try:
        with pytest.raises(InputError, match=r"built from other sources .* run `make setup`"):
            binding.parameters()
    finally:
        binding._module.cache_clear()


def test_forms_are_named_as_the_tables_name_them():
    add, unknown = bytes.fromhex("4801d84883c005"), bytes.fromhex("0f")
    assert binding.forms("x86_64", [add, unknown]) == [["add r64,r64", "add r64,i8"], None]
    assert binding.forms("arm64", [bytes.fromhex("2000028b")]) == [["add x,x,x"]]
