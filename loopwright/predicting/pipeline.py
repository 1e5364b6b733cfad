"""The pipeline simulator as a model, and its limits in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from loopwright import paths
from loopwright.code import binding
from loopwright.code.binding import Outline, outlines
from loopwright.code.instructions import Instruction
from loopwright.code.loops import STRING_BYTES
from loopwright.errors import InputError, unknown
from loopwright.microarchs import Microarch
from loopwright.predicting import core_figures, error_ranges
from loopwright.predicting.core_figures import TABLE
from loopwright.predicting.model import ALIKE, BALANCED, Answer, Block, unfit

if TYPE_CHECKING:
    from loopwright_pipeline import Core


_OF_INSTRUCTIONS = ("ports", "dispatch", "dependencies")  # limits that no order of them changes
_SHOWN = 4  # instructions of a chain that are written out


@dataclass(frozen=True)
class Limit:
    """One limit of a block.

    cycles are those of an iteration as if the core had no other limit; None where they are not
    known. binds says that the block is faster without it, or without all that bind together. ports
    are letters; taken says how many of their cycles an iteration needs. instructions are those of a
    chain in the order in which they wait for each other, or those that need the ports.
    """

    name: str
    cycles: float | None
    binds: bool
    ports: str
    taken: float
    instructions: tuple[int, ...]

    @property
    def figure(self) -> str:
        """Return its name and its cycles."""
        return self.name if self.cycles is None else f"{self.name} {self.cycles:.2f}"


def limits_of_row(row: Mapping[str, Any]) -> list[Limit]:
    """Return the limits in a row of the simulator: those that bind first, then by their figures."""
    found = [
        Limit(
            name=_name(one["limit"]),
            cycles=one["cycles"],
            binds=one["binds"],
            ports=one["ports"],
            taken=one["taken"],
            instructions=tuple(one["instructions"]),
        )
        for one in row.get("limits", ())
    ]
    return sorted(found, key=lambda one: (not one.binds, -(one.cycles or 0)))


def _name(limit: str) -> str:
    """Return the shown name of a limit of the simulator."""
    return "divider" if limit.startswith("divider on") else limit


def limit_figures(limits: Sequence[Limit]) -> str:
    """Return all limits with their figures: "op cache 2.00, ports 1.00, dispatch 0.80"."""
    return ", ".join(one.figure for one in limits)


def limits_in_words(limits: Sequence[Limit], cycles: float, block: Block, core: Microarch) -> str:
    """Say what limits a block that takes so many cycles, the text of its instructions included.

    Several limits of the same figure are "balanced"; limits of which each alone allows fewer cycles
    are named together.
    """
    full = [one for one in limits if one.cycles is not None and cycles <= one.cycles * ALIKE]
    if not full:
        binding = [one for one in limits if one.binds]
        said = [f"{_said(one, cycles, block, core)}{_alone(one, cycles)}" for one in binding]
        return f"several limits together, first {'; '.join(said)}" if said else "not known"
    said = [_said(one, cycles, block, core) for one in full]
    return said[0] if len(said) == 1 else f"{BALANCED} {'; '.join(said)}"


def _alone(one: Limit, cycles: float) -> str:
    """Return the cycles that a limit would take by itself, where it is a good part of all."""
    told = one.cycles is not None and one.cycles >= _PART * cycles
    return f" ({one.cycles:.2f} by itself)" if told else ""


def _said(one: Limit, cycles: float, block: Block, core: Microarch) -> str:
    if one.name == "ports":
        return _ports(one, cycles, core)
    if one.name == "dependencies":
        return _chain(one, block)
    if one.name == "failed store-to-load forwarding":
        loads = [" ".join(block.instructions[n].text.split()) for n in one.instructions]
        return f"{one.name}: {' and '.join(loads)}"
    if one.name == "op cache":
        return _op_cache(block, core)
    if one.name == "loop buffer":
        width = core.value("rename.width")
        return f"loop buffer ({width} uops a cycle; each pass starts in a new cycle)"
    if one.name == "dispatch":
        width = core.value("rename.instructions") or core.value("rename.width")
        unit = "instructions" if core.value("rename.instructions") else "fused uops"
        return f"dispatch ({width} {unit} a cycle at most)" if width else "dispatch"
    if one.name.startswith("divider"):
        called = core_figures.vendor_port_names(core)
        names = " and ".join(called[letter] for letter in one.ports)
        return f"divider on {names} (busy for {one.taken:g} cycles an iteration)"
    if one.name == "branches":
        return f"taken branch (one every {one.cycles or 0:.2f} cycles)"
    return one.name


def _ports(one: Limit, cycles: float, core: Microarch) -> str:
    """Return "load ports AGU0 and AGU1 (2 of 2 busy)", counted over a cycle."""
    kinds = [use.kind for use in core_figures.port_uses(core) if set(use.ports) == set(one.ports)]
    if {"store address", "store data"} <= set(kinds):
        kinds = ["store"]
    called = core_figures.vendor_port_names(core)
    names = [called[letter] for letter in one.ports]
    word = "port" if len(names) == 1 else "ports"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    busy = f"{one.taken / cycles:.2f}".rstrip("0").rstrip(".")
    return f"{kinds[0] + ' ' if kinds else ''}{word} {listed} ({busy} of {len(names)} busy)"


def _chain(one: Limit, block: Block) -> str:
    kind = "loop-carried dependency" if block.notion == "loop" else "dependency from copy to copy"
    texts = [" ".join(block.instructions[n].text.split()) for n in one.instructions]
    left = len(texts) - _SHOWN
    shown = [*texts[:_SHOWN], *([f"{left} more"] if left > 0 else [])]
    return f"{kind}: {' -> '.join([*shown, 'itself' if len(texts) == 1 else 'back to the first'])}"


def _op_cache(block: Block, core: Microarch) -> str:
    """Return the bytes that no entry of the op cache can span, if they end a line."""
    line = core.value("uop_cache.region_bytes")
    if block.notion != "loop" or not isinstance(line, int):
        return "op cache"
    if core.value("uop_cache.branch_erratum") and _touches_line(block, line):
        return (
            f"op cache (the branch touches a {line}-byte boundary: the loop is decoded each time)"
        )
    lines = (block.offset % line + len(block.code) - 1) // line + 1
    return f"op cache (the loop has bytes in {lines} lines of {line})" if lines > 1 else "op cache"


def _touches_line(block: Block, line: int) -> bool:
    """Say whether the last branch, or the compare that may fuse with it, meets a boundary."""
    end = block.offset + len(block.code)
    pair = block.instructions[-2:]
    return (block.offset + pair[0].address) // line != end // line


_PART = 0.25  # of all cycles that a limit takes by itself where that is worth saying
SURE = ("high", "medium")  # what confidence a parameter needs for others to build on it

# Blocks whose bottleneck is named in one call: each takes some 30 simulations.
_NAMED = 256

# Bytes of the two string instructions whose difference is the cost of more bytes.
_SHORT, _LONG = 4096, 12288


class Pipeline:
    """The simulator, with figures from models/<microarch>/core.toml and instructions.csv."""

    id = "pipeline"
    short = "pipeline"
    corrects = ""

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        """Take values for parameters of the cores, by dotted name (see parameters)."""
        self.overrides = dict(overrides or {})

    def version(self) -> str:
        """Return the version; InputError where the simulator has not been built."""
        return f"loopwright pipeline {binding.version()}"

    def lacks(self, core: Microarch) -> str:
        """Say that nobody has given the simulator figures for a core."""
        there = (paths.models_root() / core.id / TABLE).is_file()
        return "" if there else f"the pipeline simulator has no figures for {core.id}"

    def predict(
        self, blocks: Sequence[Block], core: Microarch, *, brief: bool = False
    ) -> list[Answer]:
        """Answer for all blocks in one call; where they are many, without bottlenecks.

        A single repeated string instruction gets cycles per 64 bytes, in a long run, and no range
        of measurements. brief: cycles and start-up alone, without bottlenecks and ranges.
        """
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        straight = _straight(blocks, core.isa)
        if brief:
            return self._answers(blocks, core, straight)
        answers = self._answers(blocks, core, straight, named=len(blocks) <= _NAMED)
        known = core_figures.cost_ranges(core, self.overrides)
        open_ = [
            n
            for n, b in enumerate(blocks)
            if any(
                core_figures.depends_on(core, b, name, straight=b.code in straight)
                for name in known
            )
        ]
        if open_:
            some = [blocks[n] for n in open_]
            ends = [
                Pipeline(values)._answers(some, core, straight)
                for values in core_figures.at_range_ends(core, self.overrides)
            ]
            for n, cheap, dear in zip(open_, *ends, strict=True):
                answers[n] = _between(answers[n], cheap, dear)
        spans = error_ranges.of_blocks(core.id, blocks)
        return [
            _measured(answer, span, straight=block.code in straight)
            for answer, block, span in zip(answers, blocks, spans, strict=True)
        ]

    def _answers(
        self, blocks: Sequence[Block], core: Microarch, straight: set[bytes], *, named: bool = False
    ) -> list[Answer]:
        machine = self._core(core)
        apart: dict[bytes, Answer] = {}
        for block in blocks:
            if block.code not in straight and block.code not in apart:
                apart[block.code] = _apart(machine, block, core)
        answers = {n: apart[b.code] for n, b in enumerate(blocks) if b.code in apart}
        for notion in ("loop", "unrolled"):
            chosen = [n for n, b in enumerate(blocks) if n not in answers and b.notion == notion]
            pairs = [(blocks[n].code, blocks[n].offset) for n in chosen]
            found = machine.predict(pairs, notion=notion, bottleneck=named)
            for n, row in zip(chosen, found, strict=True):
                answers[n] = _answer(row, blocks[n], core)
        return [answers[n] for n in range(len(blocks))]

    def inside(
        self, blocks: Sequence[Block], core: Microarch, *, iterations: int = 0
    ) -> list[dict[str, Any]]:
        """Say for each block what its uops do: "ports", "port_names" and "limits", or an "error".

        With iterations, "timeline" holds that many; models/pipeline/README.md names its keys.
        """
        if lacking := self.lacks(core):
            return [{"error": lacking} for _ in blocks]
        machine = self._core(core)
        rows: list[dict[str, Any]] = []
        straight = _straight(blocks, core.isa)
        for block in blocks:
            if block.code not in straight:
                rows.append({"error": _rate_alone(block) or unfit(block)})
                continue
            (row,) = machine.predict(
                [(block.code, block.offset)],
                notion=block.notion,
                bottleneck=not iterations,
                ports=not iterations,
                timeline=iterations,
            )
            rows.append({"port_names": machine.ports, **row, "error": row["error"] or ""})
        return rows

    def calls(
        self,
        requests: Sequence[tuple[bytes, int, bytes]],
        core: Microarch,
        figures: tuple[str, ...],
    ) -> list[dict[str, Any]]:
        """Simulate whole calls: see Core.calls of models/pipeline/loopwright_pipeline.pyi.

        figures are those of the core, as figures() returned them.
        """
        return self._core(core, figures).calls(requests)

    def places(
        self, loops: Sequence[tuple[bytes, Sequence[tuple[int, int]] | None]], core: Microarch
    ) -> tuple[bytes, dict[int, str]]:
        """Simulate loops at every code offset: see Core.places of loopwright_pipeline.pyi.

        InputError where nobody has given the simulator figures for the core.
        """
        if lacking := self.lacks(core):
            raise InputError(lacking)
        return self._core(core).places(loops)

    def along(
        self,
        loops: Sequence[tuple[bytes, int, Sequence[tuple[int, int]]]],
        core: Microarch,
        *,
        iterations: int = 0,
    ) -> list[dict[str, Any]]:
        """Say of loops, by code, code offset and path, what limits them ("bottleneck").

        With iterations, "timeline" holds that many in its place; keys are those of Core.predict in
        models/pipeline/README.md. A path are the stretches of an iteration as places has them;
        instructions are numbered in the order of their execution. InputError as places.
        """
        if lacking := self.lacks(core):
            raise InputError(lacking)
        return self._core(core).predict(loops, bottleneck=not iterations, timeline=iterations)

    def figures(self, core: Microarch) -> tuple[str, ...]:
        """Return all that a core's answers follow from: its files, and the overrides."""
        folder = paths.models_root() / core.id
        front_end = self.overrides.get(core_figures.FRONT_END_DOUBT)
        core_file = core_figures.FRONT_END_FILES[front_end] if front_end else "core.toml"
        toml, table = ((folder / name).read_text() for name in (core_file, TABLE))
        if end := self.overrides.get(core_figures.INSTRUCTIONS_DOUBT):
            table = core_figures.table_at_end(core, table, end)
        return toml, table, repr(sorted(self.overrides.items()))

    def check(self, core: Microarch) -> None:
        """Raise InputError where the simulator takes no such value of a parameter on a core."""
        self._core(core)

    def _core(self, core: Microarch, figures: tuple[str, ...] | None = None) -> "Core":
        """Return the simulator's core, with the overrides of this model."""
        toml, table, _ = figures or self.figures(core)
        apart = (core_figures.INSTRUCTIONS_DOUBT, core_figures.FRONT_END_DOUBT)
        values = {name: value for name, value in self.overrides.items() if name not in apart}
        return _built(core.id, toml, table, tuple(sorted(values.items())))


