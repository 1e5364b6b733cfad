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
# # From winner to patch
#
# **What this answers:** which variant should Linux have, what is the evidence, what is the patch,
# and how far is the patch proven?

# %%
import tempfile
from pathlib import Path

import loopwright as lw
from loopwright.linux import trees
from loopwright.reporting import notebook
from loopwright.reporting.notebook import Page

KERNEL = "arm64/copy_user"
VARIANT = "to_user_batched"  # to make a patch of; left empty, the winner of each routine
TREE = ""  # a Linux source tree; left empty, the one that `make recommend` has fetched, if any

# %% [markdown]
# ## The recommendation
# One column a routine. No winner is an answer too: `reason` names the leading variant,
# `confidence` where a measurement would help most, `models` the models that count and their error
# on that core.

# %%
recommendation = lw.recommend(KERNEL)
Page(recommendation.set_index("routine").T.reset_index(names="routine"))

# %% [markdown]
# ## The evidence
# `vs_baseline` is speed relative to the variant that Linux has: above 1 is faster.

# %%
evidence = lw.compare(KERNEL)
Page(notebook.against_baseline(evidence))

# %% [markdown]
# ## The contract
# The check runs each variant at every size and alignment, with a fault at every position. A variant
# that breaks its contract is never recommended.

# %%
Page(lw.check(KERNEL)[["variant", "passed", "cases", "entries", "entries_hit", "failure"]])

# %% [markdown]
# ## The patch
# The patch is made against a tree, which is only read, and verified: it applies with `git am`,
# `checkpatch.pl` passes, and the patched file assembles to the code that was checked. A variant
# that is not the winner makes an RFC; its first lines give the evidence against it.

# %%
tree = trees.at_hand(TREE)
made = None
if tree.path is None:
    print(f"Skipped, the patch and its verification: {tree.note}.")
else:
    out = Path(tempfile.mkdtemp(prefix="patch-"))
    spec = f"{KERNEL}/{VARIANT}" if VARIANT else KERNEL
    made = lw.patch(spec, str(tree.path), out, tier="apply")
    for row in made.to_dict("records"):
        print(
            f"{row['variant'] or KERNEL}: {row['status']} for Linux {trees.read(tree.path).version}"
        )
        for note in row["notes"]:
            print(f"  {note}")

# %%
if made is not None:
    for files in made["files"]:
        for file in files:
            print(Path(file).read_text())

# %% [markdown]
# ## How far it is proven

# %%
if made is not None:
    for row in made.to_dict("records"):
        for check in row["checks"]:
            what = check["what"].replace(str(tree.path), "the tree")
            print(f"{check['tier']}: {check['check']}: {check['status']}: {what}")

# %% [markdown]
# ## What to change
# - `KERNEL`: any of `loopwright list`; `VARIANT`: one of its variants, winner or not.
# - `TREE`: a path to your own tree.
# - `tier="object"` builds the kernel's objects and runs the contract on them (under a minute once
#   it has been done), `tier="boot"` boots kernels with the patch under QEMU; both need a whole
#   tree.
# - On the command line: `loopwright patch arm64/copy_user --tree ~/src/linux -o patches --verify
#   apply`.
