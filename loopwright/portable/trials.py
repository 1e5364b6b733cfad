"""The trials of a calibration as jobs that a kit carries."""

from collections.abc import Sequence
from pathlib import Path

from loopwright.calibrating import dry_run, port_classes
from loopwright.calibrating.calibrate import chosen
from loopwright.errors import InputError
from loopwright.harness import jobs
from loopwright.kernels import ISAS
from loopwright.machine.facts import FILES
from loopwright.measuring import block
from loopwright.microbench import host
from loopwright.microbench.forms import Form
from loopwright.microbench.kept_answers import Replay


def of_round(answers: Path | None, mnemonics: Sequence[str] | None) -> dict[str, tuple[str, int]]:
    """Return the jobs of a round for each ISA, and how many trials they are.

    Without answers it is a first round, for machines of both ISAs; else what the machine that they
    come from has not answered yet. InputError where nothing is left to ask it.
    """
    port_classes.solver()

    def choose(forms: Sequence[Form]) -> Sequence[Form]:
        return chosen(forms, quick=False, mnemonics=mnemonics)

    if answers is None:
        return {isa: _jobs(isa, dry_run.first_round(isa, choose)) for isa in ISAS}
    replay = Replay(answers)
    wanted = dry_run.further_round(replay, choose)
    if not wanted:
        raise InputError(f"{answers}: {replay.name} has answered all that there is to ask")
    return {replay.isa: _jobs(replay.isa, wanted)}


def _jobs(isa: str, wanted: dry_run.Round) -> tuple[str, int]:
    lines = [jobs.facts("facts", FILES)]
    for key, (what, trial) in wanted.items():
        name = f"{what}/{key}"
        lines.append(block.job(isa, name, host.trial_block(isa, name, trial), 0))
    return "".join(lines), len(wanted)
