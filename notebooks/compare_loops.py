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
# **What this answers:** for one kernel, how many cycles an iteration does each model give each
# variant, on each microarchitecture; what does this machine measure; and where do they disagree?
#
# **What to change:** `KERNEL` below. `lw list kernels` on the command line names the others.

# %%
from IPython.display import display

import loopwright as lw
from loopwright.report import plots

KERNEL = "x86_64/copy_user"

# %% [markdown]
# ## One tidy table
# A row for each variant, core and source (a model, or `measured` on this machine). `cycles` is per
# iteration of the main loop; `vs_baseline` is the speed relative to what Linux has today (above 1:
# faster); `spread_percent` how far the models lie apart; `error` why a source has no number.

# %%
table = lw.compare(KERNEL)
answers = table[table["cycles"].notna()]
answers[
    [
        "variant",
        "microarch",
        "source",
        "cycles",
        "uncertainty",
        "bytes_per_cycle",
        "vs_baseline",
        "error_percent",
        "spread_percent",
    ]
].round(3)

# %% [markdown]
# ## Cycles an iteration, core by core
# Black is measured, with its uncertainty. A variant without a bar has no answer.

# %%
for core in table["microarch"].unique():
    display(plots.cycles(table, core))

# %% [markdown]
# ## Bytes a cycle
# Variants with different strides compare by what they move.

# %%
for core in table["microarch"].unique():
    display(plots.bytes_per_cycle(table, core))

# %% [markdown]
# ## Where there is no answer, and why

# %%
silent = table[table["cycles"].isna() & table["error"].fillna("").ne("")]
silent.groupby(["source", "error"])["variant"].unique().map(", ".join).to_frame("variants")

# %% [markdown]
# ## Where the models disagree most
# A spread above a few percent means that a model is wrong: measure on that core.

# %%
answers[answers["source"] != "measured"].drop_duplicates(["variant", "microarch"]).nlargest(
    5, "spread_percent"
)[["variant", "microarch", "spread_percent"]].round(1)
