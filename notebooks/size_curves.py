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
# **What this answers:** what does a call of a given size cost with each variant, from which size
# on is which variant the cheapest, and which is the cheapest for the sizes that a workload really
# has?

# %%
from functools import cache

import loopwright as lw
from loopwright import kernels
from loopwright.cores import microarchs
from loopwright.histogram import parse
from loopwright.reporting import plots, sizes
from loopwright.reporting.dropdowns import Choices
from loopwright.toolchain import host_isa

# %% [markdown]
# ## The sizes of a workload
# Paste what bpftrace printed between the quotes. This one is of `memcpy` in a kernel build, posted
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
    """Return measured costs of a call; where this machine cannot run it, predicted ones."""
    if kernels.load(kernel).isa == host_isa():
        return [sizes.measured(measured(kernel), dst_align=int(destination != "aligned"))]
    table = lw.compare(kernel, quick=True)
    cores = microarchs.targets(kernels.load(kernel).isa)
    return [sizes.predicted(table, core.id, "pipeline") for core in cores]


# %% [markdown]
# ## Cost of a call over its size
# Measured on this machine where it can run the kernel, else predicted (start-up and main loop
# alone, and so from 64 bytes on). Grey lines are crossover points; the bars beneath are the
# workload.

# %%
pick.show(
    lambda kernel, destination: [
        plots.size_curves(one, kernel=kernel, histogram=HISTOGRAM)
        for one in costs(kernel, destination)
    ]
)

# %% [markdown]
# ## Which variant is the cheapest where
# Variants that do not differ by more than their uncertainty share a stretch.

# %%
pick.show(lambda kernel, destination: [sizes.crossovers(one) for one in costs(kernel, destination)])

# %% [markdown]
# ## Which variant is the cheapest for the workload
# The mean cost of a call with the workload's sizes, taken to be spread evenly in each bucket.

# %%
pick.show(
    lambda kernel, destination: [
        sizes.weighted(one, HISTOGRAM) for one in costs(kernel, destination)
    ]
)

# %% [markdown]
# ## What to change
# - `HISTOGRAM`: paste your own; `hist` and `lhist` are both read. `loopwright recommend
#   x86_64/copy_user --sizes FILE` weighs a recommendation by it.
# - `SIZES`: the bytes of the calls that are measured.
# - Choose the kernel and whether the destination is aligned above.