def parameters() -> list[str]:
    """Return the dotted names of all parameters that an override may set."""
    return binding.parameters()


# Keyed by what the files hold: they may change while this process lives.
@lru_cache(maxsize=256)  # verdicts vary all parameters of a core that have a range
def _built(core: str, toml: str, table: str, overrides: tuple[tuple[str, str], ...]) -> "Core":
    known = [*parameters(), "front_end"]  # front_end is short for front_end.mode
    for name, _ in overrides:
        if name not in known:
            raise unknown("parameter", name, known)
    try:
        return binding.Core(toml, table, dict(overrides))
    except ValueError as error:
        raise InputError(f"{core}: {error}") from None


def _straight(blocks: Sequence[Block], isa: str) -> set[bytes]:
    """Return the codes that control does not leave and where no string instruction repeats."""
    codes = list({block.code for block in blocks})
    seen = zip(codes, outlines(isa, codes), strict=True)
    return {code for code, one in seen if isinstance(one, Outline) and one.straight}


def _between(answer: Answer, cheap: Answer, dear: Answer) -> Answer:
    """Return an answer with the ends of what it rests on; the same where they are one."""
    if cheap.cycles is None or dear.cycles is None or cheap.cycles == dear.cycles:
        return answer
    ends = [end.cycles for end in (cheap, answer, dear) if end.cycles is not None]
    return replace(answer, cheap=min(ends), dear=max(ends))


