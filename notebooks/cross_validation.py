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
import pandas as pd

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.reporting import cross_validation, cycle_curves, plots
from loopwright.reporting.notebook import Choices, Page
from loopwright.toolchain import host_isa

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
    pairs = cross_validation.NO_PAIRS
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
# ## Whole calls
# Calls of every variant that this machine can run, of a few sizes, with the destination aligned and
# a byte off: measured, and predicted by the simulator for the core that it is.

# %%
try:
    measured = cross_validation.calls_here()
    calls = cross_validation.paired_calls(measured, hosts.microarch())
except InputError as error:
    print(f"{error}.")
    measured = calls = cross_validation.NO_CALLS
plots.scatter(calls, of="calls")

# %% [markdown]
# Errors by variant. `median_in_range_percent` is of how far a call lies outside of the range that
# mispredicted exits of loops leave, `bias_percent` the median error with its sign.

# %%
Page(cross_validation.call_errors(calls))

# %% [markdown]
# ## The calls that the simulator misses most

# %%
Page(
    cross_validation.worst_calls(calls, 10)[
        [
            "kernel",
            "variant",
            "size_bytes",
            "dst_align",
            "src_align",
            "measured_cycles",
            "predicted_cycles",
            "mispredicted_cycles",
        ]
    ]
)

# %% [markdown]
# ## Size curves: measured here, predicted for every target core
# The aligned calls of above, then what is predicted of them for this machine's core and for every
# core that recommendations are made for. A band is as far as what nobody has measured of a core
# can move a line; vertical lines are where the cheapest variant changes.

# %%
ISA = host_isa()
pick = Choices(kernel=[kernel.id for kernel in kernels.every() if kernel.isa == ISA])


def curves(kernel):
    """Return costs of calls: measured on this machine, then predicted for it and the targets."""
    targets = [core.id for core in microarchs.targets(ISA)]
    cores = dict.fromkeys([hosts.microarch() or targets[0], *targets])
    predicted = cycle_curves.predicted(kernel, ",".join(cores), cross_validation.sizes_of(kernel))
    return pd.concat([cycle_curves.measured(measured[measured["kernel"] == kernel]), predicted])


pick.show(lambda kernel: plots.size_curves(curves(kernel), kernel=kernel))

# %% [markdown]
# ## Published figures beside predictions
# What the threads say, from `validation/published.csv`, which names the message of each figure.
# `percent` is the published speed-up. `kind` says what the prediction is of: whole calls where the
# size is known, else the main loop; the data is in the L1 cache. Calls of a benchmark, system calls
# and workloads do other work besides, so that they gain less than the routine. `fitted` names the
# simulator's parameter that was set by this very figure; such a row is no test.

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
            "percent",
            "after",
            "unit",
            "predicted_on",
            "kind",
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
        ["variant", "baseline", "scope", "condition", "machine", "percent", "error"]
    ]
)

# %% [markdown]
# ## Copies without PAN on Kunpeng 920, over size
# Points are published, lines are the simulator's calls without the test module around them. Short
# calls gain less: entry and exit are the same in both. Beyond the L1 cache (64 KiB) other things
# decide.

# %%
of_calls = published["microarch"].eq("tsv110") & published["scope"].eq("call")
plots.published_over_size(published[of_calls])

# %% [markdown]
# ## What to change
# - `lw.published(model="all")` asks every model.
# - `cross_validation.pairs(lw.compare(kernel))` pairs one kernel's loops.
# - `call_pairs.calls_here(sizes=..., alignments=...)` measures other calls. `make cross-validate`
#   measures all variants at 25 sizes and seven alignments, and keeps them in `validation/calls`.
# - More figures: add rows to `validation/published.csv`, each with its source.
# - `make validate` holds the simulator against public measurements of thousands of blocks.
