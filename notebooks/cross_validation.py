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
# # Cross-validation
#
# **What this answers:** how far are the models' predictions from what this machine measures, and
# from what others have published about the same loops?

# %%
import loopwright as lw
from loopwright.errors import InputError
from loopwright.reporting import cross_validation, plots
from loopwright.reporting.dropdowns import Page

# %% [markdown]
# ## Predicted against measured
# Every loop of every kernel that this machine can run, measured and predicted for the core that it
# is. The band is 10 % to either side. Kendall's tau is 1 where a model ranks all loops as the
# measurement does.

# %%
try:
    pairs = cross_validation.pairs(cross_validation.loops_here())
except InputError as error:
    print(f"{error}.")
    pairs = cross_validation.NONE
plots.scatter(pairs)

# %%
Page(cross_validation.summary(pairs))

# %% [markdown]
# ## The loops that models miss most

# %%
Page(
    cross_validation.worst(pairs)[
        ["kernel", "variant", "source", "predicted_cycles", "measured_cycles", "error_percent"]
    ]
)

# %% [markdown]
# ## Published figures beside predictions
# What the threads say, from `validation/published.csv`, which names the message of each figure. A
# prediction is of the main loop with all data in the L1 cache. It is the same thing as a published
# figure of a loop; calls, system calls and workloads do other things besides, so that their gain
# is smaller, and nearer to the loop's the longer the call. `fitted` names the simulator's
# parameter that was set by this very figure, which is no test of it then.

# %%
published = lw.published()
predicted = published["predicted"].notna()
Page(
    published[predicted][
        [
            "variant",
            "baseline",
            "quantity",
            "scope",
            "size_bytes",
            "microarch",
            "published",
            "predicted_on",
            "predicted",
            "fitted",
        ]
    ]
)

# %% [markdown]
# Published, and not predicted:

# %%
Page(
    published[~predicted][
        ["variant", "baseline", "scope", "condition", "machine", "published", "error"]
    ]
)

# %% [markdown]
# ## Copies without PAN on Kunpeng 920, over size
# Points are published, lines are what the simulator predicts of the loop. Short calls gain less:
# entry and exit are the same in both. Beyond the L1 cache (64 KiB) other things decide.

# %%
plots.published_over_size(published[published["microarch"] == "tsv110"])

# %% [markdown]
# ## What to change
# - `lw.published(model="all")` asks every model.
# - `accuracy.pairs(lw.compare(kernel))` pairs one kernel's, whole calls too.
# - More figures: add rows to `validation/published.csv`, each with its source.
# - `make validate` holds the simulator against public measurements of thousands of blocks.
