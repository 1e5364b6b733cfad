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
from loopwright.predicting import core_figures
from loopwright.predicting.core_figures import TABLE
from loopwright.predicting.model import ALIKE, BALANCED, Answer, Block, unfit

if TYPE_CHECKING:
    from loopwright_pipeline import Core


_INSTRUCTION_LIMITS = ("ports", "dispatch", "dependencies")  # limits that no reordering changes
_SHOWN = 4  # instructions of a chain that a text names


@dataclass(frozen=True)
class Limit:
    """One limit of a block.

    cycles are those of an iteration as if the core had no other limit; None if unknown. binds is
    True if the block is faster without it, or without all that bind together. ports are letters;
    taken is the cycles of these ports that an iteration needs. instructions are those of a chain in
    the order of their dependencies, or those that need the ports.
    """

    name: str
    cycles: float | None
    binds: bool
    ports: str
    taken: float
    instructions: tuple[int, ...]

    @property
    def figure(self) -> str:
        return self.name if self.cycles is None else f"{self.name} {self.cycles:.2f}"


def limits_of_row(row: Mapping[str, Any]) -> list[Limit]:
    """Return the limits in a row of the simulator: binding ones first, then by cycles."""
    limits = [
        Limit(
            name="divider" if limit["limit"].startswith("divider on") else limit["limit"],
            cycles=limit["cycles"],
            binds=limit["binds"],
            ports=limit["ports"],
            taken=limit["taken"],
            instructions=tuple(limit["instructions"]),
        )
        for limit in row.get("limits", ())
    ]
    return sorted(limits, key=lambda limit: (not limit.binds, -(limit.cycles or 0)))


def limits_in_words(limits: Sequence[Limit], cycles: float, block: Block, core: Microarch) -> str:
    """Return the bottleneck of a block that takes a number of cycles, with its instructions.

    Several limits of the same figure are "balanced"; limits of which each alone allows fewer cycles
    are named together.
    """
    equal_limits = [
        limit for limit in limits if limit.cycles is not None and cycles <= limit.cycles * ALIKE
    ]
    if not equal_limits:
        slowing = [limit for limit in limits if limit.binds]
        texts = [
            f"{_words(limit, cycles, block, core)}{_alone(limit, cycles)}" for limit in slowing
        ]
        return f"several limits together, first {'; '.join(texts)}" if texts else "not known"
    texts = [_words(limit, cycles, block, core) for limit in equal_limits]
    return texts[0] if len(texts) == 1 else f"{BALANCED} {'; '.join(texts)}"


def _alone(limit: Limit, cycles: float) -> str:
    """Return the cycles of a limit by itself in words, if they are a good part of all."""
    considerable = limit.cycles is not None and limit.cycles >= _CONSIDERABLE * cycles
    return f" ({limit.cycles:.2f} by itself)" if considerable else ""


def _words(limit: Limit, cycles: float, block: Block, core: Microarch) -> str:
    if limit.name == "ports":
        return _ports(limit, cycles, core)
    if limit.name == "dependencies":
        return _chain(limit, block)
    if limit.name == "failed store-to-load forwarding":
        loads = [block.instructions[n].line for n in limit.instructions]
        return f"{limit.name}: {' and '.join(loads)}"
    if limit.name == "op cache":
        return _op_cache(block, core)
    if limit.name == "loop buffer":
        width = core.value("rename.width")
        return f"loop buffer ({width} uops a cycle; each pass starts in a new cycle)"
    if limit.name == "dispatch":
        width = core.value("rename.instructions") or core.value("rename.width")
        unit = "instructions" if core.value("rename.instructions") else "fused uops"
        return f"dispatch ({width} {unit} a cycle at most)" if width else "dispatch"
    if limit.name.startswith("divider"):
        vendor_names = core_figures.vendor_port_names(core)
        names = " and ".join(vendor_names[letter] for letter in limit.ports)
        return f"divider on {names} (busy for {limit.taken:g} cycles an iteration)"
    if limit.name == "branches":
        return f"taken branch (one every {limit.cycles or 0:.2f} cycles)"
    return limit.name


