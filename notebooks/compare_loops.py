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
# # Compare loops
#
# **What this answers:** for one kernel, how many cycles does each variant take for the same bytes,
# by each model on each core and as measured on this machine; where do the models disagree, and why?

# %%
from functools import cache

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.reporting import notebook, plots
from loopwright.reporting.notebook import Choices, Several, disagreements

# %% [markdown]
# ## What to compare
# A kernel is one task of Linux with several variants of its loop. The cores are the targets, which
# recommendations are made for, and this machine's. All that follows is drawn again when you choose.

# %%
CORES = [*(core.id for core in microarchs.targets()), hosts.microarch() or "zen2"]
pick = Choices(
    kernel=["x86_64/clear_user", *kernels.ids()],
    microarchs=Several(CORES, chosen=len(CORES)),
)


@cache
def compared(kernel):
    return lw.compare(kernel)


def chosen(kernel, microarchs):
    rows = compared(kernel)
    rows = rows[rows["microarch"].isin(microarchs)]
    if rows.empty:
        raise InputError(f"{kernel} runs on none of these cores: choose another")
    return rows


# %% [markdown]
# ## Cycles for the same bytes, side by side
# Loops move different numbers of bytes an iteration, so cycles are for the amount in `unit`: 64
# bytes, a record or a call. There is a row for each variant and core; a cell is empty where a
# source has no figure that counts. `spread_percent` says by how much the models' largest figure
# exceeds their smallest.

# %%
pick.show(lambda kernel, microarchs: notebook.side_by_side(chosen(kernel, microarchs)))

# %% [markdown]
# ## The same as figures, core by core
# Shorter is faster. A variant without a bar has no answer that counts. `measured` is this
# machine's, with its uncertainty, and only in the column of the core that this machine is.

# %%
pick.show(
    lambda kernel, microarchs: [
        plots.cycles(rows, core)
        for rows in [chosen(kernel, microarchs)]
        for core in rows["microarch"].unique()
    ]
)

# %% [markdown]
# ## Where the models disagree, and why
# A wide spread means that a model is wrong: measure there. A figure below the bound of the core's
# load and store ports does not count, and `why` names it. Models without a front end miss the cost
# of fetch, decode and the op cache. `offset_bytes` is the loop's code offset.

# %%
pick.show(lambda kernel, microarchs: disagreements(kernel, microarchs))

# %% [markdown]
# ## Sources without an answer that counts, and why
# A model that would have to guess gives no number. User space cannot run all of some routines; a
# measurement of the rest does not count for the whole.

# %%
pick.show(lambda kernel, microarchs: notebook.unanswered(chosen(kernel, microarchs)))

# %% [markdown]
# ## What to change
# - Choose another kernel or other cores above; several cores by Ctrl or Shift.
# - `CORES` takes any of `loopwright list microarchs`.
# - A variant of your own: copy a `.S` of `kernels/`, add a `[[variant]]` to the `kernel.toml`
#   beside it, and run this again.
# - A loop that is no kernel yet, and any loop cycle by cycle: `your_own_loop`.
