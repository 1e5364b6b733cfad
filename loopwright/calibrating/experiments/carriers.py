"""What carries a result back to an operand: the cycles that it takes from kind to kind."""

from collections.abc import Mapping

from loopwright.calibrating.experiments import chains
from loopwright.calibrating.experiments.chains import Chain
from loopwright.calibrating.forms.form import BASE
from loopwright.calibrating.laboratory import Laboratory


def measure(laboratory: Laboratory) -> dict[tuple[str, str], float]:
    """Return the cycles of what carries values from kind to kind."""
    kit = laboratory.kit
    gpr, vector = kit.POOLS["gpr"].back, kit.POOLS["vector"].back
    there, here = gpr[0], vector[0]
    round_trips = {
        "gpr": [kit.carry("gpr", "gpr", *gpr), kit.carry("gpr", "gpr", *gpr[::-1])],
        "vector": [
            kit.carry("vector", "vector", *vector),
            kit.carry("vector", "vector", *vector[::-1]),
        ],
        "cross": [kit.carry("gpr", "vector", there, here), kit.carry("vector", "gpr", here, there)],
        "flags": [
            *chains.carry(kit, "gpr", "flags", there, 0),
            *chains.carry(kit, "flags", "gpr", 0, there),
        ],
        "sums": [kit.add_with_carry(there)],
        "summed": [kit.add_with_carry(there), *chains.carry(kit, "flags", "gpr", 0, there)],
        "hold": [kit.carry("gpr", "gpr", *gpr), *kit.hold(gpr[0], gpr[1])],
    }
    figures = dict(zip(round_trips, laboratory.time(list(round_trips.values())), strict=True))
    cycles = {name: float(round(figure.cycles)) for name, figure in figures.items() if figure}
    nan = float("nan")
    to_vector = cycles.get("cross", nan) // 2
    from_vector = cycles.get("cross", nan) - to_vector
    to_flags = 1.0
    if cycles.get("sums") == 1.0 and "summed" in cycles:
        # A sum takes a cycle by each way, so that the rest of the round trip is the way from flags.
        to_flags = cycles.get("flags", nan) - (cycles["summed"] - 1.0)
    from_flags = cycles.get("flags", nan) - to_flags
    hold = cycles.get("hold", nan) - cycles.get("gpr", nan) / 2
    return {
        ("gpr", BASE): hold,
        ("vector", BASE): from_vector + hold,
        ("flags", BASE): from_flags + hold,
        ("gpr", "gpr"): cycles.get("gpr", nan) / 2,
        ("vector", "vector"): cycles.get("vector", nan) / 2,
        ("gpr", "vector"): to_vector,
        ("vector", "gpr"): from_vector,
        ("gpr", "flags"): to_flags,
        ("flags", "gpr"): from_flags,
        ("flags", "flags"): 0.0,
        ("flags", "vector"): from_flags + to_vector,
        ("vector", "flags"): from_vector + to_flags,
    }


def back(one: Chain, carrying: Mapping[tuple[str, str], float]) -> float:
    """Return the cycles of what carries a result back."""
    if one.of_address:
        return carrying[one.target.kind, BASE]
    return 0.0 if one.direct else carrying[one.target.kind, one.source.kind]
