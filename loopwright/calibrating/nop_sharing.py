"""Nops that share the dispatch slot of the instruction before them: bytes of both, at most.

Microbenchmarks: straight pairs of nops of 2 to 18 bytes together, on cores where nops share slots.
Pairs that are longer than the core allows take two slots.
"""

from collections.abc import Iterator

from loopwright.calibrating import fit
from loopwright.calibrating.core_model import CoreModel
from loopwright.calibrating.fit import Rules
from loopwright.microbench.forms import Kit
from loopwright.microbench.laboratory import Laboratory

BYTES = "macro_fusion.nop_bytes"
_FIRST = (1, 2, 3)  # bytes of the first nop: caches of decoded code hold many short pairs
_LONGEST = 15  # bytes of an instruction
_LEFT = 0.7  # share of the error without a limit that is left, at most
_UNPREFIXED = 9  # bytes of the longest nop without further prefixes


def kernels(kit: Kit) -> Iterator[tuple[str, list[bytes]]]:
    """Yield pairs of a short nop and one of each length."""
    for first in _FIRST:
        for second in range(1, _LONGEST + 1):
            body = kit.pad(min(second, _UNPREFIXED))[0]
            pair = [kit.pad(first)[0], b"\x66" * (second - len(body)) + body]
            yield f"nops of {first} and {second} bytes", pair


def choose_nop_bytes(laboratory: Laboratory, learned: CoreModel) -> CoreModel:
    """Return the learned core with the bytes of nops that share slots, if it limits them."""
    if laboratory.kit.BYTES or learned.width.nops:
        return learned
    pairs = dict(kernels(laboratory.kit))
    codes = list(pairs.values())
    tried: list[Rules] = [{}, *({BYTES: most} for most in range(2, _FIRST[-1] + _LONGEST))]
    return fit.with_less_error(
        laboratory,
        learned,
        [part for one in codes for part in one],
        lambda core: core.time(codes, "unrolled"),
        tried,
        f"pairs such as {next(iter(pairs))}",
        _LEFT,
        apart=False,
    )
