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
# # A core at a glance
#
# **What this answers:** how wide a core is, what runs on which of its ports, what instructions
# take, and which code offsets hurt its loops; beside another core, and of a core that `calibrate`
# learned from timing alone.

# %%
import tempfile

import loopwright as lw
from loopwright.cores import microarchs
from loopwright.reporting import alignment, plots
from loopwright.reporting.dropdowns import Choices, Page

# %%
pick = Choices(core=["zen2", *microarchs.ids()], beside=["zen4", *microarchs.ids()])

# %% [markdown]
# ## Which port runs what
# A square where a kind of uops runs, a column a port. Ports have the letters that their source
# gives them.

# %%
pick.show(
    lambda core, beside: [
        plots.port_map(microarchs.load(one)) for one in dict.fromkeys((core, beside))
    ]
)


# %% [markdown]
# ## Widths, queues and all else
# What differs between the two. Each parameter has its source in `core.toml`; `confidence` is how
# sure the first core's is.


# %%
def differing(core, beside):
    rows = lw.core(core, beside=beside)
    mine = rows[(rows["part"] == "parameter") & (rows["value"] != rows["beside"])]
    return mine[["figure", "value", "beside", "confidence"]]


pick.show(differing)


# %% [markdown]
# ## What instructions take
# Cycles from operand to result, cycles until another one can start, uops by port. "At most" is
# said where other instructions keep instances apart.


# %%
def instructions(core, beside):
    rows = lw.core(core, beside=beside)
    mine = rows[rows["part"].isin(["latency", "throughput", "uops"])]
    table = mine.pivot(index="figure", columns="part", values=["value", "beside"])
    table.columns = [f"{part}, {core if which == 'value' else beside}" for which, part in table]
    return table.loc[mine["figure"].unique()].reset_index().fillna("")


pick.show(instructions)

# %% [markdown]
# ## Offsets that hurt
# The loops of one kernel at all 64 offsets of a line, on both.

# %%
LOOPS = {"x86_64": "x86_64/clear_user", "arm64": "arm64/copy_user"}


def hurting(core, beside):
    cores = list(dict.fromkeys((core, beside)))
    rows = alignment.sweep(LOOPS[microarchs.load(core).isa], ",".join(cores), model="pipeline")
    return [plots.heat_map(rows, one) for one in cores]


pick.show(hurting)

# %% [markdown]
# ## A core learned from timing
# `calibrate` has no table: it times kernels and concludes. Here its machine is a core of the
# simulator, with noise, and it is asked about few instructions, so that it takes seconds; on your
# machine it is `lw.calibrate("cores")`, or `loopwright calibrate -o cores`. What it gives here can
# be held to the tables above: ports have other letters, and are the same sets.

# %%
with tempfile.TemporaryDirectory() as folder:
    learned = lw.calibrate(
        folder,
        machine="simulated:zen2",
        mnemonics=["add", "imul", "popcnt", "shl", "mov", "paddd", "addps", "mulps", "pshufd"],
    )
Page(learned)

# %% [markdown]
# ## What to change
# - Choose other cores above; both of one instruction set.
# - `loopwright core zen2 --beside zen4 --html zen2.html` makes a page of all this.
# - `LOOPWRIGHT_MODELS=cores` shows the cores that `calibrate -o cores` wrote.
