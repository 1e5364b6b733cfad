"""Write models/accuracy.csv: how far each model is from what it was held to, core by core.

usage: python validation/record.py [TEXT]   (part of make validate)
TEXT: only sources whose origin has it. Rows of sources whose data is here are made anew with
today's models; those of others stay as they are. Public data is in $LOOPWRIGHT_SHARED/data
(default: ../shared/data). loopwright/judging/model_accuracy.py says what the columns mean and what
follows.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import checks
import derive_path  # noqa: F401
import host_blocks
import host_calls
import host_kept
import pandas as pd
import threads
import whole_loops
from every_model import MODEL_IDS, predicted
from inputs import DATA
from inputs import REPO as ROOT
from singles import answers

import loopwright as lw
from loopwright import kernels
from loopwright.code import assemble
from loopwright.errors import InputError
from loopwright.judging.model_accuracy import COLUMNS, FILE, MEASUREMENT, Accuracy
from loopwright.predicting.models import SIMULATOR
from loopwright.predicting.pipeline import Pipeline

TABLE = ROOT / "models" / FILE
HOSTS = ROOT / "validation" / "hosts"
WHAT = {"loop": "loops", "unrolled": "unrolled"}
# BHive's blocks and uiCA's cycles helped to find parameters of the simulator's Intel cores,
# measurements on a guest those of Redwood Cove, and half of the blocks measured on one those of
# Zen 4 and of Golden Cove (the other half is what counts here).
FITTED = {"pipeline": {"sandybridge", "ivybridge", "haswell", "skylake", "redwoodcove"}}


BHIVE_ORIGIN = "BHive's measurements (Chen et al., IISWC 2019; baselines.csv)"
UICA_ORIGIN = "cycles of uiCA, commit 6ebeeab ({})"
LITERATURE_ORIGIN = "Abel and Reineke, uiCA (ICS 2022), table 3 as in uiCA-eval, commit 531be9a"
THREADS_ORIGIN = "calls that threads measured (validation/threads.md)"
SPEEDUP_BYTES = (4096, 131072)  # sizes at which a call is mostly its loop, and in the caches

# MAPE in percent and tau of uiCA against its authors' measurements of BHive's suite; the table does
# not count its blocks.
UICA = {
    ("sandybridge", "unrolled"): (1.91, 0.961), ("sandybridge", "loops"): (0.98, 0.965),
    ("ivybridge", "unrolled"): (1.50, None), ("ivybridge", "loops"): (1.11, None),
    ("haswell", "unrolled"): (0.76, 0.985), ("haswell", "loops"): (0.59, 0.984),
    ("skylake", "unrolled"): (0.45, 0.980), ("skylake", "loops"): (0.38, 0.990),
}  # fmt: skip

Row = dict[str, object]


def row(
    core: str,
    model: str,
    what: str,
    against: str,
    accuracy: Accuracy,
    origin: str,
    *,
    held_out: bool | None = None,
) -> Row:
    """Return one row of the table; without held_out, a model is held out of cores not in FITTED."""
    is_held_out = core not in FITTED.get(model, ()) if held_out is None else held_out
    cells = [core, model, what, against, accuracy.count, accuracy.mape, accuracy.tau]
    return dict(zip(COLUMNS, [*cells, "yes" if is_held_out else "no", origin], strict=True))


def bhive() -> Iterator[Row]:
    """Hold all models to BHive's own figures; uiCA's stand in the table beside them."""
    rows = pd.read_csv(DATA / "baselines.csv")
    for arch, core in host_blocks.BHIVE.items():
        group = rows[rows["arch"] == arch].reset_index(drop=True)
        predictions = predicted(list(group["hex"]), core, "unrolled")
        for model in MODEL_IDS:
            cycles = group["uica"] if model == "uica" else predictions[model]
            accuracy = Accuracy.of(cycles, group["measured"])
            yield row(core, model, "unrolled", MEASUREMENT, accuracy, BHIVE_ORIGIN)


def uica(name: str) -> Iterator[Row]:
    """Hold the other models to uiCA's cycles, on the cores of which there is no measurement."""
    rows = pd.read_csv(DATA / name)
    rows = rows[~rows["microarch"].isin(host_blocks.BHIVE.values())]
    rows = rows.assign(notion=rows.get("notion", "loop"))
    origin = UICA_ORIGIN.format(name)
    for (core, notion), group in rows.groupby(["microarch", "notion"], sort=False):
        group = group.reset_index(drop=True)
        predictions = predicted(list(group["hex"]), str(core), str(notion), list(group["offset"]))
        for model in MODEL_IDS:
            if model != "uica":
                accuracy = Accuracy.of(predictions[model], group["cycles"])
                yield row(str(core), model, WHAT[str(notion)], "uica", accuracy, origin)


