"""The verbs list and doctor: what there is."""

import sys

import click
import pandas as pd

from loopwright import kernels, microarchs
from loopwright.cli import options, output
from loopwright.doctor import doctor as examine
from loopwright.doctor import model_state
from loopwright.errors import unknown
from loopwright.predict import MODELS
from loopwright.tune import restore as put_back
from loopwright.tune import run as run_tuned
from loopwright.tune import tune as show_settings

KINDS = ("kernels", "variants", "microarchs", "models")


@click.command("list")
@click.argument(
    "kind",
    required=False,
    default="kernels",
    metavar="[kernels|variants|microarchs|models]",
    shell_complete=options.complete_from(KINDS),
)
@output.formats
def list_(kind: str, as_json: bool, as_csv: bool) -> None:
    """List kernels, variants, microarchitectures or models.

    \b
    loopwright list
    loopwright list variants --csv
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    rows = {
        "kernels": _kernels,
        "variants": _variants,
        "microarchs": _microarchs,
        "models": _models,
    }[kind]()
    output.emit(rows, as_json=as_json, as_csv=as_csv)


def _kernels() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "kernel": k.id,
                "routines": ", ".join(k.routines),
                "variants": len(k.variants),
                "summary": k.summary,
            }
            for k in kernels.every()
        ]
    )


def _variants() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "variant": v.id,
                "routine": v.routine,
                "needs": " ".join(v.needs),
                "merged": v.merged,
                "summary": v.summary,
            }
            for k in kernels.every()
            for v in k.variants.values()
        ]
    )


def _microarchs() -> pd.DataFrame:
    cores = [microarchs.load(i) for i in microarchs.ids()]
    return pd.DataFrame(
        [
            {
                "microarch": c.id,
                "name": c.name,
                "isa": c.isa,
                "role": c.role,
                "models": ", ".join(sorted(c.called)),
                "features": " ".join(sorted(c.features)),
            }
            for c in cores
        ]
    )


def _models() -> pd.DataFrame:
    return pd.DataFrame([{"model": m.id, **model_state(m)} for m in MODELS])


@click.command()
@output.formats
def doctor(as_json: bool, as_csv: bool) -> None:
    """Say what is here: models, compilers, counters, CPU; what is missing and how to get it.

    \b
    loopwright doctor
    """
    output.emit(examine(), as_json=as_json, as_csv=as_csv)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--restore", is_flag=True, help="Put back what a killed run left changed.")
@click.option("--keep", metavar="NAME[,NAME]", default="", help="Settings to leave alone, as smt.")
@click.argument("command", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@output.formats
def tune(
    restore: bool, keep: str, command: tuple[str, ...], as_json: bool, as_csv: bool
) -> int | None:
    """Set the machine up for measuring, run COMMAND, and put everything back.

    Without COMMAND it shows what would be changed. It needs root; COMMAND runs as the user who
    called sudo. The exit code is COMMAND's.

    \b
    loopwright tune
    sudo .venv/bin/loopwright tune --keep smt -- .venv/bin/loopwright measure x86_64/copy_user
    sudo .venv/bin/loopwright tune -- ./run
    """
    if restore:
        for line in put_back():
            print(line)
        return 0
    if not command:
        output.emit(show_settings(), as_json=as_json, as_csv=as_csv, hide=("why",))
        return 0
    code, told = run_tuned(command, [name for name in keep.split(",") if name])
    for line in told:
        print(f"loopwright: {line}", file=sys.stderr)
    return code


VERBS = (list_, doctor, tune)
