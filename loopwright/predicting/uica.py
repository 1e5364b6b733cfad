"""uiCA: a model of Intel cores with their front end, run from the user's own checkout.

uiCA is AGPL-3.0 and not on PyPI: UICA_HOME names a checkout of andreas-abel/uiCA that has been
set up as its README says. It runs in workers, a process a processor (see uica_worker).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loopwright.code.instructions import Flow
from loopwright.errors import InputError
from loopwright.microarchs import Microarch
from loopwright.predicting.model import Answer, Block, Worker, unfit

_SECONDS = 60  # for one block
_SHARE = 8  # least blocks of a further worker, so that its start-up pays
_NOP = {"code": "90", "arch": "SNB", "offset": 0}
_CREWS: dict[tuple[Path, str], list[Worker]] = {}


class Uica:
    """uiCA's command line, with the code offset passed on."""

    id = "uica"
    short = "uica"
    corrects = ""

    def version(self) -> str:
        """Return the commit of the checkout; InputError if it does not run."""
        home = _home()
        _crew(home, 1)
        # The repository of the checkout itself, not one around it.
        command = ["git", f"--git-dir={home / '.git'}", "describe", "--always"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"uiCA {done.stdout.strip() or '(commit unknown)'}"

    def lacks(self, core: Microarch) -> str:
        return "" if "uica" in core.called else f"uiCA has no model of {core.id}"

    def predict(self, blocks: Sequence[Block], core: Microarch) -> list[Answer]:
        """Answer with uiCA's throughput: of a loop if the block ends in a branch."""
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        answers = {n: Answer.none(why) for n, b in enumerate(blocks) if (why := _unfit(b))}
        unanswered = [n for n in range(len(blocks)) if n not in answers]
        crew = _crew(_home(), len(unanswered) // _SHARE + 1)

        from concurrent.futures import ThreadPoolExecutor

        def share(first: int) -> list[tuple[int, Answer]]:
            numbers = unanswered[first :: len(crew)]
            return [(n, _ask(crew[first], blocks[n], core.called["uica"])) for n in numbers]

        with ThreadPoolExecutor(len(crew)) as pool:
            for answers_of_worker in pool.map(share, range(len(crew))):
                answers.update(answers_of_worker)
        return [answers[n] for n in range(len(blocks))]


def _unfit(block: Block) -> str:
    if why := unfit(block):
        return why
    branch = block.instructions[-1].flow in (Flow.JUMP, Flow.BRANCH)
    if branch and block.notion == "unrolled":
        return "uiCA takes a block that ends in a branch for a loop"
    return ""


def _home() -> Path:
    named = os.environ.get("UICA_HOME")
    if not named:
        raise InputError("uiCA is not set up: point UICA_HOME at a checkout of andreas-abel/uiCA")
    home = Path(named).expanduser().resolve()
    if not (home / "uiCA.py").is_file():
        raise InputError(f"UICA_HOME={named} holds no uiCA.py: point it at a checkout of uiCA")
    return home


def _pythons(home: Path) -> list[str]:
    """Return the interpreters that uiCA may have been set up for, the likeliest first."""
    own = (home / name / "bin" / "python" for name in ("venv", ".venv"))
    candidates = [*map(str, filter(Path.exists, own)), shutil.which("python3"), sys.executable]
    return list(dict.fromkeys(python for python in candidates if python))


def _crew(home: Path, size: int) -> list[Worker]:
    """Return up to size workers of a checkout; InputError if it does not run."""
    for python in _pythons(home):
        if crew := _CREWS.get((home, python)):
            break
        worker = _worker(home, python)
        reply = worker.ask(_NOP)
        if "missing" not in reply:
            if "error" in reply:
                raise InputError(f"uiCA does not run by {python} ({reply['error']}): see {home}")
            crew = _CREWS[home, python] = [worker]
            break
    else:
        first, *_ = _pythons(home)
        where = Path(first).parent
        raise InputError(
            f"uiCA lacks {reply['missing']}, which its setup.sh makes for one python3: "
            f"cd {home} && PATH={where}:$PATH ./setup.sh"
        )
    most = min(size, len(os.sched_getaffinity(0)))
    crew += [_worker(home, python) for _ in range(most - len(crew))]
    return crew[: max(most, 1)]


def _worker(home: Path, python: str) -> Worker:
    # Python's warnings about uiCA's own text are no answer.
    program = Path(__file__).with_name("uica_worker.py")
    return Worker([python, "-W", "ignore", program, home], _SECONDS)


def _ask(worker: Worker, block: Block, arch: str) -> Answer:
    reply = worker.ask({"code": block.code.hex(), "arch": arch, "offset": block.offset})
    if "missing" in reply:
        return Answer.none(f"uiCA lacks {reply['missing']}: run its setup.sh")
    if "error" in reply:
        return Answer.none(f"uiCA: {reply['error']}")
    return _answer(reply, len(block.instructions))


def _answer(reply: dict[str, Any], count: int) -> Answer:
    stderr = " ".join(str(reply["stderr"]).split("\n")[-2:]).strip()
    if "-json" in stderr:
        return Answer.none("uiCA is too old to say what it has no data for: update the checkout")
    printed = " ".join(str(reply["printed"]).split())
    if reply["exit"] or stderr:
        return Answer.none(f"uiCA: {stderr or printed or 'exit ' + str(reply['exit'])}")
    unknown = [text for text, known in reply["instructions"] if not known]
    if unknown:
        return Answer.none(f"uiCA has no data for `{unknown[0]}`, and would count it as free")
    if len(reply["instructions"]) != count:
        read = len(reply["instructions"])
        return Answer.none(f"uiCA read {read} of {count} instructions")
    try:
        return Answer(float(printed))
    except ValueError:
        return Answer.none(f"uiCA printed no number: {printed!r}")
