"""Loops of somebody's own: measured, and predicted beside that."""

import pytest

import loopwright as lw
from loopwright import toolchain
from loopwright.cli import run
from loopwright.machine import hosts

pytestmark = pytest.mark.measures

CHAIN = "1:\taddq %rax, %rax\n\taddq %rax, %rax\n\taddq %rax, %rax\n\tdecq %rcx\n\tjnz 1b\n"


@pytest.fixture(scope="module")
def here():
    if toolchain.host_isa() != "x86_64":
        pytest.skip("the loop is for x86-64")
    return hosts.microarch()


@pytest.fixture(scope="module")
def rows(here):
    del here
    found = lw.compare_loops(asm=CHAIN, microarch="all")
    if not found["measured"].notna().any():
        pytest.skip(f"this machine measured nothing: {list(found['error'])}")
    return found


def test_a_chain_of_three_is_measured_beside_its_prediction(rows, here):
    mine = rows[rows["microarch"] == (here or "")]
    assert len(mine) == 1
    assert mine["measured"].iloc[0] == pytest.approx(3, rel=0.1)
    assert rows["predicted"].notna().sum() > 5
    assert rows["measured"].notna().sum() == 1  # of this machine alone
    if here:
        error = 100 * (mine["predicted"].iloc[0] / mine["measured"].iloc[0] - 1)
        assert mine["error_percent"].iloc[0] == pytest.approx(error)
    assert (mine["clock"] != "").all()


def test_a_core_that_is_not_asked_for_has_its_measurement_all_the_same(here):
    found = lw.compare_loops(
        asm=CHAIN, microarch="sandybridge" if here != "sandybridge" else "zen2"
    )
    assert list(found["microarch"]) == [found["microarch"].iloc[0], here or ""]
    assert found["predicted"].isna().tolist() == [False, True]


def test_the_same_loop_by_text_hex_and_object_is_one_subject(here, tmp_path, capsys):
    del here
    [piece] = lw.read_assembly(CHAIN)["hex"]
    path = tmp_path / "loop.s"
    path.write_text(CHAIN)
    for given in (["--asm", str(path)], ["--hex", piece]):
        code = run(["measure", *given, "--processes", "1", "--csv"])
        out = capsys.readouterr().out
        assert code in (0, 1)
        assert out.splitlines()[1].rstrip(",").split(",")[1] == "loop"
