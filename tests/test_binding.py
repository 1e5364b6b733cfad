"""The simulator's Python module: what it takes, and that an old one is noticed."""

import ast
import inspect
import sys
from types import SimpleNamespace

import pytest
from checkout import ROOT

from loopwright.code import binding
from loopwright.errors import InputError

STUB = ROOT / "models/pipeline/loopwright_pipeline.pyi"


@pytest.mark.parametrize(
    ("known", "word"),
    [({}, "older"), ({"outline": len}, "older"), ({"INTERFACE": binding.INTERFACE + 1}, "newer")],
)
def test_a_module_of_another_interface_is_refused_with_the_mend(monkeypatch, known, word):
    monkeypatch.setitem(sys.modules, "loopwright_pipeline", SimpleNamespace(**known))
    binding.module.cache_clear()
    try:
        with pytest.raises(InputError, match=rf"is {word} than this checkout: run `make setup`"):
            binding.module()
    finally:
        binding.module.cache_clear()


def _names(arguments):
    return [a.arg for a in arguments.args if a.arg not in ("self", "cls")]


def test_the_stub_says_what_the_module_takes():
    module = binding.module()
    stub = ast.parse(STUB.read_text()).body
    functions = {f.name: f for f in stub if isinstance(f, ast.FunctionDef)}
    (core,) = (c for c in stub if isinstance(c, ast.ClassDef))
    methods = {f.name: f for f in core.body if isinstance(f, ast.FunctionDef)}
    values = {v.target.id for v in stub if isinstance(v, ast.AnnAssign)}
    there = {name for name in dir(module) if not name.startswith("_")} - {"loopwright_pipeline"}
    assert there == {*functions, core.name, *values} - {"__version__"}
    assert set(methods) - {"__new__"} == {n for n in dir(module.Core) if not n.startswith("_")}
    taken = [(getattr(module, name), f) for name, f in functions.items()]
    taken += [(module.Core, methods["__new__"]), (module.Core.predict, methods["predict"])]
    for of, written in taken:
        real = [p for p in inspect.signature(of).parameters if p != "self"]
        assert _names(written.args) == real, written.name
