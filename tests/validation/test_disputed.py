"""What public tables say and a calibrated core does not is decided by the machine."""

import pandas as pd
import pytest

from loopwright.microbench.oracle import Timing

ROWS = [  # measured by the table, said by the core, timed here for all copies, verdict
    (1.0, 2.0, 2.0, "core"),
    (1.0, 2.0, 1.0, "table"),
    (1.0, 2.0, 5.0, "neither"),
    (1.0, 2.0, None, "not timed"),
    (10.0, 12.0, 11.5, "core"),
    (0.5, 0.62, 0.55, "core"),  # both are near: the core is not wrong
]


@pytest.fixture(scope="module")
def disputed(validation):
    return validation("disputed")


@pytest.fixture(scope="module")
def every(disputed):
    names = ["measured", "cycles", "here", "verdict"]
    rows = pd.DataFrame(ROWS, columns=names).assign(source="InstLatx64", notion="latency", copies=2)
    same = pd.DataFrame({"measured": [4.0, 0.25], "cycles": [4.1, 0.33], "source": "uops.info"})
    every = pd.concat([rows, same], ignore_index=True)
    every["name"] = [f"FORM {n}" for n in range(len(every))]
    return every.assign(agrees=disputed.near(every["cycles"], every["measured"]))


def test_the_host_decides_between_table_and_core(disputed, every):
    timings = [Timing(None if here is None else 2 * here) for _, _, here, _ in ROWS]
    found = disputed.judged(every.drop(columns=["here", "verdict"]), timings)
    assert list(found["verdict"]) == [row[3] for row in ROWS]
    page = disputed.page(every, found, "zen3", "a host")
    assert "| InstLatx64 | 6 | 0 | 6 | 3 | 1 | 1 | 1 |" in page
    assert "| uops.info | 2 | 2 | 0 | 0 | 0 | 0 | 0 |" in page
    assert "| InstLatx64 | `FORM 1` | latency | 1.00 | 2.00 | 1.00 |" in page
    assert "`FORM 0`" not in page