def host(path: Path) -> Iterator[Row]:
    """Hold all models to blocks that were measured on a host of a core: the half kept aside."""
    core = path.stem
    public = pd.read_csv(DATA / "bhive_public.csv")["hex"].drop_duplicates()
    aside = [name for name, (_, kept) in host_blocks.codes(public).items() if kept]
    rows = pd.read_csv(path)[host_kept.BLOCKS].dropna(subset="cycles")
    rows = host_kept.answered(rows[rows["sha256"].isin(aside)], core, public)
    for notion, group in rows.groupby("notion", sort=False):
        for model in MODEL_IDS:
            accuracy = Accuracy.of(group[model], group["cycles"])
            yield row(core, model, WHAT[str(notion)], MEASUREMENT, accuracy, host_origin(path))


def host_origin(path: Path) -> str:
    """Return where the figures of a host come from."""
    return f"BHive's blocks measured on a host (validation/hosts/{path.stem}.md)"


def kernels_loops(core: str) -> Iterator[Row]:
    """Hold all models to the kernels' own loops as they were measured on a host.

    Loops like them were known answers when the simulator's core was made: none is held out of it.
    """
    rows = host_kept.loops(HOSTS, core)
    for model in MODEL_IDS:
        accuracy = Accuracy.of(rows[model], rows["cycles"])
        held_out = model != "pipeline"
        yield row(
            core, model, "loops", MEASUREMENT, accuracy, loops_origin(core), held_out=held_out
        )


def loops_origin(core: str) -> str:
    """Return where the loops of a host come from."""
    return f"the kernels' loops measured on a host (validation/hosts/{core}.md)"


def whole_calls(path: Path) -> Iterator[Row]:
    """Hold the simulator to whole calls that were measured on a host: all, and those of strings.

    In cycles of a call, all branches predicted. Calls like them set parameters of its core.
    """
    core = path.stem
    rows = host_calls.compare(pd.read_csv(path), core)
    strings = [
        assemble.moves_by_string(kernels.load(str(kernel)).variants[str(name)])
        for kernel, name in zip(rows["kernel"], rows["variant"], strict=True)
    ]
    for what, group in (("calls", rows), ("strings", rows[strings])):
        accuracy = Accuracy.of(group["predicted_cycles"], group["measured_cycles"])
        yield row(core, "pipeline", what, MEASUREMENT, accuracy, calls_origin(path), held_out=False)


def calls_origin(path: Path) -> str:
    """Return where the whole calls of a host come from."""
    return f"whole calls of the kernels' variants measured on a host (validation/calls/{path.name})"


def others_loops(core: str) -> Iterator[Row]:
    """Hold all models to whole loops of a core that others measured and that set nothing of it.

    Loops that repeat one instruction count as instructions.
    """
    rows = whole_loops.rows(core=core)
    rows = rows[rows["set"].eq("") | rows["model"].ne("pipeline")]
    what = rows["repeats"].eq("").map({True: "loops", False: "instructions"})
    for (kind, model), group in rows.groupby([what, "model"], sort=False):
        accuracy = Accuracy.of(group["cycles"], group["measured"])
        origin = others_loops_origin(core)
        yield row(core, str(model), str(kind), MEASUREMENT, accuracy, origin, held_out=True)


def others_loops_origin(core: str) -> str:
    """Return where the whole loops of others come from."""
    return f"whole loops that others measured (validation/loops/{core}.toml)"


def instructions(source: checks.Source) -> Iterator[Row]:
    """Hold the models to single instructions that others measured."""
    with_code = [figure for figure in source.figures() if figure.code]
    for model in (Pipeline(), checks.BriefLlvmMca()):
        predictions = answers(with_code, source.core, source.isa, model)
        accuracy = Accuracy.of(predictions["cycles"], predictions["measured"])
        held_out = source.made == "no" or model.id != "pipeline"
        origin = instructions_origin(source)
        yield row(
            source.core, model.id, "instructions", MEASUREMENT, accuracy, origin, held_out=held_out
        )


