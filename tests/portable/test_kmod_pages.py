"""The module in a kernel whose pages have 64 KiB; run by make verify-kmod."""

import kmod_guest
import pytest
from kmod_guest import session
from test_kmod_run import rebuilt

from loopwright.portable import kmod

pytestmark = [pytest.mark.slow, pytest.mark.boot]

STEPS = ["load", "write run check", "read results", "unload"]
CPU = "max,pauth-impdef=on"
# As much as there is in pages of 4 KiB: the last page then goes on behind what is counted.
NOT_WHOLE = ("kmod.h", "ALIGN(AREA_BYTES + 4 * 4096, PAGE_SIZE)", "(AREA_BYTES + 4 * 4096)")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = kmod_guest.kernel("arm64", pages=64)
    return folder, kmod.build(folder, tmp_path_factory.mktemp("kmod") / "arm64")


def test_every_variant_keeps_its_contract(built):
    found = session(built, CPU, STEPS)
    checks = found.read("read results")
    every = set(built[1].variants)
    assert {x["id"] for x in checks} == {x for x in every if not x.endswith("_nopan")}
    assert [x for x in checks if not x["passed"] or x["failure"]] == []
    # The user side ends where an inaccessible page begins, in most cases before all is done.
    assert all(x["faults"] > 8000 for x in checks)
    assert all(x["faults"] > x["cases"] / 2 for x in checks)


def test_areas_that_are_no_whole_pages_do_not_pass(built, tmp_path):
    """So a fault that does not come is noticed."""
    found = session(rebuilt(built, tmp_path / "kmod", [NOT_WHOLE]), CPU, STEPS)
    checks = found.read("read results")
    assert checks
    assert all(not x["passed"] for x in checks)
    assert all("than cannot be accessed" in x["failure"] for x in checks)
