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
# # Which loops of this kernel did the linker hurt?
#
# **What this answers:** of all loops of a binary, which run slower than they could because of where
# the linker put them, on which core, what fixes each of them, and does this machine agree?
#
# A kernel is scanned as any binary is. Here it is one that every machine has, that is read in
# seconds and whose loops can be measured: the C library that this notebook's Python runs on.

# %%
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from loopwright import microarchs
from loopwright.code.instructions import decode
from loopwright.errors import InputError
from loopwright.machine import hosts
from loopwright.reporting import plots
from loopwright.reporting.notebook import Choices, Page
from loopwright.scanning import images, suspects
from loopwright.scanning.costs import cost
from loopwright.scanning.fixes import NOT_NEEDED
from loopwright.scanning.scan import Question, ranked, scan_summary, scanned
from loopwright.scanning.suspects import measure_loops
from loopwright.toolchain import host_isa

FILE = ""  # a kernel, module, object, library or program; left empty, the C library
WORST = 12  # loops to look at
SUSPECTS = 8  # loops to measure


def c_library():
    """Return the path of the C library that is mapped into this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(("libc.so", "libc-", "ld-musl")):
            return path
    raise InputError("this Python runs on no shared C library: name a FILE above")


file = Path(FILE) if FILE else c_library()
isa = images.read_image(file).isa
HOST = hosts.microarch() if isa == host_isa() else None
CORES = list(dict.fromkeys([*(core.id for core in microarchs.targets(isa)), *filter(None, [HOST])]))

# %% [markdown]
# ## The scan
# The simulator predicts every innermost loop that does not call, where it lies and at the other
# code offsets: on the target cores and on this machine's, where it runs this code.

# %%
found = scanned(Question(file, microarch=",".join(CORES)))
Page(list(found.summary()))

# %% [markdown]
# ## How many, and on which core
# `depends`: the loop's worst offset takes 1.05 times the cycles of its best or more. `hurt`: where
# it lies it takes 1.3 times those of its best offset or more. `refused`: loops without a figure, of
# which the core lacks an instruction, or its tables do.

# %%
Page(pd.DataFrame(scan_summary(found.costs)))

# %% [markdown]
# Which cores the same loop is hurt on: what one does not notice may halve the speed of another.

# %%
hurt_on = Counter(
    ", ".join(one.core.id for one in found.costs if one.hurt[n])
    for n in np.flatnonzero(np.any([one.hurt for one in found.costs], axis=0))
)
Page(pd.DataFrame(hurt_on.most_common(), columns=["hurt on", "loops"]))

# %% [markdown]
# ## The worst ones
# A row a loop and core, ranked by `lost`: the first rows of what `lw.scan(FILE)` returns as a
# DataFrame. `into`: bytes behind the function's start. `offset`: address of the loop's first byte
# mod 64. `cycles`, `best`, `worst`: predicted cycles an iteration where it lies, at its best offset
# and at its worst, with data in the L1 cache and branches predicted. `lost` is cycles - best,
# `times` is cycles / best. `limit`: what limits it where it lies. `boundary` is in bytes, and
# `crossed` what of the loop lies across it. `fix`: the smallest change that serves all these
# cores; "not needed" where none is hurt, however much one loses.

# %%
first = found.rows(WORST).frame().loc[:, "address":"fix"]
Page(first.drop(columns=["line", "share", "saved", "share_of"]))

# %% [markdown]
# ## Cycles over the 64 code offsets
# The loops that are hurt most (or, where none is, lose most), a row each, over code offsets on one
# core: predicted by the simulator. Before its name stands a loop's rank, behind it the offset where
# it lies. The stronger the colour, the slower than at its best one; a dot marks what is slower by
# more than 2 %. On the right stand the fewest and the most cycles an iteration. Dashed and dotted
# lines are boundaries of 32 and 16 bytes.

# %%
worst = sorted(found.ranking, key=lambda one: not found.costs[one.core].hurt[one.loop])
worst = [one for one in worst if one.loop not in found.costs[one.core].errors]
if not worst:
    raise InputError(f"{file} has no loop that can be predicted: name another FILE above")
LOOPS = {
    f"{rank}: {found.found.loops[n].where} at {found.found.loops[n].offset}": n
    for rank, n in enumerate(list(dict.fromkeys(p.loop for p in worst))[:WORST], 1)
}


def over_offsets(loops):
    """Return cycles of loops on all cores over code offsets, in the columns of a heat map."""
    return pd.DataFrame(
        {
            "variant": loop,
            "microarch": one.core.id,
            "offset_bytes": offset,
            "cycles_per_iteration": cycles,
            "slowdown_percent": 100 * (cycles / one.best[LOOPS[loop]] - 1),
        }
        for one in found.costs
        for loop in loops
        for offset, cycles in enumerate(one.table[LOOPS[loop]])
    ).dropna(subset="cycles_per_iteration")


core = Choices(microarch=[CORES[worst[0].core], *CORES])
core.show(lambda microarch: plots.heat_map(over_offsets(LOOPS), microarch))

# %% [markdown]
# ## One of them, on every core
# Cycles an iteration of the worst loop, predicted as above, unless another one is chosen.

# %%
pick = Choices(loop=list(LOOPS))
pick.show(lambda loop: [plots.heat_map(over_offsets([loop]), one) for one in CORES])

# %% [markdown]
# Its instructions on the likely path, which is what an iteration executes; `offset` is mod 64, and
# `crosses` marks what lies across a boundary of 64 bytes.


# %%
def disassembly(loop):
    """Return the instructions of a loop, each with where it lies."""
    chosen = found.found.loops[LOOPS[loop]]
    return pd.DataFrame(
        {
            "address": f"{ins.address:#x}",
            "offset": ins.address % 64,
            "crosses": "64" if ins.address // 64 < (ins.end - 1) // 64 else "",
            "bytes": ins.code.hex(" "),
            "instruction": ins.text,
        }
        for start, end in chosen.path
        for ins in decode(chosen.isa, chosen.code[start:end], chosen.address + start)
    )


pick.show(disassembly)

# %% [markdown]
# ## The fix, and what it does
# The smallest change after which every offset that the loop may have is as good as its best, on
# each core that is hurt, and which costs no other more than 1 %. Predicted anew, cycles an
# iteration: where the loop lies, at its best offset, and at the worst that the fix leaves it.


# %%
def after(number):
    """Return a loop as its fix leaves it, and the code offsets at which it may then lie."""
    candidate = found.found_fixes[number].candidate
    if candidate is None:
        return None
    loop = found.found.loops[number]
    if candidate.encoded:
        loop = replace(loop, code=candidate.encoded.code, path=candidate.encoded.path)
    return loop, list(candidate.offsets)


def fixed(loop):
    """Return the fix of a loop at length, and what each core takes without it and with it."""
    number = LOOPS[loop]
    words = found.how(number, found.found_fixes[number]) or found.found_fixes[number].words
    if after(number) is None:
        return words
    changed, offsets = after(number)
    table = pd.DataFrame(
        {
            "microarch": one.core.id,
            "now": one.cycles[number],
            "best offset": one.best[number],
            "fixed": max(cost([changed], [one.core])[0].table[0][at] for at in offsets),
            "offsets": ", ".join(map(str, offsets)),
        }
        for one in found.costs
        if number not in one.errors
    )
    return [words, table]


pick.show(fixed)

# %% [markdown]
# The fixes of all hurt loops, and the bytes that they add, on average over where the linker may put
# a routine. `alignment` is 0 for what needs none; `none` says that nothing helps without a loss.

# %%
found_fixes = pd.DataFrame(
    [
        (one.kind, one.alignment, one.expected) if (one := fix.candidate) else (fix.words, 0, 0)
        for fix in found.found_fixes
        if fix.words not in ("", NOT_NEEDED)
    ],
    columns=["fix", "alignment", "bytes"],
)
by_kind = found_fixes.groupby(["fix", "alignment"], as_index=False)
Page(by_kind.agg(loops=("bytes", "size"), expected_bytes=("bytes", "sum")))

# %% [markdown]
# ## Measured on this machine
# The loops that this core loses most in, where they lie and at their best offset, each with its own
# bytes, in processes of its own: cycles an iteration, predicted for this core (`cycles`, `best`)
# and measured (`measured`, `measured_best`). `times` is predicted, `measured_times` measured, give
# or take `uncertainty`. What cannot run by itself has a `reason`, such as an exit that is taken
# whatever registers hold; `note` has what was replaced for it to end.

# %%
try:
    tried = suspects.measure_suspects(found, SUSPECTS)
    machine = f"{hosts.machine()}, core {HOST}"
    parts = [machine, *suspects.measured_summary(tried), tried.drop(columns="microarch")]
except InputError as error:
    tried = None
    parts = f"Skipped, the measurements: {error}."
Page(parts)

# %% [markdown]
# Does the fix hold here, too? The first of them that could be measured, as it lies and at the
# worst offset that its fix leaves it, in cycles an iteration.


# %%
def fix_measured():
    """Measure a loop as it is and as its fix leaves it, beside what is predicted of both."""
    if tried is None or tried["measured"].isna().all():
        return "Skipped: no suspect was measured here."
    [now] = [one for one in found.costs if one.core.id == HOST]
    suspected = [one.loop for one in ranked([now]) if now.hurt[one.loop]][:SUSPECTS]
    able = [
        n for n, state in zip(suspected, tried["status"], strict=True) if state == "ok" and after(n)
    ]
    if not able:
        return "Skipped: no suspect that was measured here, at one speed, has a fix."
    number = able[0]
    loop, (changed, offsets) = found.found.loops[number], after(number)
    [new] = cost([changed], [now.core])
    slowest = max(offsets, key=lambda offset: new.table[0][offset])
    real = measure_loops([loop, changed], [[loop.offset], [slowest]])
    real["predicted"] = [now.cycles[number], new.table[0][slowest]]
    real["code"] = ["as it lies", found.found_fixes[number].words]
    real["measured"] = [
        row.reason or f"{row.cycles:.3f} ± {row.uncertainty:.3f}" for row in real.itertuples()
    ]
    return [f"{loop.where}, {machine}", real[["code", "offset", "predicted", "measured", "clock"]]]


Page(fix_measured())

# %% [markdown]
# ## On to the patch
# Which of these loops matter is for a profile to say: `--profile perf.data` ranks them by the share
# of all cycles that their best offset would save. Of C one tells the compiler what `how` says, for
# the function or its file. For assembly of a kernel the patch is made and proven:
#
#     loopwright scan vmlinux --profile perf.data
#     loopwright scan vmlinux --patch rep_stos_alternative --tree ~/src/linux -o patches/
#
# The hurt loops of that function are aligned in the tree's `.S` file; its object is built and
# scanned again. Where another loop got slower there is no patch. `docs/scan.md` has all of it, and
# what a scan cannot know: how often a loop runs, and whether it takes its likely path.
#
# ## What to change
# - `FILE`: your kernel's vmlinux, or `/boot/vmlinuz-...`; a module; another library.
# - Choose the core of the first heat map and the loop above.
# - `SUSPECTS`: how many loops to measure; `loopwright scan FILE --measure 20` does the same.