def _measured(answer: Answer, span: error_ranges.Span | None, *, straight: bool) -> Answer:
    """Return an answer with the range that measurements lie in.

    Where the errors of such predictions are not recorded it is that of what nobody has measured.
    """
    if span is None or not straight:
        return replace(answer, low=answer.cheap, high=answer.dear)
    cheap, dear = answer.cheap or answer.cycles, answer.dear or answer.cycles
    if cheap is None or dear is None:
        return answer
    low, high = span.around(cheap, dear)
    return replace(answer, low=low, high=high)


def _apart(machine: "Core", block: Block, core: Microarch) -> Answer:
    """Return the answer for a block that the simulator cannot take as it is, at any offset."""
    if block.string and len(block.instructions) == 1:
        return _rate(machine, block, core)
    return Answer.none(unfit(block))


def _answer(row: dict[str, Any], block: Block, core: Microarch) -> Answer:
    if row["cycles"] is None:
        return Answer.none(row["error"])
    cycles, known, note = round(row["cycles"], 3), limits_of_row(row), row["note"]
    if not known:
        return Answer(cycles, row["bottleneck"] or "", note=note)
    said = limits_in_words(known, row["cycles"], block, core)
    alone = [one.cycles for one in known if one.name in _OF_INSTRUCTIONS and one.cycles]
    bound = max(alone, default=None)
    return Answer(cycles, said, note=note, limits=limit_figures(known), bound=bound)


