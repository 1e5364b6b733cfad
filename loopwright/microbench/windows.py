"""Window sizes: reorder buffer, scheduler, load and store queue, registers; retirement width.

Retirement width. Microbenchmark: a loop whose iteration is a slow chain, n nops, which finish long
before it, and a fence, which waits until all earlier instructions have retired. Each nop prolongs
the iteration by the reciprocal of the width. There is no answer where a fence does not wait for
retirement.

Windows. Microbenchmark: as many instructions as fit into the latency of a slow chain
(window_corner). The fillers choose the window: nops fill the reorder buffer, instructions that wait
for the chain the scheduler, stores and loads their queues, and results the register files. Every
filler takes an entry of the reorder buffer as well; where that is full first, the window is at
least that large.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import linear_regression, median_high, pstdev

from loopwright.microbench import dispatch_width, form_instances, window_corner
from loopwright.microbench.dispatch_width import Steps, Width
from loopwright.microbench.forms import Form, Kit
from loopwright.microbench.laboratory import Laboratory
from loopwright.microbench.window_corner import Chain, Corner, Filler, Shadow

_MOST_RETIRED = 200  # instructions
_LESS_THAN_BUFFER = 24  # instructions fewer than the reorder buffer holds
_ITERATIONS = 10
_CHAIN_CYCLES = 0.5  # cycles of the chain per instruction, slower than dispatch


def measure_retirement(
    laboratory: Laboratory, chain: Chain, filler: bytes, width: int, buffer: int
) -> tuple[float, float] | None:
    """Return the retirement width in instructions a cycle, and the uncertainty.

    None if iterations do not show it.
    """
    kit = laboratory.kit
    most = min(_MOST_RETIRED, buffer - _LESS_THAN_BUFFER)
    if not kit.FENCE or most < _ITERATIONS:
        return None
    links = int(most * _CHAIN_CYCLES // chain.cycles) + 1
    numbers = [most * k // _ITERATIONS for k in range(1, _ITERATIONS + 1)]
    before = chain.start + chain.link * links + chain.last
    figures = laboratory.iterations([before + filler * n + kit.FENCE for n in numbers])
    timed = [(n, figure) for n, figure in zip(numbers, figures, strict=True) if figure]
    if len(timed) < _ITERATIONS // 2:
        return None
    counts = [n for n, _ in timed]
    slope = linear_regression(counts, [figure.cycles for _, figure in timed]).slope
    doubt = max(figure.uncertainty for _, figure in timed) / (pstdev(counts) * len(counts) ** 0.5)
    if slope <= _SURE * doubt:
        return None
    rate = 1 / slope
    error = rate * rate * doubt
    return (rate, error) if rate + _SURE * error > width - 0.5 else None


BUFFER, SCHEDULER, STORES = "reorder buffer", "scheduler", "store queue"
RETIRED, BURST = "retired a cycle", "dispatched a cycle"
_SURE = 3.0  # standard deviations
_UNIFIED = 3  # entries by which several measurements of one scheduler may differ
_MOST_ENDS, _PAIRS = 2, 3  # slots of the end of a loop; copies of that end among fillers
_CLEARLY = 2  # entries, at least, by which a rule of rename explains corners better
_OFF_GROUPS = 1  # entries by which corners may differ from the rule of whole groups
_PLAIN, _DRAIN = 2.0, 4.0  # times as long as loads, or stores, which drain later, a chain lasts


@dataclass(frozen=True)
class Window:
    """Capacity of a window, or the number of instructions that leave it in a cycle.

    value is the most likely one from low to high. note is the basis; least says that the capacity
    is a lower bound, as no end of the window was seen. kinds has the capacity by kind of register,
    where each has a window of its own.
    """

    value: int
    low: int
    high: int
    note: str
    least: bool = False
    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Windows:
    """Windows by name; whole_groups says whether rename waits for room for a whole group.

    It is None if unknown.
    """

    by_name: Mapping[str, Window]
    whole_groups: bool | None = None


def measure(laboratory: Laboratory, forms: Mapping[str, Form], width: Width) -> Windows:
    """Return the windows that the machine shows; forms are those to learn, by name."""
    chain = window_corner.chain(laboratory)
    if chain is None:
        return Windows({})
    shadow = Shadow(laboratory, chain, _MOST_ENDS)
    kit = laboratory.kit
    idle = dispatch_width.idle(kit, width)
    windows = _burst(dispatch_width.measure_burst(laboratory, chain, idle))
    nops = Filler([idle])
    (corner,) = shadow.corners([nops])
    least_ends, most_ends = _ends(shadow, kit, nops, corner)
    around = shadow.slots(0) - _MOST_ENDS + least_ends
    buffer = _window(corner, (around, most_ends - least_ends), "that do nothing")
    if buffer is None:
        return Windows(windows)
    shadow = Shadow(laboratory, chain, least_ends)
    windows[BUFFER] = buffer
    rate = measure_retirement(laboratory, chain, idle, width.instructions, buffer.low)
    if rate:
        windows[RETIRED] = _retirement(*rate)
    group = max(width.instructions, windows[BURST].value if BURST in windows else 0)
    scheduler, whole_groups = _scheduler(shadow, kit, group, buffer)
    if scheduler:
        windows[SCHEDULER] = scheduler
    others = _other_fillers(kit, forms)
    corners = shadow.corners([filler for _, filler in others.values()])
    for (name, (description, _)), corner in zip(others.items(), corners, strict=True):
        window = _bound(shadow, corner, buffer, 0) or _window(corner, (-1, 0), description)
        if window:
            windows[name] = window
    return Windows(windows, whole_groups)


def _burst(steps: Steps | None) -> dict[str, Window]:
    """Return the dispatch width behind a fence as a window; empty if it was not seen."""
    if steps is None:
        return {}
    width = steps.width
    note = f"each {width} instructions before a chain and a fence take a cycle, "
    note += f"to {steps.off:.2f} cycles"
    return {BURST: Window(width, width, width, note)}


def _retirement(rate: float, error: float) -> Window:
    """Return the retirement width in whole numbers."""
    low, high = (round(rate + far * error) for far in (-_SURE, _SURE))
    note = f"{low} to {high}, " if low < high else ""
    summary = f"{note}{rate:.2f} +- {error:.2f} a cycle behind a chain, before a fence"
    return Window(round(rate), low, high, summary)


def _ends(shadow: Shadow, kit: Kit, nops: Filler, corner: Corner) -> tuple[int, int]:
    """Return the least and the most slots of a loop's count and branch; corner is that of nops.

    Pairs of the same instructions among the fillers, not taken, leave room for more fillers where
    they fuse.
    """
    closing = next(branch for branch in kit.BRANCHES if branch.kind == "z")
    if corner.at is None:
        return 1, _MOST_ENDS
    (pairs,) = shadow.near([replace(nops, lead=[kit.COUNT, closing.code] * _PAIRS)], corner)
    if pairs.at is None:
        return 1, _MOST_ENDS
    return (1, 1) if pairs.at - corner.at > _PAIRS / 2 else (_MOST_ENDS, _MOST_ENDS)


def _window(corner: Corner, surplus: tuple[int, int], description: str) -> Window | None:
    """Return the window that a corner shows; None without an answer.

    The window is larger than the corner by the first part of surplus, and possibly by the second.
    """
    sure, doubt = surplus
    if corner.at is None:
        if not corner.unseen:
            return None
        least = corner.most + sure
        note = f"at least: {corner.most} instructions {description}, as many as a loop takes, fit"
        return Window(least, least, least, note, least=True)
    low, high = corner.low + sure, corner.high + sure + doubt
    note = f"{low} to {high}, " if low < high else ""
    return Window(corner.at + sure, low, high, f"{note}{corner.at} instructions {description}")


def _bound(shadow: Shadow, corner: Corner, buffer: Window, nops: int) -> Window | None:
    """Return the lower bound of a window that is full no sooner than the reorder buffer.

    nops are those, at most, that round up the slots of an iteration.
    """
    if corner.at is None or shadow.slots(corner.high) + nops < buffer.low:
        return None
    least = corner.low - 1
    note = f"at least: {corner.at} instructions fill the reorder buffer first"
    return Window(least, least, least, note, least=True)


def _scheduler(
    shadow: Shadow, kit: Kit, width: int, buffer: Window
) -> tuple[Window | None, bool | None]:
    """Return the entries of the scheduler, and whether rename waits for room for a whole group."""
    fillers = {name: replace(f, whole=width) for name, f in window_corner.waiting(kit).items()}
    corners = dict(zip(fillers, shadow.corners(list(fillers.values())), strict=True))
    seen = {name: one.at for name, one in corners.items() if one.at is not None}
    bounds = {name: _bound(shadow, one, buffer, width) for name, one in corners.items()}
    bounds |= {n: _window(one, (0, 0), "that wait") for n, one in corners.items() if one.at is None}
    name = next(iter(corners))
    if name not in seen or bounds[name]:
        return max(filter(None, bounds.values()), key=lambda one: one.low, default=None), None
    note = ", ".join(f"{at} that compute in {kind}" for kind, at in seen.items())
    largest = max(seen, key=lambda kind: seen[kind])
    if seen[largest] > seen[name] + _UNIFIED:
        window = _window(corners[largest], (0, 0), f"that wait, of several schedulers: {note}")
        return (replace(window, kinds=seen) if window else None), None
    moved = [replace(fillers[name], first=first) for first in range(1, width)]
    by_first = dict(enumerate([corners[name], *shadow.near(moved, corners[name])]))
    by_first = {first: corner for first, corner in by_first.items() if corner.at is not None}
    return _entries(by_first, width, note, shadow.sharp)


def _entries(
    corners: Mapping[int, Corner], width: int, described: str, sharp: bool
) -> tuple[Window, bool | None]:
    """Return the scheduler's entries, and whether rename waits for room for a whole group.

    corners are those by the number of fillers before the chain, described in words.

    On a core that waits for room for a whole group, the group has to fit behind the fillers renamed
    before, and the corners follow these. On others they do not, except that the loop's branch may
    delay a chain that follows it; that says little where the chain is not sharp.
    """
    fitting = {first: corner.at or 0 for first, corner in corners.items()}
    single = [n for first, n in fitting.items() if first or len(fitting) == 1]
    grouped = [n + width - 1 - (f if f < width - 1 else 0) for f, n in fitting.items()]
    gain = _spread(single) - _spread(grouped)
    whole = None if abs(gain) < _CLEARLY or (gain < 0 and not sharp) else gain > 0
    if _spread(grouped if whole else single) > (_OFF_GROUPS if whole else 0):
        # Neither rule explains them, for example where the front end is slower than rename.
        whole = None
    sizes = {True: grouped, False: single, None: [*single, *grouped]}[whole]
    low, high = min(sizes), max(sizes)
    note = f"{low} to {high}, " if low < high else ""
    value = median_high(grouped if gain > 0 else single)
    return Window(value, low, high, f"{note}of what waits: {described}"), whole


def _spread(values: Sequence[int]) -> int:
    """Return the sum of the deviations from the median."""
    middle = median_high(values)
    return sum(abs(n - middle) for n in values)


def _other_fillers(kit: Kit, forms: Mapping[str, Form]) -> Mapping[str, tuple[str, Filler]]:
    """Return the fillers of other windows by window name, with a description."""
    fillers = {}
    for name, description, form_name, factor in (
        (STORES, "that store", kit.STORE, _DRAIN),
        ("load queue", "that load", kit.LOAD, _PLAIN),
    ):
        if form_name in forms:
            form = forms[form_name]
            code = form.encode({**form_instances.registers_for(form, {}), "disp": 0})
            fillers[name] = description, Filler([code], factor=factor)
    for kind, name in (("gpr", "general registers"), ("vector", "vector registers")):
        pool = kit.POOLS[kind]
        codes = [kit.transfer(kind, kind, pool.constant[0], to) for to in pool.own]
        fillers[name] = "that write one", Filler(codes)
    return fillers
