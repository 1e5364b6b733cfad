"""The verbs check, compare, recommend and self-test."""

import click

import loopwright as lw
from loopwright.cli import options, output
from loopwright.errors import InputError


@click.command()
@options.spec("KERNEL[/VARIANT]")
@output.formats
def check(spec: str, as_json: bool, as_csv: bool) -> int:
    """Run variants against their contract: results, faults, bounds.

    Exit code 1 where a variant breaks it, or where calls reach not all of it and kernel.toml gives
    no reason ("not proven").

    \b
    loopwright check x86_64/copy_user
    loopwright check arm64/copy_user/to_user_batched --json
    """
    from loopwright import kernels
    from loopwright.checking.check import holds, run

    _, variants = kernels.select(spec)
    with output.progress("checking") as step:
        done = iter(range(1, len(variants) + 1))
        rows = run(variants, lambda _: step(next(done), len(variants)))
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=("kernel",))
    return 0 if holds(rows, variants) else 1


@click.command()
@options.spec("[KERNEL|-]", required=False)
@options.loops
@options.microarch("Of --asm, --obj and --hex: cores to predict for, as predict has them.")
@click.option("--offset", metavar="N|all", help="Of --asm, --obj and --hex: code offset mod 64.")
@options.no_measure
@options.stored
@output.formats
def compare(
    spec: str | None,
    hex: str | None,
    asm: str | None,
    obj: str | None,
    microarch: str | None,
    offset: str | None,
    no_measure: bool,
    stored: bool,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Show predictions beside this machine's measurement.

    Of a kernel's variants by every model, or of loops of your own by the simulator.

    Exit code 1 where nothing has a number.

    \b
    loopwright compare x86_64/clear_user
    loopwright compare x86_64/copy_user --no-measure --csv
    loopwright compare --asm loop.s --microarch host,zen2
    """
    from loopwright.cli import measure
    from loopwright.reporting.text import by_core

    if any(x is not None for x in (hex, asm, obj)):
        if spec is not None or no_measure or stored:
            raise InputError("--asm, --obj and --hex are without KERNEL, --no-measure and --stored")
        at = int(offset) if offset is not None and offset.isdecimal() else offset
        with output.progress("measuring") as step:
            found = lw.compare_loops(
                hex=hex, asm=asm, obj=obj, microarch=microarch, offset=at, progress=step
            )
        if as_json or as_csv or not output.on_terminal():
            output.emit(found, as_json=as_json, as_csv=as_csv)
        else:
            measure.show_compared(found)
        known = found[["predicted", "measured"]].notna().any(axis=None)
        return output.verdict(bool(known), "no source")
    if spec is None:
        raise InputError("give KERNEL, --asm FILE, --obj FILE[:SYMBOL] or --hex HEX")
    if microarch is not None or offset is not None:
        raise InputError("--microarch and --offset are for --asm, --obj and --hex")
    with output.progress("measuring") as step:
        rows = lw.compare(spec, quick=no_measure, stored=stored, progress=step)
    if as_json or as_csv:
        output.emit(rows, as_json=as_json, as_csv=as_csv)
    else:
        print(by_core(rows))
    return output.verdict(bool(rows["cycles"].notna().any()), "no source")


@click.command()
@options.spec("KERNEL", name="kernel")
@options.sizes
@options.microarch("Cores to judge for; the targets of the kernel's ISA where left out.")
@options.settings
@click.option(
    "--against", metavar="VARIANT", help="What to compare with; the baseline if not said."
)
@click.option(
    "--align",
    metavar="D:S=WEIGHT[,...]",
    help="Weights of alignments: bytes of destination and source behind a page start. Left out: "
    "0:0=6,8:0=3,1:0=1, an assumption.",
)
@options.no_measure
@options.stored
@output.formats
def recommend(
    kernel: str,
    sizes: str | None,
    microarch: str | None,
    settings: tuple[str, ...],
    against: str | None,
    align: str | None,
    no_measure: bool,
    stored: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Name the variant to ship, or say why there is none.

    A winner is slower on no core that is asked for or was measured, and at no size.

    \b
    loopwright recommend arm64/copy_user
    loopwright recommend x86_64/copy_user --sizes histogram.txt:memcpy
    loopwright recommend x86_64/copy_user --against movsq --no-measure
    loopwright recommend x86_64/put_event --microarch zen2 --set serial.stac_clac=20
    """
    from loopwright.judging import call_costs
    from loopwright.judging.recommend import concluded
    from loopwright.reporting import text

    with output.progress("simulating" if no_measure else "measuring") as step:
        found = concluded(
            kernel,
            sizes=sizes,
            quick=no_measure,
            microarch=microarch,
            parameters=options.parameters(settings),
            against=against,
            alignments=options.weights(align) if align else call_costs.ALIGNMENTS,
            stored=stored,
            progress=step,
        )
    if as_json or as_csv:
        output.emit(found.rows, as_json=as_json, as_csv=as_csv)
        return
    # The answer in a sentence begins the reason of many; once is enough on a screen.
    both = zip(found.rows["said"], found.rows["reason"], strict=True)
    shown = found.rows.assign(reason=[why.removeprefix(said).lstrip("; ") for said, why in both])
    output.describe(shown)
    if len(found.bands):
        print("", *text.band_lines(found.bands), sep="\n")


@click.command("self-test")
@output.formats
def self_test(as_json: bool, as_csv: bool) -> int:
    """Measure loops of known cost, to judge measurements here.

    Cycles of three processes stand against documented ones.

    The first five are measured before every run, which is refused where a chain is off, or fewer
    than two streams hold. Exit code 1 where one is out of its tolerance.

    \b
    loopwright self-test
    """
    from loopwright.measuring.rounds import self_test as run

    with output.progress("measuring") as step:
        rows = run(progress=step)
    hidden = ("machine", "processes", "reason")
    output.emit(rows, as_json=as_json, as_csv=as_csv, hide=hidden)
    for row in rows[~rows["held"]].to_dict("records") if not (as_json or as_csv) else ():
        output.say(f"{row['loop']} does not hold: {row['reason']}")
    return 0 if bool(rows["held"].all()) else 1


VERBS = (check, compare, recommend, self_test)
