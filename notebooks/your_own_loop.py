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
# # Your own loop
#
# **What this answers:** for a loop that you paste: how many cycles on each core, what limits it,
# at which code offsets it is slow, and what it does cycle by cycle.

# %% [markdown]
# ## Paste it
# GNU syntax, x86-64 or arm64; a loop is what stands between a label and a branch back to it. Put
# `.intel_syntax noprefix` in the first line for Intel syntax. Text that does not assemble is one
# line that names the line.

# %%
TEXT = """
.Lcopy:
    movq    (%rsi), %rax
    movq    8(%rsi), %rdx
    movq    %rax, (%rdi)
    movq    %rdx, 8(%rdi)
    addq    $16, %rsi
    addq    $16, %rdi
    subq    $16, %rcx
    jnz     .Lcopy
"""

# %%
import loopwright as lw
from loopwright.cores import microarchs
from loopwright.reporting import alignment, plots, tables
from loopwright.reporting.dropdowns import Choices, Page

found = lw.read_assembly(TEXT)
Page(found)

# %% [markdown]
# ## Cycles an iteration, by every model on every core
# Empty is no answer that counts: a figure below what the core's loads and stores take is named
# under those without one.

# %%
answers = lw.predict(asm=TEXT, model="all", microarch="all")
Page([tables.side_by_side(answers), "Who has no answer, and why:", tables.unanswered(answers)])

# %% [markdown]
# ## What limits it
# In the simulator's view. A port, a chain of dependent instructions, or a part of the front end.

# %%
ours = answers[(answers["model"] == "pipeline") & answers["cycles"].notna()]
Page(ours[["id", "microarch", "offset", "cycles", "bottleneck"]])

# %% [markdown]
# ## One loop, one core

# %%
isa = found["isa"][0]
CORES = [*microarchs.targets(isa), *microarchs.select("all", isa)]
pick = Choices(loop=list(found["id"]), microarch=[core.id for core in CORES])


def of_loop(rows, loop, column="id"):
    return rows[rows[column] == loop]


# %% [markdown]
# ## Code alignment

# %%
pick.show(
    lambda loop, microarch: plots.heat_map(
        of_loop(alignment.sweep(None, microarch, asm=TEXT), loop, "variant"), microarch
    )
)

# %% [markdown]
# ## Cycle by cycle, and on which ports
# One line an uop, one column a cycle.

# %%
pick.show(
    lambda loop, microarch: plots.timeline(
        of_loop(lw.timeline(asm=TEXT, microarch=microarch, iterations=4), loop)
    )
)

# %%
pick.show(
    lambda loop, microarch: plots.ports(of_loop(lw.ports(asm=TEXT, microarch=microarch), loop))
)

# %% [markdown]
# ## What to change
# - `TEXT`. An arm64 loop, for instance:
#
#   ```
#   1:  ldp   x6, x7, [x1], #16
#       stp   x6, x7, [x0], #16
#       subs  x2, x2, #16
#       b.ne  1b
#   ```
#
# - Choose the loop, where the text has several, and the core.
# - On the command line: `loopwright predict --asm loop.s --microarch all --model all`.