def _ports(limit: Limit, cycles: float, core: Microarch) -> str:
    """Return "load ports AGU0 and AGU1 (2 of 2 busy)", counted over a cycle."""
    kinds = [use.kind for use in core_figures.port_uses(core) if set(use.ports) == set(limit.ports)]
    if {"store address", "store data"} <= set(kinds):
        kinds = ["store"]
    vendor_names = core_figures.vendor_port_names(core)
    names = [vendor_names[letter] for letter in limit.ports]
    word = "port" if len(names) == 1 else "ports"
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    busy = f"{limit.taken / cycles:.2f}".rstrip("0").rstrip(".")
    served = " or ".join(kinds)
    return f"{served + ' ' if kinds else ''}{word} {listed} ({busy} of {len(names)} busy)"


def _chain(limit: Limit, block: Block) -> str:
    kind = "loop-carried dependency" if block.notion == "loop" else "dependency from copy to copy"
    texts = [block.instructions[n].line for n in limit.instructions]
    left = len(texts) - _SHOWN
    shown = [*texts[:_SHOWN], *([f"{left} more"] if left > 0 else [])]
    return f"{kind}: {' -> '.join([*shown, 'itself' if len(texts) == 1 else 'back to the first'])}"


def _op_cache(block: Block, core: Microarch) -> str:
    """Return the reason for the limit of the op cache: the lines that the loop spans."""
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
    """True if the last branch, or the compare fused with it, touches a boundary."""
    end = block.offset + len(block.code)
    pair = block.instructions[-2:]
    return (block.offset + pair[0].address) // line != end // line


_CONSIDERABLE = 0.25  # share of all cycles from which the text names a limit's own cycles
SURE = ("high", "medium")  # confidences of parameters that other figures may rely on

# Blocks of one call up to which bottlenecks are determined: each takes some 30 simulations.
_WITH_LIMITS = 256

# Bytes of two string instructions whose difference is the cost of further bytes.
_SHORT, _LONG = 4096, 12288


