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
# # Size and alignment curves
#
# **What this answers:** how many cycles does a call of a given size take with each variant, here
# and on the target cores; from which size on is which variant the cheapest, and which one is the
# cheapest for the sizes of a real workload?

# %%
from functools import cache

import pandas as pd

import loopwright as lw
from loopwright import kernels, microarchs
from loopwright.histogram import parse
from loopwright.machine import hosts
from loopwright.reporting import cycle_curves, plots
from loopwright.reporting.notebook import Choices
from loopwright.toolchain import host_isa

# %% [markdown]
# ## The sizes of a workload
# Paste the output of bpftrace between the quotes. This one is of `memcpy` in a kernel build, posted
# by Mateusz Guzik in the thread "x86: bring back rep movsq for user access on CPUs without ERMS";
# it came from `bpftrace -e 'kprobe:memcpy { @ = lhist(arg2, 64, 16384, 512); }'`.

# %%
HISTOGRAM = parse(
    """
@[kprobe:memcpy]:
(..., 64)        3477477 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[64, 576)        1245601 |@@@@@@@@@@@@@@@@@@                                  |
[576, 1088)        44061 |                                                    |
[1088, 1600)          11 |                                                    |
[1600, 2112)           9 |                                                    |
[2624, 3136)           1 |                                                    |
[3136, 3648)           2 |                                                    |
[3648, 4160)         148 |                                                    |
"""
)

# %%
SIZES = [8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096]
pick = Choices(
    kernel=["x86_64/copy_user", "x86_64/clear_user", "x86_64/csum", "arm64/copy_user"],
    destination=["aligned", "1 byte off"],
)


@cache
def measured(kernel):
    return lw.measure(kernel, sizes=SIZES)


def costs(kernel, destination):
    """Return costs of a call: measured here where that can be, and predicted.

    Predictions are for this machine's core, if it is known, and for every target.
    """
    isa, dst = kernels.load(kernel).isa, int(destination != "aligned")
    here = isa == host_isa()
    cores = [core.id for core in microarchs.targets(isa)]
    if here and hosts.microarch():
        cores = list(dict.fromkeys([hosts.microarch(), *cores]))
    predicted = cycle_curves.predicted(kernel, ",".join(cores), SIZES, dst_align=dst)
    return pd.concat(
        [cycle_curves.measured(measured(kernel), dst_align=dst), predicted] if here else [predicted]
    )


def each(rows):
    """Return the rows of each core and source, by its name."""
    return {", ".join(key): mine for key, mine in rows.groupby(["microarch", "source"], sort=False)}


# %% [markdown]
# ## Cost of a call over its size
# Measured on this machine where it can run the kernel, and predicted for this machine's core and
# for every target core. A band is the range that unmeasured parameters of a core leave. Vertical
# lines are crossover points; the bars beneath are the workload.

# %%
pick.show(
    lambda kernel, destination: plots.size_curves(
        costs(kernel, destination), kernel=kernel, histogram=HISTOGRAM
    )
)

# %% [markdown]
# ## Which variant is the cheapest where
# Variants share a range of sizes where their uncertainty, or unmeasured parameters of the core,
# leave open which is cheaper.

# %%
pick.show(
    lambda kernel, destination: [
        part
        for name, rows in each(costs(kernel, destination)).items()
        for part in (name, cycle_curves.crossovers(rows))
    ]
)

# %% [markdown]
# ## Which variant is the cheapest for the workload
# The mean cost of a call over the workload's sizes, spread evenly within each bucket.

# %%
pick.show(
    lambda kernel, destination: [
        part
        for name, rows in each(costs(kernel, destination)).items()
        for part in (name, cycle_curves.weighted(rows, HISTOGRAM))
    ]
)

# %% [markdown]
# ## What to change
# - `HISTOGRAM`: paste your own; `hist` and `lhist` are both read. `loopwright recommend
#   x86_64/copy_user --sizes FILE` weighs a recommendation by it.
# - `SIZES`: the bytes of the calls that are measured and predicted.
# - `cycle_curves.predicted(kernel, "zen4,haswell", SIZES)`: other cores.
# - Choose the kernel and whether the destination is aligned above.
