"""Start of the command line: an interrupt during its imports also ends with one line."""

import os
import signal
from typing import NoReturn


def main() -> None:
    """Import the command line, run it and exit; an interrupt before that breaks nothing."""
    interruptible = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _interrupted)
    from loopwright.cli import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        if interruptible:  # nothing is left to interrupt
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupted(number: int, frame: object) -> NoReturn:
    del number, frame
    os.write(2, b"loopwright: interrupted\n")
    os._exit(130)
