"""A core as a whole: all experiments, what only they together tell, and what of it is trusted."""

from collections.abc import Sequence

from loopwright.calibrating import (
    assignment,
    decoders,
    meeting,
    merged,
    microcode,
    mispredict,
    refine,
    repeated,
    serial,
    trust,
)
from loopwright.calibrating.forms.form import Form
from loopwright.calibrating.front_ends import choose as front_ends
from loopwright.calibrating.laboratory import Laboratory
from loopwright.calibrating.learn import Learned, Step, learn


def core(laboratory: Laboratory, forms: Sequence[Form], step: Step) -> Learned:
    """Return what was learned of a machine by these forms; step hears what is being learned."""
    learned = learn(laboratory, forms, step)
    learned = meeting.choose(laboratory, learned, forms)
    learned = merged.uops(learned, forms)
    learned = assignment.choose(laboratory, learned, forms)
    step("front end that explains what was timed")
    learned = front_ends.choose(laboratory.machine, learned)
    step("mixtures")
    learned = refine.latencies(laboratory, learned, forms)
    learned = microcode.choose(laboratory, learned, forms)
    learned = decoders.choose(laboratory, learned, forms)
    learned = trust.hold(laboratory, learned, forms)
    learned = serial.choose(laboratory, learned, forms)
    learned = mispredict.choose(laboratory, learned)
    return repeated.choose(laboratory, learned)
