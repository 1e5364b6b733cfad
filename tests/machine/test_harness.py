"""The harness compiles without warnings and answers jobs that are wrong."""

import json
import subprocess

import pytest

from loopwright import kernels, toolchain
from loopwright.errors import InputError
from loopwright.machine import harness

HOST = toolchain.host_isa()
NOTHING = "job check\nid nothing\nisa {isa}\neffect clear\nin dst {dst}\nin count {count}\n"
REGISTERS = {"x86_64": {"dst": "rdi", "count": "rcx"}, "arm64": {"dst": "x0", "count": "x1"}}
RETURN = {"x86_64": "c3", "arm64": "c0035fd6"}


def _answers(isa, text):
    command = [*toolchain.find(isa).run, str(harness.build(isa))]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def _job(isa, *lines):
    head = NOTHING.format(isa=isa, **REGISTERS[isa])
    return head + "".join(f"{line}\n" for line in lines) + "end\n"


@pytest.mark.slow
@pytest.mark.parametrize("isa", kernels.ISAS)
def test_compiles_without_warnings(isa, tmp_path):
    harness.compile_to(isa, tmp_path / "harness", "-Werror")
    assert (tmp_path / "harness").stat().st_size > 0


def test_a_harness_that_does_not_compile_says_why(tmp_path):
    with pytest.raises(InputError) as error:
        harness.compile_to(HOST, tmp_path / "harness", "-include", "no_such_header.h")
    assert "no_such_header.h" in str(error.value)


@pytest.mark.parametrize("isa", kernels.ISAS)
def test_jobs_that_are_wrong_are_answered_and_the_next_one_runs(isa):
    code = f"code {RETURN[isa]}"
    wrong = {
        "code 0": "not understood: code 0",
        "code zz": "not understood: code zz",
        "code": "not understood: code",
        f"{code}\nentry 99": "the entry lies outside the code",
        f"{code}\nin src nowhere": "not understood: in src nowhere",
        f"{code}\nexception 0 77": "an exception-table entry lies outside the code",
        f"{code}\nfaulting dst": "the contract names no result uncopied",
        f"{code}\neffect sort": "not understood: effect sort",
        f"{code}\nmax_size 5000": "more than 4096 bytes",
        f"{code}\nentry -1": "not understood: entry -1",
        f"{code}\nturbo": "not understood: turbo",
        "": "a job needs an id and code",
    }
    answers = _answers(isa, "".join(_job(isa, lines) for lines in wrong) + _job(isa, code))
    for answer, said in zip(answers, wrong.values(), strict=False):
        assert answer["error"].startswith(said)
    assert len(answers) == len(wrong) + 1
    # What does nothing clears nothing: byte 0 of the first call that has one is not zero.
    assert not answers[-1]["passed"]
    assert answers[-1]["failure"].startswith("dst byte 0 is")
    assert answers[-1]["failure"].endswith("(size 1, dst +1024)")


def test_input_that_ends_early_is_an_error():
    [answer] = _answers(HOST, _job(HOST, f"code {RETURN[HOST]}").removesuffix("end\n"))
    assert answer["error"] == "the input ends inside a job"
    assert _answers(HOST, "") == []


def test_code_of_another_isa_is_refused():
    other = next(isa for isa in kernels.ISAS if isa != HOST)
    with pytest.raises(InputError) as error:
        list(harness.run(HOST, _job(other, f"code {RETURN[other]}")))
    assert "isa" in str(error.value)
    assert "nothing" in str(error.value)


@pytest.mark.parametrize("isa", kernels.ISAS)
def test_facts_are_what_the_cpu_and_the_files_say(isa, tmp_path):
    file = tmp_path / "said"
    file.write_text('one\t"two"\\\nthree\n\nnot this\n')
    jobs = f"job facts\nid f\nfile {file}\nfile {tmp_path}/absent\nend\n"
    [first], [again] = _answers(isa, jobs), _answers(isa, jobs)
    assert first["files"] == {str(file): 'one\t"two"\\\nthree'}
    assert first["isa"] == isa
    assert first["protocol"] == harness.protocol()
    # The same on whichever CPU it runs: what differs between CPUs is left out.
    assert first["identity"] == again["identity"]
    assert first["fingerprint"] == again["fingerprint"]
    assert any(key in first["identity"] for key in ("cpuid_00000001_0", "midr_el1"))


def test_answers_carry_the_hash_of_the_code():
    [answer] = _answers(HOST, _job(HOST, f"code {RETURN[HOST]}", "object 0123abcd"))
    assert answer["object"] == "0123abcd"
