"""The verbs list, doctor, core and completion."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from loopwright.cli import options, output
from loopwright.errors import LISTED, unknown
from loopwright.rows import Rows


@click.command("list")
@click.argument(
    "kind",
    required=False,
    default="kernels",
    metavar=f"[{'|'.join(LISTED)}]",
    shell_complete=options.completer(lambda _: LISTED),
)
@output.formats
def list_(kind: str) -> None:
    """List kernels, variants, microarchs, models or parameters.

    \b
    loopwright list
    loopwright list variants --csv
    loopwright list parameters
    """
    if kind not in LISTED:
        raise unknown("kind", kind, LISTED)
    functions = dict(
        zip(LISTED, (_kernels, _variants, _microarchs, _models, _parameters), strict=True)
    )
    output.emit(functions[kind](), hide=("features",), spare=("merged",))


def _kernels() -> Rows:
    from loopwright import kernels

    return Rows.of(
        {
            "kernel": k.id,
            "routines": ", ".join(k.routines),
            "variants": len(k.variants),
            "summary": k.summary,
        }
        for k in kernels.every()
    )


def _variants() -> Rows:
    from loopwright import kernels

    return Rows.of(
        {
            "variant": v.id,
            "routine": v.routine,
            "needs": " ".join((*v.needs, *(f"{name}:off" for name in v.switched_off))),
            "merged": v.merged,
            "summary": v.summary,
        }
        for k in kernels.every()
        for v in k.variants.values()
    )


def _microarchs() -> Rows:
    from loopwright import microarchs
    from loopwright.predicting.models import MODELS

    cores = [microarchs.load(i) for i in microarchs.ids()]
    return Rows.of(
        {
            "microarch": c.id,
            "name": c.name,
            "isa": c.isa,
            "role": c.role,
            "unvalidated": "yes" if c.unvalidated else "",
            "models": ", ".join(m.id for m in MODELS if not m.lacks(c)),
            "features": " ".join(sorted(c.features)),
        }
        for c in cores
    )


def _models() -> Rows:
    from loopwright.inventory import model_state
    from loopwright.predicting.models import MODELS

    return Rows.of({"model": m.id, **model_state(m)} for m in MODELS)


def _parameters() -> Rows:
    """Return the simulator's parameters, with the cores by value."""
    from loopwright import microarchs
    from loopwright.code.binding import parameters

    cores = [microarchs.load(i) for i in microarchs.ids()]
    rows = []
    for name in parameters():
        values: dict[str, list[str]] = {}
        for core in cores:
            if (value := core.value(name)) is not None:
                values.setdefault(str(value), []).append(core.id)
        texts = (f"{value} ({', '.join(core_ids)})" for value, core_ids in values.items())
        rows.append({"parameter": name, "values": "; ".join(texts)})
    return Rows.of(rows)


@click.command()
@output.formats
def doctor() -> None:
    """List models, compilers and counters, and how to get them.

    \b
    loopwright doctor
    """
    from loopwright.inventory import doctor_rows

    rows = doctor_rows()
    if output.row_format() or not output.on_terminal():
        output.emit(rows)
        return
    output.draw(rows.only(c for c in rows.columns if c != "fix"))
    for row in rows.records():
        if row["fix"]:
            print()
            output.say(f"{row['part']}, {row['state']}: {row['fix']}")


@click.command()
@click.argument("microarch", metavar="ID", shell_complete=options.complete_microarchs)
@click.option(
    "--beside",
    metavar="ID",
    shell_complete=options.complete_microarchs,
    help="Show another core in a second column.",
)
@options.path(
    "--html",
    "FILE.html",
    "Also write a self-contained page: ports, instructions, code offsets that hurt, cycles "
    "of calls by size, and every parameter with its source.",
)
@output.formats
def core(microarch: str, beside: str | None, html: Path | None) -> None:
    """Show parameters, ports and common instructions of a core.

    \b
    loopwright core zen2
    loopwright core zen2 --beside zen4 --html zen2.html
    LOOPWRIGHT_MODELS=cores loopwright core host --html host.html
    """
    from loopwright import microarchs
    from loopwright.machine import hosts
    from loopwright.predicting import core_figures
    from loopwright.reporting import core_sheet

    if microarch == hosts.HOST and microarch not in microarchs.ids():  # as calibrate names a core
        [host_core] = hosts.cores(microarch)
        microarch = host_core.id
    if html is not None:
        from loopwright.reporting import core_page
        from loopwright.reporting.html import check

        check(html)
    rows = core_sheet.core_rows(microarch, beside)
    if html is not None:
        output.write_page(core_page.render(rows.frame(), microarch, beside), html)
    output.emit(rows, hide=("source",))
    if output.row_format():
        return
    for core_id in filter(None, (microarch, beside)):
        vendor_names = core_figures.vendor_port_names(microarchs.load(core_id))
        letters = [
            f"{letter} {name}" for letter, name in vendor_names.items() if name != f"p{letter}"
        ]
        if letters:
            output.say(f"ports of {core_id} by their letters: {', '.join(letters)}")
    output.say("where each value comes from: column source of --csv")


# Commands that install the completion, by shell.
_INSTALL = {
    "bash": "mkdir -p ~/.local/share/bash-completion/completions && loopwright completion bash "
    "> ~/.local/share/bash-completion/completions/loopwright",
    "zsh": "mkdir -p ~/.zfunc && loopwright completion zsh > ~/.zfunc/_loopwright "
    "# with fpath+=~/.zfunc before compinit in ~/.zshrc",
    "fish": "mkdir -p ~/.config/fish/completions && loopwright completion fish "
    "> ~/.config/fish/completions/loopwright.fish",
}


@click.command()
@click.argument(
    "shell", metavar="bash|zsh|fish", shell_complete=options.completer(lambda _: _INSTALL)
)
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Its first lines say how to install it.

    \b
    loopwright completion bash
    eval "$(loopwright completion bash)"     for this shell alone
    """
    shell_class = get_completion_class(shell) if shell in _INSTALL else None
    if shell_class is None:
        raise unknown("shell", shell, _INSTALL)
    script = shell_class(context.find_root().command, {}, "loopwright", "_LOOPWRIGHT_COMPLETE")
    # zsh wants its #compdef first.
    lines = (script.source_template % script.source_vars()).strip().splitlines()
    note = ["# To install it:", f"# {_INSTALL[shell]}"]
    first = lines[:1] if lines[0].startswith("#compdef") else []
    print("\n".join([*first, *note, *lines[len(first) :]]))
