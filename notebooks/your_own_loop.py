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
# **What this answers:** for a loop that you paste: how many cycles it takes on each core, what
# limits it, at which code offsets it is slow, and what it does cycle by cycle.

# %% [markdown]
# ## Paste it
# GNU syntax, x86-64 or arm64; a loop is the code between a label and a branch back to it. Put
# `.intel_syntax noprefix` in the first line for Intel syntax. Where the text does not assemble, one
# line of error names the line of the text.

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
from loopwright import microarchs
from loopwright.reporting import cycle_curves, notebook, plots
from loopwright.reporting.notebook import Choices, Page

found = lw.read_assembly(TEXT)
Page(found)

# %% [markdown]
# ## Cycles an iteration, by every model on every core
# An empty cell has no answer that counts; the second table says why.

# %%
answers = lw.predict(asm=TEXT, model="all", microarch="all")
Page([notebook.side_by_side(answers), "Without an answer:", notebook.unanswered(answers)])

# %% [markdown]
# ## What limits it
# The simulator's bottleneck on each core: a port, a chain of dependent instructions, or a part of
# the front end.

# %%
ours = answers[(answers["model"] == "pipeline") & answers["cycles"].notna()]
Page(ours[["id", "microarch", "offset", "cycles", "bottleneck"]])

# %% [markdown]
# ## One loop on one core, at one code offset
# All that follows is about this choice and is drawn again when it changes.

# %%
isa = found["isa"][0]
CORES = [*microarchs.targets(isa), *microarchs.select("all", isa)]
pick = Choices(
    loop=list(found["id"]),
    microarch=[core.id for core in CORES],
    offset=[str(offset) for offset in range(0, 64, 4 if isa == "arm64" else 1)],
)


def of_loop(rows, loop, column="id"):
    return rows[rows[column] == loop]


def asked(microarch, offset):
    return {"asm": TEXT, "microarch": microarch, "offset": int(offset)}


# %% [markdown]
# ## Code alignment
# Cycles over the code offsets 0 to 63 of the loop's first byte. The stronger the colour, the slower
# than at the best offset; a dot marks offsets that are slower by more than 2 %. Lines are
# boundaries of 16 and 32 bytes. The text names the boundary that explains the slow offsets.


# %%
def aligned(loop, microarch, offset):
    rows = of_loop(cycle_curves.sweep(None, microarch, asm=TEXT), loop, "variant")
    chosen = rows.loc[rows["offset_bytes"] == int(offset), "cycles_per_iteration"].iloc[0]
    summary = f"{chosen:.2f} cycles an iteration at offset {offset}."
    return [plots.heat_map(rows, microarch), *cycle_curves.boundaries(rows)["words"], summary]


pick.show(aligned)

# %% [markdown]
# ## Cycle by cycle
# One line a uop, one column a cycle, of the first four iterations. A uop is decoded, renamed,
# issued to a port, executed, and retired in order.

# %%
pick.show(
    lambda loop, microarch, offset: plots.timeline(
        of_loop(lw.timeline(**asked(microarch, offset), iterations=4), loop)
    )
)

# %% [markdown]
# ## What each uop waited for
# In the fourth iteration. `waited_for` is the last thing that kept the uop from starting: the front
# end, an operand, a busy port, a full buffer. `docs/timeline.md` explains the columns.

# %%
COLUMNS = ["instruction", "text", "role", "port", "ready_cycle", "issued_cycle", "waited_for"]


def waits(loop, microarch, offset):
    rows = of_loop(lw.timeline(**asked(microarch, offset), iterations=4), loop)
    errors = [error for error in rows["error"] if error]
    return errors[0] if errors else rows[rows["iteration"] == 3][COLUMNS]


pick.show(waits)

# %% [markdown]
# ## Ports
# Uops an iteration on each port, then which port of the core runs what kind of uop. The port with
# the most uops is a lower bound of the cycles.

# %%
pick.show(
    lambda loop, microarch, offset: [
        plots.ports(of_loop(lw.ports(**asked(microarch, offset)), loop)),
        plots.port_map(microarchs.load(microarch)),
    ]
)

# %% [markdown]
# ## What the front end costs
# The prediction beside that of the same core with an ideal front end, which always has the next
# instructions ready.


# %%
def front_end(loop, microarch, offset):
    real = lw.predict(**asked(microarch, offset))
    ideal = lw.predict(**asked(microarch, offset), parameters={"front_end": "ideal"})
    real["cycles_ideal_front_end"] = ideal["cycles"]
    columns = ["offset", "cycles", "cycles_ideal_front_end", "bottleneck", "error"]
    return of_loop(real, loop)[columns]


pick.show(front_end)

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
# - The loop, where the text has several, the core and the offset. This loop takes a line of the op
#   cache and 2 cycles on Zen 2 at offset 0, two lines at offset 40; on Zen 4 it takes 1.33 and 2.
# - `parameters={"rename.width": "4"}` is a core with another value.
# - On the command line: `loopwright predict --asm loop.s --microarch all --model all`; `loopwright
#   core zen2 --beside zen4` shows two cores side by side.
