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
# # A pipeline timeline
#
# **What this answers:** what does each instruction of a loop do, cycle by cycle; on which port;
# and what did it wait for? Where predictions say *how many* cycles, this says *which*.

# %%
import loopwright as lw
from loopwright import kernels
from loopwright.cores import microarchs
from loopwright.reporting import plots
from loopwright.reporting.dropdowns import Choices

# %%
VARIANTS = [v.id for k in kernels.every() for v in k.variants.values()]
pick = Choices(
    variant=["x86_64/clear_user/immediates", *VARIANTS],
    microarch=["zen2", *microarchs.ids()],
    offset=["its own", *map(str, range(64))],
)


def place(offset):
    return None if offset == "its own" else int(offset)


# %% [markdown]
# ## Cycle by cycle
# One line an uop, one column a cycle, of the first iterations. An uop is decoded, issued
# (renamed), dispatched to a port, executed, and retired in order.

# %%
pick.show(
    lambda variant, microarch, offset: plots.timeline(
        lw.timeline(variant, microarch=microarch, offset=place(offset), iterations=4)
    )
)

# %% [markdown]
# ## What each uop waited for
# Of the fourth iteration, when things have settled. `waited_for` is the last thing that kept it
# from starting: the front end, an operand, a port that was busy, a buffer that was full.

# %%
COLUMNS = [
    "instruction",
    "text",
    "role",
    "how",
    "port",
    "decoded_cycle",
    "issued_cycle",
    "dispatched_cycle",
    "executed_cycle",
    "retired_cycle",
    "waited_for",
]


def waits(variant, microarch, offset):
    rows = lw.timeline(variant, microarch=microarch, offset=place(offset), iterations=4)
    return str(rows["error"][0]) if rows["error"][0] else rows[rows["iteration"] == 3][COLUMNS]


pick.show(waits)

# %% [markdown]
# ## Ports
# Uops an iteration on each port. The port with the most work is a floor under the cycles.

# %%
pick.show(
    lambda variant, microarch, offset: plots.ports(
        lw.ports(variant, microarch=microarch, offset=place(offset))
    )
)

# %% [markdown]
# ## The prediction, and what the front end costs in it
# With an ideal front end instructions are always there in time.


# %%
def with_and_without(variant, microarch, offset):
    common = {"microarch": microarch, "offset": place(offset)}
    real = lw.predict(variant, **common)
    ideal = lw.predict(variant, **common, parameters={"front_end": "ideal"})
    real["cycles_with_ideal_front_end"] = ideal["cycles"]
    return real[["offset", "cycles", "cycles_with_ideal_front_end", "bottleneck", "error"]]


pick.show(with_and_without)

# %% [markdown]
# ## What to change
# - Choose a variant, a core or a code offset above. The loop of `immediates` on Zen 2 takes two
#   cycles at its own offset 59, across the end of a cache line, and one at offset 0.
# - `iterations=4`: more of them show how a loop settles.
# - `parameters={"rename.width": "4"}` tries a core with another figure; `docs/timeline.md`
#   explains the columns.