class Pipeline:
    """The simulator, with figures from models/<microarch>/core.toml and instructions.csv."""

    id = "pipeline"
    short = "pipeline"
    corrects = ""

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        """Store values for parameters of the cores, by dotted name (binding.parameters)."""
        self.overrides = dict(overrides or {})

    def version(self) -> str:
        return f"loopwright pipeline {binding.version()}"

    def lacks(self, core: Microarch) -> str:
        has_table = (paths.models_root() / core.id / TABLE).is_file()
        return "" if has_table else f"the pipeline simulator has no figures for {core.id}"

    def predict(
        self, blocks: Sequence[Block], core: Microarch, *, brief: bool = False
    ) -> list[Answer]:
        """Answer for all blocks in one call; where they are many, without bottlenecks.

        A single repeated string instruction gets cycles per 64 bytes, in a long run, and no range
        of measurements. brief gives cycles and start-up alone, without bottlenecks and ranges.
        """
        if lacking := self.lacks(core):
            return [Answer.none(lacking) for _ in blocks]
        straight = _straight(blocks, core.isa)
        if brief:
            return self._answers(blocks, core, straight)
        answers = self._answers(blocks, core, straight, limits=len(blocks) <= _WITH_LIMITS)
        ranges = core_figures.cost_ranges(core, self.overrides)
        ranged = [
            n
            for n, b in enumerate(blocks)
            if any(
                core_figures.depends_on(core, b, name, straight=b.code in straight)
                for name in ranges
            )
        ]
        if ranged:
            ranged_blocks = [blocks[n] for n in ranged]
            ends = [
                Pipeline(values)._answers(ranged_blocks, core, straight)
                for values in core_figures.at_range_ends(core, self.overrides)
            ]
            for n, cheap, dear in zip(ranged, *ends, strict=True):
                answers[n] = _with_parameter_range(answers[n], cheap, dear)
        spans = core_figures.spans_of_blocks(core.id, blocks)
        return [
            _with_span(answer, span, straight=block.code in straight)
            for answer, block, span in zip(answers, blocks, spans, strict=True)
        ]

    def _answers(
        self,
        blocks: Sequence[Block],
        core: Microarch,
        straight: set[bytes],
        *,
        limits: bool = False,
    ) -> list[Answer]:
        simulator = self._core(core)
        unsimulated: dict[bytes, Answer] = {}
        for block in blocks:
            if block.code not in straight and block.code not in unsimulated:
                unsimulated[block.code] = _unsimulated_answer(simulator, block, core)
        answers = {n: unsimulated[b.code] for n, b in enumerate(blocks) if b.code in unsimulated}
        for notion in ("loop", "unrolled"):
            chosen = [n for n, b in enumerate(blocks) if n not in answers and b.notion == notion]
            pairs = [(blocks[n].code, blocks[n].offset) for n in chosen]
            rows = simulator.predict(pairs, notion=notion, bottleneck=limits)
            for n, row in zip(chosen, rows, strict=True):
                answers[n] = _answer(row, blocks[n], core)
        return [answers[n] for n in range(len(blocks))]

    def inside(
        self, blocks: Sequence[Block], core: Microarch, *, iterations: int = 0
    ) -> list[dict[str, Any]]:
        """Return the events inside the core: "ports", "port_names" and "limits", or an "error".

        With iterations, "timeline" holds that many; models/pipeline/README.md names its keys.
        """
        if lacking := self.lacks(core):
            return [{"error": lacking} for _ in blocks]
        simulator = self._core(core)
        rows: list[dict[str, Any]] = []
        straight = _straight(blocks, core.isa)
        for block in blocks:
            if block.code not in straight:
                rows.append({"error": _why_no_uops(block) or unfit(block)})
                continue
            (row,) = simulator.predict(
                [(block.code, block.offset)],
                notion=block.notion,
                bottleneck=not iterations,
                ports=not iterations,
                timeline=iterations,
            )
            rows.append({"port_names": simulator.ports, **row, "error": row["error"] or ""})
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

    def at_offsets(
        self, loops: Sequence[tuple[bytes, Sequence[tuple[int, int]] | None]], core: Microarch
    ) -> tuple[bytes, dict[int, str]]:
        """Simulate loops at every code offset: see Core.at_offsets of loopwright_pipeline.pyi.

        InputError if the simulator has no figures for the core.
        """
        if lacking := self.lacks(core):
            raise InputError(lacking)
        return self._core(core).at_offsets(loops)

    def along(
        self,
        loops: Sequence[tuple[bytes, int, Sequence[tuple[int, int]]]],
        core: Microarch,
        *,
        iterations: int = 0,
    ) -> list[dict[str, Any]]:
        """Return the limits of loops by code, code offset and path ("bottleneck").

        With iterations, "timeline" holds that many in its place; keys are those of Core.predict in
        models/pipeline/README.md. A path is the stretches of an iteration as in at_offsets;
        instructions are numbered in the order of their execution. InputError as in at_offsets.
        """
        if lacking := self.lacks(core):
            raise InputError(lacking)
        return self._core(core).predict(loops, bottleneck=not iterations, timeline=iterations)

    def figures(self, core: Microarch) -> tuple[str, ...]:
        """Return all texts that decide a core's answers: its files, and the overrides."""
        folder = paths.models_root() / core.id
        front_end = self.overrides.get(core_figures.FRONT_END_DOUBT)
        core_file = core_figures.FRONT_END_FILES[front_end] if front_end else "core.toml"
        toml, table = ((folder / name).read_text() for name in (core_file, TABLE))
        if end := self.overrides.get(core_figures.INSTRUCTIONS_DOUBT):
            table = core_figures.table_at_end(core, table, end)
        return toml, table, repr(sorted(self.overrides.items()))

    def check(self, core: Microarch) -> None:
        """Raise InputError if the simulator refuses a parameter's value on a core."""
        self._core(core)

    def _core(self, core: Microarch, figures: tuple[str, ...] | None = None) -> "Core":
        """Return the simulator's core, with the overrides of this model."""
        toml, table, _ = figures or self.figures(core)
        not_parameters = (core_figures.INSTRUCTIONS_DOUBT, core_figures.FRONT_END_DOUBT)
        values = {
            name: value for name, value in self.overrides.items() if name not in not_parameters
        }
        return _loaded(core.id, toml, table, tuple(sorted(values.items())))


