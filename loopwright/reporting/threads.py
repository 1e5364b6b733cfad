"""Questions of the kernel's mailing lists, answered for one pair of variants on one core."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopwright import microarchs, paths
from loopwright.histogram import Histogram
from loopwright.judging import break_even, published, study
from loopwright.judging.model_accuracy import WORDS
from loopwright.judging.published import PublishedFigure
from loopwright.judging.recommend import conclude
from loopwright.judging.study import Study
from loopwright.judging.verdicts import Status, Verdict
from loopwright.reporting.percents import span

_WORDS = {
    Status.FASTER: "yes",
    Status.SLOWER: "no",
    Status.ALIKE: "no",
    Status.OPEN: "open",
    Status.CONTESTED: "contested",
}


@dataclass(frozen=True)
class Thread:
    """A question of a thread: is variant faster than against on a core?"""

    id: str
    question: str
    kernel: str
    variant: str
    against: str
    microarch: str

    @property
    def command(self) -> str:
        """Return the command that gives the answer at length."""
        return (
            f"loopwright recommend {self.kernel} --microarch {self.microarch} "
            f"--against {self.against}"
        )


@dataclass(frozen=True)
class ThreadAnswer:
    """A question with its answer: yes, no, open or contested.

    verdict is what the evidence says of the pair (None: no evidence), decided_by the parameter of
    the core whose unmeasured value decides ("" where none does), figures what was published of the
    pair.
    """

    thread: Thread
    verdict: Verdict | None
    decided_by: str
    figures: tuple[PublishedFigure, ...]

    @property
    def word(self) -> str:
        """Return the answer in a word."""
        if self.verdict is None:
            return "unknown"
        return _WORDS[self.verdict.status]

    @property
    def predicted(self) -> str:
        """Return the speed against the other variant, with its evidence."""
        if self.verdict is None:
            return "no evidence"
        ends = [100 * (ratio - 1) for ratio in (self.verdict.speed.low, self.verdict.speed.high)]
        return f"{span(ends)} {WORDS[self.verdict.rank]} on {self.verdict.core}"

    @property
    def published(self) -> str:
        """Return the published speed-ups, a range for each machine and scope."""
        return _by_machine(self.figures)

    @property
    def published_there(self) -> str:
        """Return the published speed-ups of the machines that the core stands for, or of all."""
        there = [f for f in self.figures if f.predicted_on == self.thread.microarch]
        return _by_machine(there or self.figures)


def threads() -> list[Thread]:
    """Return the questions of kernels/threads.toml."""
    text = (paths.HOME / "kernels" / "threads.toml").read_text(encoding="utf-8")
    return [Thread(id=key, **table) for key, table in tomllib.loads(text).items()]


def answers(found: Study, sizes: Histogram | None) -> tuple[ThreadAnswer, ...]:
    """Answer the questions about a kernel by the evidence that was gathered on it."""
    asked = [thread for thread in threads() if thread.kernel == found.kernel.id]
    return tuple(_answer(thread, found, sizes) for thread in asked)


def _answer(thread: Thread, found: Study, sizes: Histogram | None) -> ThreadAnswer:
    kernel = study.compared(found.kernel, thread.against)
    asked = replace(
        found,
        kernel=kernel,
        cores=(microarchs.load(thread.microarch),),
        predictions=found.predictions[found.predictions["variant"].isin(kernel.variants)],
        measurements=found.measurements[found.measurements["variant"].isin(kernel.variants)]
        if len(found.measurements)
        else found.measurements,
    )
    judgement = conclude(asked, sizes)
    [answer] = judgement.answers.values()
    verdicts = [case.verdicts for case in answer.cases if case.variant.name == thread.variant]
    verdict = verdicts[0].get(thread.microarch) if verdicts else None
    simulated = verdict.simulated if verdict is not None else None
    turning = (
        (one.unknown.name for one in break_even.break_evens(simulated) if one.turns)
        if simulated
        else ()
    )
    return ThreadAnswer(
        thread,
        verdict,
        next(iter(turning), ""),
        tuple(
            figure
            for figure in published.table()
            if (figure.kernel, figure.variant, figure.baseline)
            == (thread.kernel, thread.variant, thread.against)
            and figure.percent is not None
            and not figure.retracted
        ),
    )


def _by_machine(figures: Sequence[PublishedFigure]) -> str:
    groups: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        assert figure.percent is not None
        groups.setdefault((figure.scope, figure.machine), []).append(figure.percent)
    return "; ".join(
        f"{span(every)} ({scope}, {machine})" for (scope, machine), every in groups.items()
    )
