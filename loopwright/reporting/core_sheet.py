"""Core sheet: parameters, port usage, throughput and latency of a core as rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopwright import files, microarchs, paths
from loopwright.calibrating import core_files, strings
from loopwright.calibrating.core_model import Repeated
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.microbench import kits, latency, throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.oracle import Simulated
from loopwright.predicting import core_figures, held_out
from loopwright.predicting.core_figures import forms
from loopwright.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("part", "figure", "unit", "value", "beside", "source", "confidence")
CORE, PARAMETER, PORTS, LATENCY, THROUGHPUT, UOPS, STRINGS, HELD_OUT = (
    "core", "parameter", "ports", "latency", "throughput", "uops", "strings", "held out",
)  # fmt: skip

_SIMULATED = "instructions.csv, simulated"
REFERENCES = {
    "x86_64": (
        "add r64,r64", "adc r64,r64", "imul r64,r64", "mul r64", "div r64", "shl r64,i8",
        "shl r64,cl", "shlx r64,r64,r64", "mov r64,r64", "movzx r64,r8", "cmovb r64,r64",
        "xchg r64,r64", "bswap r64", "popcnt r64,r64", "tzcnt r64,r64", "bsf r64,r64",
        "crc32 r64,r64", "adcx r64,r64", "mulx r64,r64,r64", "movq x,r64", "movq r64,x",
        "pmovmskb r32,x", "paddd x,x", "pmulld x,x", "pshufd x,x,i8", "pshufb x,x", "addps x,x",
        "mulps x,x", "divps x,x", "sqrtps x,x", "cvtsi2sd x,r64", "vpaddd y,y,y", "vaddps y,y,y",
        "vfmadd231ps y,y,y", "vperm2f128 y,y,y,i8", "aesenc x,x", "pclmulqdq x,x,i8",
    ),
    "arm64": (
        "add x,x,x", "add x,x,x,shift", "adds x,x,x", "adc x,x,x", "and x,x,x", "bfm x,x,i,i",
        "ubfm x,x,i,i", "lslv x,x,x", "madd x,x,x,x", "umulh x,x,x", "sdiv x,x,x", "csel x,x,x",
        "clz x,x", "rbit x,x", "extr x,x,x,i", "crc32x x,x,x", "add 4s", "mul 4s", "ext 16b,i",
        "zip1 4s", "tbl 16b,1", "addv 16b", "cnt 16b", "fadd 4s", "fmul 4s", "fmla 4s", "fdiv 4s",
        "fsqrt 4s", "fadd d", "fcvt d,s", "dup v,r", "umov r,e", "aese", "pmull 1d",
    ),
}  # fmt: skip
"""Instructions that everybody knows, by ISA."""


@dataclass(frozen=True)
class _Figure:
    unit: str
    value: object
    source: str = ""
    confidence: str = ""


def core(microarch: str, *, beside: str | None = None) -> "pd.DataFrame":
    """Return the figures of a core, and those of another one beside it.

    Rows have part ("core" where no measurement validates it, "parameter", "ports" by kind of uop,
    "latency" and "throughput" in cycles and "uops" by port of well-known instructions, "held out"
    for the errors of a calibrated core on loops that it did not learn from, "strings" for cycles of
    repeated string instructions by bytes and offsets), figure, unit, value, beside (the other
    core's value), source and confidence. Rows of strings are present where one of the cores was
    calibrated; those of the other core are simulated. Latencies and throughputs are simulated. A
    latency is one number, or the least and the most over operands; a throughput is "at most" where
    its kernel has other instructions between instances. InputError if a core is unknown or has
    no figures in the simulator, and where the two have different instruction sets.
    """
    return core_rows(microarch, beside).frame()


def core_rows(microarch: str, beside: str | None = None) -> Rows:
    """Return the rows of `core`."""
    mine = microarchs.load(microarch)
    other = microarchs.load(beside) if beside is not None else None
    if other and other.isa != mine.isa:
        raise InputError(f"{other.id} is {other.isa} and {mine.id} {mine.isa}; give one like it")
    cores = [mine, other] if other else [mine]
    figures = [dict(_figures(each)) for each in cores]
    if any(map(_measured_curves, cores)):
        for each, figures_of_core in zip(cores, figures, strict=True):
            figures_of_core.update(_strings(each))
    own_figures, other_figures = figures[0], figures[1] if other else {}
    rows = []
    for key, figure in (own_figures | other_figures).items():
        other_figure = other_figures.get(key)
        own = own_figures.get(key, _Figure(figure.unit, None))
        other_value = other_figure.value if other_figure else None
        rows.append((*key, own.unit, own.value, other_value, own.source, own.confidence))
    return Rows(COLUMNS, rows)


def left_out(microarch: str) -> list[tuple[str, str]]:
    """Return the forms without figures in a calibrated core, with reasons; none for other cores."""
    file = paths.models_root() / microarch / "left-out.csv"
    if not file.is_file():
        return []
    return [(row["form"], row["why"]) for row in files.csv_rows(file)]


def _figures(core: Microarch) -> Iterator[tuple[tuple[str, str], _Figure]]:
    if core.unvalidated:
        yield (CORE, "unvalidated"), _Figure("", core.unvalidated)
    for name, entry in core.entries():
        if "value" in entry:
            source, sure = (str(entry.get(key, "")) for key in ("source", "confidence"))
            yield (PARAMETER, name), _Figure("", _shown(entry["value"]), source, sure)
    for held in held_out.judged(held_out.read(paths.models_root() / core.id)):
        yield ((HELD_OUT, held.kind), _Figure("%", f"{100 * held.error:.1f}", str(held)))
    for use in core_figures.port_uses(core):
        yield (PORTS, use.kind), _Figure("ports", use.ports, "core.toml, instructions.csv")
    table: Mapping[str, Mapping[str, str]] = forms(core.id)
    laboratory = Laboratory(Simulated(core.id, noise=0.0))
    well_known_forms = well_known(core)
    rates = throughput.measure(laboratory, well_known_forms, "slope")
    latencies = latency.measure(laboratory, well_known_forms, throughput.cycles(rates))
    for form in well_known_forms:
        rate = rates[form.name]
        if not rate.refused:
            if cycles := _of_results(latencies[form.name], form):
                ends = dict.fromkeys(f"{end:.3g}" for end in (min(cycles), max(cycles)))
                yield (LATENCY, form.name), _Figure("cycles", " to ".join(ends), _SIMULATED)
            # What makes instances independent may be in a figure that is not clean.
            text = ("" if rate.clean else "at most ") + f"{rate.cycles:.2f}"
            yield (THROUGHPUT, form.name), _Figure("cycles", text, _SIMULATED)
        if row := table.get(form.name):
            yield (UOPS, form.name), _Figure("ports", row["ports"] or "none", row.get("source", ""))


def well_known(core: Microarch) -> Sequence[Form]:
    """Return the forms of well-known instructions that a core has."""
    by_name: Mapping[str, Form] = {f.name: f for f in kits.forms(core.isa, core.features)[0]}
    return [by_name[name] for name in REFERENCES[core.isa] if name in by_name]


def _of_results(latencies: Sequence[Latency], form: Form) -> list[float]:
    """Return the plainly measured latencies from operands to results, flags aside."""
    flags = {operand.label for operand in form.operands if operand.kind == "flags"}
    return [
        result.measured
        for result in latencies
        if result.plain and flags.isdisjoint((result.source, result.target))
    ]


def _strings(core: Microarch) -> dict[tuple[str, str], _Figure]:
    """Return the cycles of repeated string instructions by name, bytes and offsets."""
    measured = _measured_curves(core)
    source = "strings.csv, measured" if measured else "core.toml, simulated"
    return {
        (
            STRINGS,
            f"rep {case.name}, {case.size} bytes, offsets {case.source} and {case.destination}",
        ): _Figure("cycles", f"{cycles:.1f}", source)
        for case, cycles in (measured or _simulated_curves(core)).items()
    }


def _measured_curves(core: Microarch) -> dict[Repeated, float]:
    """Return the measured cycles of each case; none for a core that was not calibrated."""
    file = paths.models_root() / core.id / core_files.STRINGS
    if not file.is_file():
        return {}
    return {
        Repeated(
            row["instruction"].removeprefix("rep "),
            *(int(row[name]) for name in ("bytes", "source_offset", "destination_offset")),
        ): float(row["cycles"])
        for row in files.csv_rows(file)
        if row["cycles"]
    }


def _simulated_curves(core: Microarch) -> dict[Repeated, float]:
    """Return the simulated cycles of each case, as far as the core's parameters give any."""
    cases = list(strings.all_cases(kits.of(core.isa)))
    answers = strings.measure_strings(Laboratory(Simulated(core.id, noise=0)), cases)
    return {answer.case: answer.figure.cycles for answer in answers if answer.figure}


def _shown(value: object) -> object:
    if isinstance(value, list):
        return " ".join(
            ":".join(map(str, item)) if isinstance(item, list) else str(item) for item in value
        )
    return value
