"""Examples in the docstrings of verbs: each prints what it shows."""

import doctest

import pytest

import loopwright as lw

VERBS = ("predict", "read_assembly", "scan", "timeline")


@pytest.mark.parametrize("name", VERBS)
def test_the_example_of_a_verb_is_true(name):
    verb = getattr(lw, name)
    [found] = doctest.DocTestFinder(recurse=False).find(verb, name, globs={})
    result = doctest.DocTestRunner().run(found)
    assert result.attempted
    assert not result.failed
