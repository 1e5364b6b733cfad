"""Print, as JSON, how right the simulator is on each core, for the page to say."""

import json

from loopwright import microarchs
from loopwright.judging import model_accuracy
from loopwright.paths import VERSION


def main() -> None:
    """Print the version, and of each core whether the simulator is validated there."""
    known = model_accuracy.records()
    cores = {}
    for core in microarchs.ids():
        held = model_accuracy.accuracy_of("pipeline", core, "loop", known)
        cores[core] = {
            "validated": held.validated,
            "accuracy": held.described.replace(" there", ""),
        }
    print(json.dumps({"version": VERSION, "cores": cores}))


if __name__ == "__main__":
    main()
