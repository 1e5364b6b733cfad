"""Schedulers that an ALU and an AGU share, where rename gives uops their ports in rotation.

Such a scheduler accepts few uops in a cycle, so that rename gives an access another AGU, and one of
them gets more than the others. Microbenchmarks: straight code of loads, stores, computing uops that
nothing waits for, and moves that need no port, in random order. The branch of a loop would change
which port is next in each iteration, so that the conflicts of one are made good in another. The
hypotheses: no shared schedulers, or one for each load port with one of the ports in rotation, by
the ports left over and by the uops that each accepts.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from loopwright.calibrating import core_files, fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.fit import Rules
from loopwright.microbench.forms import BASE, DISPLACEMENT, Form
from loopwright.microbench.laboratory import Figure, Laboratory

ROTATED = "ports.rotated"
SHARED, ACCEPTED = "ports.shared", "ports.shared_uops"
_SEED, _KERNELS = 67, 60
_GROUPS = (1, 1, 2)  # cycles of dispatch that a copy takes, at least
_LOAD, _STORE, _COMPUTING, _MOVE = "load", "store", "add", "move"
_KINDS = {_LOAD: 0.6, _COMPUTING: 0.3, _STORE: 0.05, _MOVE: 0.05}  # shares of the uops
_UOPS = (2, 1, 3)  # that a scheduler accepts in a cycle; the first one wins ties
_WORD = 8  # bytes: loads of one word could have a bank conflict
_LESS = 0.8  # share of the error without shared schedulers that is left, at most


def choose_shared(laboratory: Laboratory, learned: CoreModel, forms: Sequence[Form]) -> CoreModel:
    """Return the learned core with the schedulers that ALUs and AGUs share, if rename rotates."""
    kit = laboratory.kit
    named = {form.name: form for form in forms if learned.has_ports(form.name)}
    loads = learned.core.class_ports(kit.LOAD)
    if ROTATED not in learned.rules or loads is None or not {kit.LOAD, kit.STORE} <= set(named):
        return learned
    bodies = dict(_kernels(named[kit.LOAD], named[kit.STORE], learned.width.instructions))
    codes = [b"".join(kernel) for kernel in bodies.values()]

    def time(core: Laboratory) -> list[Figure]:
        return core.time(list(bodies.values()), "unrolled")

    rotated = str(learned.rules[ROTATED][0])
    tried = list(_hypotheses(rotated, loads))
    kind = f"loops such as {next(iter(bodies))}"
    return fit.with_less_error(laboratory, learned, codes, time, tried, kind, _LESS)


def _hypotheses(rotated: str, loads: frozenset[int]) -> Iterator[Rules]:
    """Yield no shared schedulers, then those of each load port and a port in rotation."""
    yield {}
    names = [core_files.letters(frozenset({port})) for port in sorted(loads)]
    for uops in _UOPS:
        for some in combinations(rotated, min(len(names), len(rotated))):
            pairs = [f"{one}{other}" for one, other in zip(some, names, strict=False)]
            yield {SHARED: " ".join(pairs), ACCEPTED: uops}


def _kernels(load: Form, store: Form, width: int) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Yield accesses of one line, computing uops and moves in random order.

    Dispatch takes whole copies, so that a scheduler which is full once is full in each.
    """
    draw = random.Random(_SEED)
    kit, pool = load.kit, load.kit.POOLS["gpr"]
    for _ in range(_KERNELS):
        length = width * draw.choice(_GROUPS)
        drawn = draw.choices(list(_KINDS), list(_KINDS.values()), k=length)
        kernel = []
        for word, kind in enumerate(drawn):
            register = draw.choice(pool.others)
            if kind == _LOAD:
                kernel.append(_access(load, word, register))
            elif kind == _STORE:
                kernel.append(_access(store, word, pool.constant[1]))
            elif kind == _COMPUTING:
                kernel.append(kit.transfer("gpr", "gpr", pool.constant[0], register))
            else:
                kernel.append(kit.MOVE)
        yield " ".join(drawn), kernel


def _access(form: Form, word: int, register: int) -> bytes:
    """Return a load or a store of a word by a base that stays."""
    given: Mapping[str, int] = {BASE: form.kit.POOLS["gpr"].constant[0], DISPLACEMENT: _WORD * word}
    others = {one.label: register for one in form.chosen}
    return form.encode({**others, **given})
