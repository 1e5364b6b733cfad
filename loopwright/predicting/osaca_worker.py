"""Answers analysis requests with OSACA, one JSON object a line in and out.

Runs as a program of its own, because OSACA's licence is AGPL-3.0: python -m
loopwright.predicting.osaca_worker. A request is {"arch": name, "syntax": "ATT" or null, "lines":
[assembly, ...]}; the reply {"throughput": cycles, "lcd": cycles, "port": name, "unknown":
[assembly, ...]} or {"error": text}.
"""

import json
import sys
from typing import Any

from osaca.osaca import get_asm_parser
from osaca.semantics import INSTR_FLAGS, ArchSemantics, KernelDG, MachineModel

_LCD_SECONDS = 10


class _Model(MachineModel):
    """OSACA's machine model with its lists of load ports copied, as OSACA changes them."""

    def get_load_throughput(self, memory: Any) -> list[Any]:
        """Return the ports of loads in new lists."""
        rows = super().get_load_throughput(memory)  # type: ignore[no-untyped-call]
        return [(row[0], list(row[1]), *row[2:]) for row in rows]


def main() -> None:
    """Answer until stdin ends."""
    models: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = _analyse(request, models)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(reply), flush=True)


def _analyse(request: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    arch = request["arch"]
    if arch not in models:
        parser = get_asm_parser(arch, request["syntax"])
        model = _Model(arch=arch)  # type: ignore[no-untyped-call]
        models[arch] = (parser, model, ArchSemantics(parser, model))
    parser, model, semantics = models[arch]
    kernel = parser.parse_file("\n".join(request["lines"]) + "\n")
    semantics.normalize_instruction_forms(kernel)
    semantics.add_semantics(kernel)
    flags = (INSTR_FLAGS.TP_UNKWN, INSTR_FLAGS.LT_UNKWN)
    unknown = [i.line.strip() for i in kernel if i.mnemonic and any(f in i.flags for f in flags)]
    read = sum(1 for i in kernel if i.mnemonic)
    if read != len(request["lines"]):
        return {"error": f"it read {read} of {len(request['lines'])} instructions"}
    if unknown:
        return {"unknown": unknown}
    for _ in range(2):  # as OSACA's own command line does
        semantics.assign_optimal_throughput(kernel)
    graph = KernelDG(kernel, parser, model, semantics, _LCD_SECONDS, False)
    if graph.timed_out:
        return {"error": f"its search for dependency cycles took over {_LCD_SECONDS} s"}
    pressure = semantics.get_throughput_sum(kernel)
    cycles = max(pressure, default=0.0)
    chains = [chain["latency"] for chain in graph.get_loopcarried_dependencies().values()]
    return {
        "throughput": float(cycles),
        "port": model.get_ports()[pressure.index(cycles)] if pressure else "",
        "lcd": float(max(chains, default=0.0)),
        "unknown": [],
    }


if __name__ == "__main__":
    main()
