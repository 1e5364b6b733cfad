"""How close the pipeline simulator comes to measurements and to uiCA.

Reads ../shared/data (or $LOOPWRIGHT_SHARED/data) and skips, saying so, where it is
absent. Needs the module loopwright_pipeline (models/pipeline/README.md).
"""

import csv
import os
import sys
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("LOOPWRIGHT_SHARED", REPO.parent / "shared")) / "data"
BHIVE = {"IVB": "ivybridge", "HSW": "haswell", "SKL": "skylake"}


def core(lp, name, overrides=None):
    folder = REPO / "models" / name
    return lp.Core((folder / "core.toml").read_text(), (folder / "instructions.csv").read_text(), overrides or {})


def mape(pairs):
    """Mean absolute percentage error of (predicted, true) pairs."""
    return 100 * sum(abs(p - t) / t for p, t in pairs) / len(pairs)


def tau(pairs):
    """Kendall's tau-b of (predicted, true) pairs."""
    concordant = discordant = ties_p = ties_t = 0
    for i, (p, t) in enumerate(pairs):
        for q, u in pairs[:i]:
            dp, dt = (p > q) - (p < q), (t > u) - (t < u)
            concordant += dp * dt > 0
            discordant += dp * dt < 0
            ties_p += dp == 0 and dt != 0
            ties_t += dt == 0 and dp != 0
    untied = concordant + discordant
    return (concordant - discordant) / ((untied + ties_p) * (untied + ties_t)) ** 0.5


def read(name):
    path = DATA / name
    if not path.exists():
        print(f"skipped: {name} is not there")
        return []
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def bhive(lp):
    rows = read("baselines.csv")
    if not rows:
        return
    print("\nBHive, unrolled, against measurements   | MAPE %        | Kendall's tau   | no answer")
    print("                                        | ours    uiCA  | ours     uiCA   |")
    for arch, name in BHIVE.items():
        mine = [r for r in rows if r["arch"] == arch]
        results = core(lp, name).predict([(bytes.fromhex(r["hex"]), 0) for r in mine], notion="unrolled")
        both = [(p["cycles"], r) for p, r in zip(results, mine) if p["cycles"] is not None and r["uica"]]
        ours = [(p, float(r["measured"])) for p, r in both]
        theirs = [(float(r["uica"]), float(r["measured"])) for _, r in both]
        none = sum(p["cycles"] is None for p in results)
        print(f"{name:39} | {mape(ours):5.2f}  {mape(theirs):6.2f}  | {tau(ours):.4f}  {tau(theirs):.4f}  "
              f"| {none} of {len(mine)}")  # fmt: skip


def agreement(lp, title, rows, keys):
    groups = {}
    for r in rows:
        groups.setdefault(tuple(r[k] for k in keys), []).append(r)
    if groups:
        print(f"\n{title:56} | within 1 % | within 5 % | rows")
    for key, mine in groups.items():
        name, notion = mine[0]["microarch"], mine[0].get("notion", "loop")
        blocks = [(bytes.fromhex(r["hex"]), int(r["offset"])) for r in mine]
        results = core(lp, name).predict(blocks, notion=notion)
        # The reference has two decimals.
        off = [abs((p["cycles"] or 1e9) - float(r["cycles"])) - 0.005 for p, r in zip(results, mine)]
        shares = [sum(o <= limit * float(r["cycles"]) for o, r in zip(off, mine)) / len(mine) for limit in (0.01, 0.05)]
        print(f"{' '.join(key):56} | {100 * shares[0]:8.1f} % | {100 * shares[1]:8.1f} % | {len(mine)}")


def speed(lp):
    rows = read("bhive_public.csv")
    if not rows:
        return
    blocks = [(bytes.fromhex(r["hex"]), 0) for r in rows] * 4
    model = core(lp, "skylake")
    model.predict(blocks[:100], notion="unrolled")
    start = time.perf_counter()
    model.predict(blocks, notion="unrolled")
    taken = time.perf_counter() - start
    print(f"\n{len(blocks) / taken:.0f} blocks a second on {os.cpu_count()} processors")


def main():
    try:
        import loopwright_pipeline as lp
    except ImportError:
        print("skipped: the module loopwright_pipeline is not built")
        return 0
    bhive(lp)
    agreement(lp, "uiCA, loops at every code offset", read("uica_loops_public.csv"), ["microarch"])
    agreement(lp, "uiCA, BHive blocks", read("uica_blocks_public.csv"), ["microarch", "notion", "offset"])
    speed(lp)
    return 0


if __name__ == "__main__":
    sys.exit(main())