def _rate_alone(block: Block) -> str:
    """Say why a repeated string instruction has no uops to show, or nothing."""
    if block.string is None:
        return ""
    return f"{block.string.mnemonic}: microcode, which the simulator knows by its rate alone"


def startup_parameter(string: Instruction) -> str:
    """Return the dotted name of what a repeated string instruction takes before it moves a byte."""
    return "string.movs_startup" if string.read_bytes else "string.stos_startup"


def _rate(machine: "Core", block: Block, core: Microarch) -> Answer:
    """Return cycles per 64 bytes of a repeated string instruction: a slope, start-up apart."""
    assert block.string is not None
    element = max(block.string.read_bytes, block.string.written_bytes)
    ends = []
    for size in (_SHORT, _LONG):
        blocks = [(block.code, block.offset)]
        (row,) = machine.predict(blocks, notion="unrolled", bottleneck=False, count=size // element)
        if row["cycles"] is None:
            return Answer.none(row["error"])
        ends.append(row["cycles"])
    slope = (ends[1] - ends[0]) * STRING_BYTES / (_LONG - _SHORT)
    startup = max(round(ends[0] - slope * _SHORT / STRING_BYTES, 3), 0.0)
    sure = core.entry(startup_parameter(block.string)).get("confidence") in SURE
    return Answer(round(slope, 3), "microcode", startup=startup if sure else None)