def instructions_origin(source: checks.Source) -> str:
    """Return where figures of instructions come from."""
    return f"{checks.public_place(source.public)}: {source.name}, where the code is known"


def published_calls() -> Iterator[Row]:
    """Hold all models to the speed-ups that threads report of calls on a core itself.

    The simulator's are of calls, with the unknowns that the other routine's figures show; those of
    other models are of loops, and count at sizes at which a call is mostly its loop. Figures that
    set a parameter, that were taken back or that another core stands for do not count.
    """
    calls = threads.module_rows()
    accuracy = Accuracy.of(
        (1 + call.predicted / 100 for call in calls),
        (1 + call.published / 100 for call in calls),
    )
    yield row(
        threads.MODULE_CORE,
        SIMULATOR,
        "speed-ups",
        MEASUREMENT,
        accuracy,
        THREADS_ORIGIN,
        held_out=True,
    )
    rows = lw.published("all")
    rows = rows[rows["model"].ne(SIMULATOR)]
    rows = rows[rows["scope"].eq("call") & rows["fitted"].eq("") & rows["retracted"].eq("")]
    rows = rows[rows["microarch"].eq(rows["predicted_on"])]
    rows = rows[rows["size_bytes"].between(*SPEEDUP_BYTES).fillna(False)]
    for (core, model), group in rows.groupby(["predicted_on", "model"], sort=False):
        accuracy = Accuracy.of(1 + group["predicted"] / 100, 1 + group["percent"] / 100)
        yield row(
            str(core), str(model), "speed-ups", MEASUREMENT, accuracy, THREADS_ORIGIN, held_out=True
        )


def literature() -> Iterator[Row]:
    """Yield the errors that uiCA's authors published of it."""
    for (core, what), (mape, tau) in UICA.items():
        accuracy = Accuracy(0, mape, float("nan") if tau is None else tau)
        yield row(core, "uica", what, MEASUREMENT, accuracy, LITERATURE_ORIGIN) | {"rows": ""}


def sources() -> Iterator[tuple[str, str, Iterator[Row]]]:
    """Yield each source: its origin, the data that it needs ("" for none), and its rows."""
    yield LITERATURE_ORIGIN, "", literature()
    yield THREADS_ORIGIN, "", published_calls()
    yield BHIVE_ORIGIN, "baselines.csv", bhive()
    for name in ("uica_loops_public.csv", "uica_blocks_public.csv"):
        yield UICA_ORIGIN.format(name), name, uica(name)
    for source in checks.SOURCES:
        needed = f"measured/{source.file}.csv.gz"
        yield instructions_origin(source), needed, instructions(source)
    for core in whole_loops.cores():
        yield others_loops_origin(core), "", others_loops(core)
    for core in host_kept.cores(HOSTS):
        yield loops_origin(core), "", kernels_loops(core)
    for path in sorted(HOSTS.glob("*.csv")):
        yield host_origin(path), "bhive_public.csv", host(path)
    for path in sorted(host_calls.FOLDER.glob("*.csv")):
        yield calls_origin(path), "", whole_calls(path)


def main(wanted: str = "") -> None:
    """Write the table, with new rows for origins that contain wanted and whose data is here."""
    kept = pd.read_csv(TABLE, keep_default_na=False) if TABLE.is_file() else pd.DataFrame()
    parts = []
    for origin, needed, rows in sources():
        if wanted not in origin:
            continue
        if needed and not (DATA / needed).is_file():
            print(f"kept as it is, {needed} is not in {DATA}; set LOOPWRIGHT_SHARED: {origin}")
            continue
        print(f"{origin} ...", flush=True)
        parts.append(pd.DataFrame(list(rows), columns=COLUMNS).dropna(subset="mape_percent"))
        kept = kept[kept["origin"] != origin] if len(kept) else kept
    table = pd.concat([part for part in (kept, *parts) if len(part)], ignore_index=True)
    table = table.sort_values(["core", "model", "what", "against", "origin"], kind="stable")
    numbers = {"mape_percent": "{:.1f}", "tau": "{:.3f}"}
    for column, shape in numbers.items():
        values = pd.to_numeric(table[column])
        table[column] = [shape.format(v) if v == v else "" for v in values]
    table[COLUMNS].to_csv(TABLE, index=False)
    print(f"wrote {TABLE.relative_to(ROOT)}: {len(table)} rows")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except InputError as error:
        raise SystemExit(f"validation/record.py: {error}") from None
