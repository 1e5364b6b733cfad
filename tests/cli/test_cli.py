"""The command line as a user meets it: rows for programs, exit codes, one line of error."""

import csv
import io
import json
from pathlib import Path

import pytest
from checkout import run_here, run_program

from loopwright import toolchain
from loopwright.machine import hosts

COPY8 = "488b064889074883c6084883c70848ffc975ed"


def test_predict_hex_prints_json_rows_with_the_columns_of_the_contract():
    command = f"predict --hex {COPY8} --microarch zen2 --model llvm-mca --json"
    done = run_program(*command.split())
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert {"id", "microarch", "model", "notion", "offset", "cycles", "bottleneck", "error"} <= set(
        row
    )
    assert row["cycles"] == pytest.approx(1.5, rel=0.01)
    assert row["notion"] == "loop"


def test_a_row_without_an_answer_has_no_number():
    done = run_here("predict", "--hex", "0f01cb", "--microarch", "zen2", "--model", "all", "--json")
    rows = json.loads(done.stdout)
    assert len(rows) >= 4
    assert all(row["cycles"] is None and row["error"] for row in rows)


def test_predict_a_kernel_as_csv():
    done = run_here("predict", "x86_64/copy_user/loop32", "--model", "llvm-mca", "--csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    here = {hosts.microarch()} if toolchain.host_isa() == "x86_64" else set()
    assert {row["microarch"] for row in rows} == {"zen2", "sandybridge"} | here - {None}
    assert {row["bytes_per_iteration"] for row in rows} == {"32"}


@pytest.mark.parametrize(
    ("name", "code", "core"),
    [("aarch64", "000400f1e1ffff54", "neoverse-n1"), ("x86-64", COPY8, "zen2")],
)
def test_an_isa_goes_by_its_usual_names(name, code, core, tmp_path):
    loop = tmp_path / "loop.s"
    loop.write_text(code)
    done = run_here("predict", "--asm", str(loop), "--isa", name, "--microarch", core, "--csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert float(row["cycles"]) >= 1, done.stderr


def test_a_missing_tool_is_named_with_the_fix(tmp_path):
    done = run_program("predict", "--hex", COPY8, "--model", "llvm-mca", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "apt install llvm-19" in done.stderr


def test_a_missing_tool_costs_only_its_own_rows(tmp_path):
    command = f"predict --hex {COPY8} --microarch zen2 --model all --json"
    done = run_program(*command.split(), PATH=str(tmp_path))
    assert done.returncode == 0
    errors = {row["model"]: row["error"] for row in json.loads(done.stdout)}
    assert "apt install llvm-19" in errors["llvm-mca"]
    assert errors["osaca"] == ""


def _kernel(folder: Path, source: str) -> dict[str, str]:
    family = folder / "x86_64" / "mine"
    family.mkdir(parents=True)
    (family / "kernel.toml").write_text(
        'summary = "mine"\nbaseline = "only"\n[contract]\nsymbol = "mine"\neffect = "copy"\n'
        'inputs = { dst = "rdi", src = "rsi", count = "rcx" }\nreturns = { uncopied = "rcx" }\n'
        'may_change = ["rax", "flags"]\n[[variant]]\nname = "only"\nsummary = "mine"\n'
    )
    (family / "only.S").write_text(source)
    return {"LOOPWRIGHT_KERNELS": str(folder)}


HEAD = "#include <linux/linkage.h>\nSYM_FUNC_START(mine)\n"
TAIL = "\tRET\nSYM_FUNC_END(mine)\n"


def test_a_variant_that_does_not_assemble_names_file_and_line(tmp_path):
    done = run_here("predict", "x86_64/mine", **_kernel(tmp_path, HEAD + "\tmovq %rax\n" + TAIL))
    assert done.returncode == 2
    assert "only.S:3" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_object_without_a_loop_is_refused(tmp_path):
    source = HEAD + "\tmovq %rax,(%rdi)\n" + TAIL
    done = run_here("predict", "x86_64/mine", **_kernel(tmp_path, source))
    assert done.returncode == 2
    assert "no loop" in done.stderr


def test_check_exits_1_where_a_contract_is_broken(tmp_path):
    body = "1:\tmovb (%rsi),%al\n\tmovb %al,(%rdi)\n\tinc %rsi\n\tinc %rdi\n\tdec %rcx\n\tjnz 1b\n"
    done = run_program("check", "x86_64/mine", "--json", **_kernel(tmp_path, HEAD + body + TAIL))
    assert done.returncode == 1
    (row,) = json.loads(done.stdout)
    assert row["passed"] is False
    assert row["failure"]


def test_list_names_what_there_is():
    kernels = json.loads(run_here("list", "--json").stdout)
    assert "x86_64/copy_user" in {row["kernel"] for row in kernels}
    models = json.loads(run_here("list", "models", "--json").stdout)
    assert {"pipeline", "llvm-mca", "osaca", "uica"} <= {row["model"] for row in models}
    cores = json.loads(run_here("list", "microarchs", "--json").stdout)
    assert {"zen2", "sandybridge", "neoverse-n1", "tsv110"} <= {row["microarch"] for row in cores}


def test_the_core_of_this_machine_is_shown_by_its_name_host(monkeypatch):
    monkeypatch.setattr(hosts, "microarch", lambda: "zen2")
    named, host = (run_here("core", name, "--csv") for name in ("zen2", "host"))
    assert named.returncode == 0
    assert (host.returncode, host.stdout) == (0, named.stdout)
