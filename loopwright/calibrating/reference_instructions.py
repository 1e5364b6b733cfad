"""Latency and throughput of instructions that everybody knows, as a core's tables have them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopwright.microarchs import Microarch
from loopwright.microbench import kits, latency, throughput
from loopwright.microbench.forms import Form
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.latency import Latency
from loopwright.microbench.simulated import Simulated

NAMES = {
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


@dataclass(frozen=True)
class Figures:
    """Throughput and latencies of an instruction in cycles, or why they are not known.

    latencies are the least and the most from one of its operands to its result, flags aside; None
    where none is plain. cycles is its throughput: how long until another one can start; no more
    than that where clean is false: what makes instances independent of each other is in it.
    """

    form: str
    latencies: tuple[float, float] | None
    cycles: float | None
    clean: bool = True
    why: str = ""


def figures(core: Microarch) -> Iterator[Figures]:
    """Yield figures of each instruction that the core has, simulated as calibrate measures them."""
    laboratory = Laboratory(Simulated(core.id, noise=0.0))
    forms = _known(core)
    rates = throughput.measure(laboratory, forms, "slope")
    latencies = latency.measure(laboratory, forms, throughput.cycles(rates))
    for form in forms:
        rate = rates[form.name]
        if rate.refused:
            yield Figures(form.name, None, None, why=rate.refused)
        else:
            known = _ends(latencies[form.name], form)
            yield Figures(form.name, known, rate.cycles, rate.clean)


def _known(core: Microarch) -> Sequence[Form]:
    by_name: Mapping[str, Form] = {f.name: f for f in kits.forms(core.isa, core.features)[0]}
    return [by_name[name] for name in NAMES[core.isa] if name in by_name]


def _ends(latencies: Sequence[Latency], form: Form) -> tuple[float, float] | None:
    flags = {operand.label for operand in form.operands if operand.kind == "flags"}
    plain = [
        one.measured
        for one in latencies
        if one.plain and flags.isdisjoint((one.source, one.target))
    ]
    return (min(plain), max(plain)) if plain else None
