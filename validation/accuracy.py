"""Error of the pipeline simulator against measurements and uiCA, core by core.

usage: python validation/accuracy.py   (make validate)
On a machine whose core the simulator has tables of, the loops of kernels/ are measured, too.
Reads the public measurements in $LOOPWRIGHT_SHARED/data (default: ../shared/data) and skips,
saying so, what is absent: BHive's figures are those of github.com/ithemal/bhive, uiCA's come from
running github.com/andreas-abel/uiCA on the same code; models/derive/README.md has the others.
"""

import checks
import derive_path  # noqa: F401
import host_blocks
import pandas as pd
import public_loops
import whole_loops
from host import measured_loops
from host_blocks import BHIVE, predictions
from inputs import DATA

from loopwright import paths
from loopwright.judging.model_accuracy import Accuracy
from loopwright.machine import hosts

ROUNDING = 0.005  # uiCA's figures have two decimals
# Rules that measurements show and uiCA lacks (validation/accuracy.md), with the value that switches
# each off: agreement is told with and without the rows that they change.
RULES = {"memory.failed_forward_waits": "false", "ports.result_cycles": "0"}


def against_measurements(rows: pd.DataFrame) -> pd.DataFrame:
    """Return errors (MAPE in percent, Kendall's tau) of the simulator and of uiCA on BHive."""
    lines = []
    for arch, core in BHIVE.items():
        blocks = rows[rows["arch"] == arch]
        simulated = predictions(blocks, core, "unrolled")
        pairs = blocks[simulated.notna() & blocks["uica"].notna()]
        line = {"core": core, "blocks": len(blocks), "no answer": int(simulated.isna().sum())}
        for name, cycles in (("pipeline", simulated), ("uiCA", blocks["uica"])):
            errors = Accuracy.of(cycles[pairs.index], pairs["measured"])
            line |= {f"{name} MAPE %": errors.mape, f"{name} tau": errors.tau}
        lines.append(line)
    return pd.DataFrame(lines)


def agreement(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the shares of rows, in percent, that come within 1 and 5 % of uiCA's cycles.

    `alike` are the rows that no rule of RULES changes, of which the last column is the share.
    """
    lines = []
    for key, group in rows.groupby(keys, sort=False):
        core = group["microarch"].iloc[0]
        notion = group["notion"].iloc[0] if "notion" in group else "loop"
        simulated = predictions(group, core, notion)
        distance = (simulated - group["cycles"]).abs() - ROUNDING
        near = {limit: distance <= limit / 100 * group["cycles"] for limit in (1, 5)}
        ruleless = [
            predictions(group, core, notion, {rule: value}) for rule, value in RULES.items()
        ]
        alike = pd.concat([cycles.eq(simulated) for cycles in ruleless], axis=1).all(axis=1)
        line: dict[str, object] = dict(zip(keys, key, strict=True))
        line |= {"rows": len(group)}
        line |= {f"within {limit} %": 100 * close.mean() for limit, close in near.items()}
        line |= {"alike": int(alike.sum()), "of these within 1 %": 100 * near[1][alike].mean()}
        lines.append(line)
    return pd.DataFrame(lines)


def show(title: str, name: str, table_of: object) -> None:
    """Print one table, or that its data is not here."""
    print(f"\n{title}")
    path = DATA / name
    if not path.is_file():
        print(f"  skipped: {name} is not in {DATA}; set LOOPWRIGHT_SHARED")
        return
    assert callable(table_of)
    print(table_of(pd.read_csv(path)).to_string(index=False, float_format=lambda v: f"{v:.2f}"))


def against_this_machine(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the simulator's error of each measured loop, and how many are close."""
    pairs = rows.dropna(subset=["measured", "pipeline"])
    error = 100 * (pairs["pipeline"] / pairs["measured"] - 1)
    table = pairs[["kernel", "variant", "measured", "uncertainty", "pipeline"]].assign(
        **{"error %": error}
    )
    shares = [f"{100 * (error.abs() <= limit).mean():.0f} % within {limit} %" for limit in (3, 10)]
    count = f"{len(pairs)} of {len(rows)} loops have a measurement and a prediction"
    return table, f"{count}: {', '.join(shares)}" if len(pairs) else count


def show_this_machine() -> None:
    """Print the loops of kernels/ as measured here and as predicted, or why there are none."""
    print("\nThis machine's measurements: main loops of kernels/, cycles an iteration")
    core = hosts.microarch()
    if core is None or not (paths.models_root() / core / "instructions.csv").is_file():
        name = core or hosts.machine()
        print(f"  skipped: this machine is {name}, of which the simulator has no figures")
        return
    loops = measured_loops(core)
    loops["pipeline"] = predictions(loops, core, "loop")
    table, summary = against_this_machine(loops.rename(columns={"cycles": "measured"}))
    print(table.to_string(index=False, float_format=lambda v: f"{v:.2f}"))
    print(summary)


def show_whole_loops() -> None:
    """Print the whole loops that others measured, a column a model, and how many hold by halves."""
    print("\nWhole loops as others measured them, cycles an iteration (validation/loops/)")
    rows = whole_loops.rows()
    index = ["core", "loop", "repeats", "set", "aside", "measured"]
    table = rows.pivot_table(index=index, columns="model", values="cycles", sort=False)
    print(table.reset_index().to_string(index=False, float_format=lambda v: f"{v:.2f}"))
    mixed = rows[rows["repeats"].eq("") & rows["set"].eq("") & rows["cycles"].notna()]
    halves = mixed.assign(error=mixed["error"].abs()).groupby(["core", "model", "aside"])
    print("\nof those that mix instructions and set nothing, within 10 % or 0.1 cycles, by halves")
    print(halves.agg(loops=("holds", "size"), hold=("holds", "sum"), mean_error=("error", "mean")))


def main() -> None:
    """Print all tables."""
    show_this_machine()
    checks.show()
    show_whole_loops()
    public_loops.show()
    for path in sorted(host_blocks.HOSTS.glob("*.csv")):
        show(
            f"BHive's blocks measured on a guest (validation/hosts/{path.name}); the half kept "
            "aside tuned nothing",
            "bhive_public.csv",
            lambda rows, core=path.stem: host_blocks.halves(core, list(rows["hex"])),
        )
    show("BHive's measurements, unrolled", "baselines.csv", against_measurements)
    show(
        "uiCA's cycles: copy, clear and checksum loops at every code offset",
        "uica_loops_public.csv",
        lambda rows: agreement(rows, ["microarch"]),
    )
    show(
        "uiCA's cycles: BHive's blocks",
        "uica_blocks_public.csv",
        lambda rows: agreement(rows, ["microarch", "notion"]),
    )


if __name__ == "__main__":
    main()
