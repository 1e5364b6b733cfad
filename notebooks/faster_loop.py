# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What would make this loop faster?
#
# **What this answers:** starting from a plain variant, which faster code keeps its contract, what
# does each step of it gain on each core, from which size on, and how does it compare with what is
# written by hand?

# %%
import os
import tempfile
from pathlib import Path

import pandas as pd

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.machine import hosts
from loopwright.reporting import cycle_curves, plots
from loopwright.reporting.notebook import Choices, Page
from loopwright.toolchain import host_isa

START = "x86_64/csum/adc1"
TRIED = 200  # candidates that are simulated at most
SIZES = [8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096]

KERNEL, PLAIN = START.rsplit("/", 1)
isa = kernels.load(KERNEL).isa
CORES = [core.id for core in microarchs.targets(isa)]
if isa == host_isa() and hosts.microarch():
    CORES = list(dict.fromkeys([*CORES, hosts.microarch()]))

# %% [markdown]
# ## The search
# Candidates are made by named transformations, compared by the simulated cost of calls on every
# core and at every code offset, held to the contract with a fault at every position, and measured
# in turns with the plain variant where this machine runs the code. Those that this machine does not
# show to be faster are withdrawn. They are written as variants of the kernel, which every verb then
# takes. `loopwright improve x86_64/csum/adc1` does the same.

# %%
folder = Path(tempfile.mkdtemp(prefix="loopwright-"))
found = lw.improve(START, microarch=",".join(CORES), tried=TRIED, out=folder)
os.environ["LOOPWRIGHT_KERNELS"] = str(folder)
BETTER = [name for name in found["candidate"].unique() if name in kernels.load(KERNEL).variants]
Page(found.attrs["findings"])

# %% [markdown]
# ## What each step gains
# Cycles of a call by the pipeline simulator, geometric mean from 64 to 4096 B, over the code
# offsets that a linker may choose. The first line of a candidate is the variant it started from;
# `status` says what became of it, `note` what was measured.


# %%
def steps(candidate):
    """Return a candidate's steps: cycles on each core, bytes of code, and what became of it."""
    mine = found[found["candidate"] == candidate]
    figures = mine.pivot_table(index="step", columns="microarch", values="cycles", sort=False)
    each = mine.groupby("step")[["transformation", "bytes", "status", "note"]].first()
    return each[["transformation", "bytes"]].join(figures).join(each[["status", "note"]])


Page([part for name in found["candidate"].unique() for part in (name, steps(name))])

# %% [markdown]
# ## Side by side
# The main loops of the plain variant and of the first candidate, and how the simulator sees them
# run: two iterations of the plain one, one of the other. A row is an instruction; colours are the
# stages of its life.

# %%
pick = Choices(candidate=BETTER or [PLAIN], microarch=CORES)


def bodies(candidate):
    """Return the main loops of the plain variant and of a candidate in two columns."""
    texts = {}
    for name in dict.fromkeys([PLAIN, candidate]):
        rows = lw.timeline(f"{KERNEL}/{name}", microarch=CORES[0], iterations=1)
        texts[name] = rows.drop_duplicates("instruction")["text"].reset_index(drop=True)
    return pd.DataFrame(texts).fillna("")


pick.show(lambda candidate, **_: bodies(candidate))

# %%
pick.show(
    lambda candidate, microarch: [
        part
        for name, count in {candidate: 1, PLAIN: 2}.items()
        for part in (
            name,
            plots.timeline(lw.timeline(f"{KERNEL}/{name}", microarch=microarch, iterations=count)),
        )
    ]
)

# %% [markdown]
# ## Cost over size
# Whole calls with aligned data on each core: all variants that are written by hand, and the
# candidates. A band is the range that unmeasured parameters of a core leave.

# %%
calls = cycle_curves.predicted(KERNEL, ",".join(CORES), SIZES)
core = Choices(microarch=CORES)
core.show(
    lambda microarch: plots.size_curves(calls[calls["microarch"] == microarch], kernel=KERNEL)
)

# %% [markdown]
# Where each variant is the cheapest:

# %%
core.show(lambda microarch: cycle_curves.crossovers(calls[calls["microarch"] == microarch]))

# %% [markdown]
# ## What to change
# - `START`: another variant, of this kernel or of a folder of your own (`LOOPWRIGHT_KERNELS`).
# - `TRIED`: a longer search; `loopwright improve --state DIR` goes on with one.
# - Choose the candidate and the core above.
# - `loopwright recommend` and `loopwright patch` take the candidates that `out` has;
#   `loopwright improve --obj FILE:SYMBOL` takes loops that have no contract, and
#   `loopwright scan FILE --improve N` those of a binary that are hot.
