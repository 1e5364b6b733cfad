"""What a kit is told: names that it does not hold, options without a value."""

import subprocess

import pytest
from checkout import DATA

from loopwright import toolchain
from loopwright.machine import harness
from loopwright.portable.kit import _jobs

FIXTURES = DATA / "kernels"
ISA = toolchain.host_isa()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    path = tmp_path_factory.mktemp("kit") / "jobs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPWRIGHT_KERNELS", str(FIXTURES))
        path.write_text(_jobs(ISA))
    return path


def run(jobs, *options):
    command = [str(harness.build(ISA)), "kit", str(jobs), "0" * 64, "0.1.0", *options]
    return subprocess.run(command, cwd=jobs.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("options", [("-o",), ("-o", ""), ("--only", ""), ("--resume", "")])
def test_an_option_without_a_value_is_named(jobs, options):
    """Also where a shell's variable was empty: nothing is not everything."""
    done = run(jobs, *options)
    assert done.returncode == 2
    assert f"{options[0]} needs a value" in done.stderr


@pytest.mark.parametrize("name", ["x86_64/chain", "x86_64/chains/", "chains", "arm64/chains"])
def test_a_name_that_is_not_for_this_machine_is_named(jobs, name):
    if ISA != "x86_64":
        pytest.skip("the fixtures are of x86-64")
    done = run(jobs, "--only", name, "-o", "none.jsonl")
    assert done.returncode == 2
    assert f"--only {name}: the kit has nothing of that name for x86_64; it has" in done.stderr
    assert "x86_64/chains" in done.stderr
    assert not (jobs.parent / "none.jsonl").exists()