# Keyed by the content of the files, which may change while this process lives.
@lru_cache(maxsize=256)  # verdicts vary all parameters of a core that have a range
def _loaded(core: str, toml: str, table: str, overrides: tuple[tuple[str, str], ...]) -> "Core":
    names = [*binding.parameters(), "front_end"]  # front_end is short for front_end.mode
    for name, _ in overrides:
        if name not in names:
            raise unknown("parameter", name, names)
    try:
        return binding.Core(toml, table, dict(overrides))
    except ValueError as error:
        raise InputError(f"{core}: {error}") from None


def _straight(blocks: Sequence[Block], isa: str) -> set[bytes]:
    """Return the codes that control does not leave and that have no repeated string instruction."""
    codes = list({block.code for block in blocks})
    pairs = zip(codes, outlines(isa, codes), strict=True)
    return {code for code, outline in pairs if isinstance(outline, Outline) and outline.straight}


def _with_parameter_range(answer: Answer, cheap: Answer, dear: Answer) -> Answer:
    """Return an answer with the ends of its range; unchanged where they are equal."""
    if cheap.cycles is None or dear.cycles is None or cheap.cycles == dear.cycles:
        return answer
    ends = [end.cycles for end in (cheap, answer, dear) if end.cycles is not None]
    return replace(answer, cheap=min(ends), dear=max(ends))


def _with_span(answer: Answer, span: core_figures.Span | None, *, straight: bool) -> Answer:
    """Return an answer with the range of measurements.

    Where the errors of such predictions are not recorded it is the range over unmeasured
    parameters.
    """
    if span is None or not straight:
        return replace(answer, low=answer.cheap, high=answer.dear)
    cheap, dear = answer.cheap or answer.cycles, answer.dear or answer.cycles
    if cheap is None or dear is None:
        return answer
    low, high = span.around(cheap, dear)
    return replace(answer, low=low, high=high)


def _unsimulated_answer(simulator: "Core", block: Block, core: Microarch) -> Answer:
    """Return the answer for a block that the simulator does not take as it is, at any offset."""
    if block.string and len(block.instructions) == 1:
        return _string_answer(simulator, block, core)
    return Answer.none(unfit(block))


def _answer(row: dict[str, Any], block: Block, core: Microarch) -> Answer:
    if row["cycles"] is None:
        return Answer.none(row["error"])
    cycles, limits, note = round(row["cycles"], 3), limits_of_row(row), row["note"]
    if not limits:
        return Answer(cycles, row["bottleneck"] or "", note=note)
    bottleneck = limits_in_words(limits, row["cycles"], block, core)
    of_instructions = [
        limit.cycles for limit in limits if limit.name in _INSTRUCTION_LIMITS and limit.cycles
    ]
    bound = max(of_instructions, default=None)
    figures = ", ".join(limit.figure for limit in limits)
    return Answer(cycles, bottleneck, note=note, limits=figures, bound=bound)


def _why_no_uops(block: Block) -> str:
    """Return the reason why a repeated string instruction has no uops to show, or ""."""
    if block.string is None:
        return ""
    return f"{block.string.mnemonic}: microcode, which the simulator knows by its rate alone"


def startup_parameter(string: Instruction) -> str:
    """Return the dotted name of the start-up of a repeated string instruction."""
    return "string.movs_startup" if string.read_bytes else "string.stos_startup"


def _string_answer(simulator: "Core", block: Block, core: Microarch) -> Answer:
    """Return cycles per 64 bytes of a repeated string instruction: a slope without the start-up."""
    assert block.string is not None
    element = max(block.string.read_bytes, block.string.written_bytes)
    cycles = []
    for size in (_SHORT, _LONG):
        blocks = [(block.code, block.offset)]
        (row,) = simulator.predict(
            blocks, notion="unrolled", bottleneck=False, count=size // element
        )
        if row["cycles"] is None:
            return Answer.none(row["error"])
        cycles.append(row["cycles"])
    slope = (cycles[1] - cycles[0]) * STRING_BYTES / (_LONG - _SHORT)
    startup = max(round(cycles[0] - slope * _SHORT / STRING_BYTES, 3), 0.0)
    sure = core.entry(startup_parameter(block.string)).get("confidence") in SURE
    return Answer(round(slope, 3), "microcode", startup=startup if sure else None)
