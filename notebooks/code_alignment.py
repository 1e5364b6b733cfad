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
# # Code alignment
#
# **What this answers:** how many cycles does a loop take at each place in its 64-byte line, which
# boundary hurts, and by how much? A loop that is fast in a benchmark can be slow in a kernel,
# where the linker puts it elsewhere.

# %%
import loopwright as lw
from loopwright import kernels
from loopwright.cores import microarchs
from loopwright.reporting import alignment, plots
from loopwright.reporting.dropdowns import Choices, Page
from loopwright.toolchain import host_isa

# %%
pick = Choices(kernel=["x86_64/clear_user", *kernels.ids()])


def swept(kernel):
    cores = microarchs.targets(kernels.load(kernel).isa)
    return alignment.sweep(kernel, ",".join(core.id for core in cores))


# %% [markdown]
# ## Cycles over code offsets 0 to 63
# One row a variant, one column an offset of the loop's first byte. The stronger the colour, the
# slower than at the best offset; a dot marks what is slower by more than 2 %. On the right stand
# the fewest and the most cycles. Lines are boundaries of 16 and 32 bytes.

# %%
pick.show(
    lambda kernel: [
        plots.heat_map(rows, core)
        for rows in [swept(kernel)]
        for core in rows["microarch"].unique()
    ]
)

# %% [markdown]
# ## Which boundary hurts
# `boundary_bytes` is empty where nothing is slow, or no single boundary explains what is.

# %%
pick.show(
    lambda kernel: alignment.boundaries(swept(kernel))[
        ["variant", "microarch", "best_cycles", "worst_cycles", "boundary_bytes", "words"]
    ]
)

# %% [markdown]
# ## Measured on this machine
# One loop, put at each offset in turn. Left out where this machine has another instruction set.

# %%
MEASURED = "x86_64/clear_user/plain"
measured = None
if kernels.load(MEASURED.rpartition("/")[0]).isa == host_isa():
    measured = alignment.measured(lw.measure(MEASURED, offset="all"))


# %%
def seen(rows):
    if rows is None or rows.empty:
        return "Nothing could be measured here."
    slow = rows.loc[rows["slowdown_percent"] > 100 * alignment.SLOW, "offset_bytes"]
    said = f"Slower by more than 2 % at offsets: {alignment.ranges(list(slow)) or 'none'}."
    return [*(plots.heat_map(rows, core) for core in rows["microarch"].unique()), said]


Page(seen(measured))

# %% [markdown]
# ## How to read this
# On Zen 2 an entry of the op cache holds ops of one 64-byte line: a loop across the end of a line
# needs two, and two cycles to read them. A loop that takes longer anyway hides it. (The outputs
# kept here are a Zen 4's: its slow offsets begin at 52, where the branch itself crosses the line,
# one byte before those predicted for Zen 2.) Sandy Bridge replays small loops from a buffer, where
# code addresses no longer matter. Neoverse N1 and TSV110 fetch aligned blocks. That is what the
# simulator knows; llvm-mca and OSACA know no addresses.
#
# ## What to change
# - Choose another kernel above.
# - `alignment.sweep("x86_64/clear_user", "skylake,haswell")` takes any cores and any variant.
# - `MEASURED`: any variant; `loopwright measure KERNEL/VARIANT --offset all` does the same.
