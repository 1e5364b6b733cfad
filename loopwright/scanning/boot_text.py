"""What the message of a patch says of the kernels that were booted with it."""

import re
from collections.abc import Mapping, Sequence

from loopwright.scanning.booted import Booted
from loopwright.tree.patch import message_tables
from loopwright.tree.patch.message import wrap
from loopwright.tree.verify import machines
from loopwright.tree.verify.machines import Machine
from loopwright.tree.verify.outcomes import NOT_PROVEN, PASS

_Rows = Sequence[Mapping[str, object]]


def body(booted: Booted, rows: _Rows) -> str:
    """Return the paragraphs: what was built, where the loops lie there, what each machine ran."""
    said = {str(row["check"]): str(row["what"]) for row in rows if row["status"] == PASS}
    work = booted.work
    if not booted.ran:
        return wrap("No kernel was booted with it; see below.")
    kernel = (
        f"Booted under {machines.version(work.isa)}, which proves what code does and not how fast: "
        f"{said['kernel']}, with {said['code offset in the kernel']} cycles an iteration "
        "there. Below: how often the loop's first byte was jumped to; the kernel's own tests; "
        "read(), write() and epoll_wait() with memory that ends at every position."
    )
    return f"{wrap(kernel)}\n\n{_table(booted, said)}"


def left(booted: Booted | None, rows: _Rows) -> list[str]:
    """Return what is not shown of the kernel."""
    if booted is None:
        return ["a whole kernel built, booted and scanned again"]
    open_ = [row for row in rows if row["status"] == NOT_PROVEN]
    others = "what loops take elsewhere in a kernel, where other code moves with this"
    return [others, *(f"{row['check']}: {row['what']}" for row in open_)]


def _table(booted: Booted, said: Mapping[str, str]) -> str:
    names = [label.name for label in booted.work.labels]
    head = ["machine", *(f"{name} ran" for name in names), "KUnit", "system calls"]
    rows = []
    for machine, counts in booted.ran.items():
        if f"boot: {machine.name}" in said:
            times = (f"{counts[loop.address]:,}" for loop in booted.loops)
            rows.append([machine.name, *times, _tests(machine, said), _calls(machine, said)])
    return message_tables.aligned(head, rows, left=len(head))


def _tests(machine: Machine, said: Mapping[str, str]) -> str:
    """Return how many of the kernel's own tests passed on a machine."""
    passed = [
        int(found[1])
        for check, what in said.items()
        if check.startswith("KUnit ") and check.endswith(f": {machine.name}")
        if (found := re.match(r"pass:(\d+)", what))
    ]
    return f"{sum(passed)} pass"


def _calls(machine: Machine, said: Mapping[str, str]) -> str:
    """Return how many system calls held on a machine."""
    held = [
        int(what.split()[0])
        for check, what in said.items()
        if check.startswith("sweep ") and check.endswith(f": {machine.name}")
    ]
    return f"{sum(held):,} as they must"
