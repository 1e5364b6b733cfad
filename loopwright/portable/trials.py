"""The trials of a calibration as jobs that a kit carries."""

from collections.abc import Sequence
from pathlib import Path

from loopwright.calibrating import rounds
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.machines import harnessed
from loopwright.calibrating.machines.replay import Replay
from loopwright.calibrating.ports import mapping
from loopwright.calibrating.verb import chosen
from loopwright.errors import InputError
from loopwright.harness import jobs
from loopwright.kernels import ISAS
from loopwright.machine.facts import FILES
from loopwright.measuring.blocks import block


def of_round(answers: Path | None, mnemonics: Sequence[str] | None) -> dict[str, tuple[str, int]]:
    """Return the jobs of a round for each ISA, and how many trials they are.

    Without answers it is a first round, for machines of both ISAs; else what the machine that they
    come from has not answered yet. InputError where nothing is left to ask it.
    """
    mapping.solver()

    def choose(forms: Sequence[Form]) -> Sequence[Form]:
        return chosen(forms, quick=False, mnemonics=mnemonics)

    if answers is None:
        return {isa: _jobs(isa, rounds.first(isa, choose)) for isa in ISAS}
    replay = Replay(answers)
    wanted = rounds.further(replay, choose)
    if not wanted:
        raise InputError(f"{answers}: {replay.name} has answered all that there is to ask")
    return {replay.isa: _jobs(replay.isa, wanted)}


def _jobs(isa: str, wanted: rounds.Round) -> tuple[str, int]:
    lines = [jobs.facts("facts", FILES)]
    for key, (what, trial) in wanted.items():
        name = f"{what}/{key}"
        lines.append(block.job(isa, name, harnessed.block(isa, name, trial), 0))
    return "".join(lines), len(wanted)
