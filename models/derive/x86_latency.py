"""Latencies between operands, as measured and as a table writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from inputs import Record
from x86_forms import labels

Pair = tuple[str, str]


@dataclass
class Latencies:
    """Cycles by pairs of our operand labels, and from addresses and index registers."""

    plain: dict[Pair, int] = field(default_factory=dict)
    addr: dict[str, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    merges: bool = False

    def change(self, rule: Callable[[str, str, int], int]) -> None:
        """Replace the cycles of each pair of labels; `m` is the address of a load."""
        self.plain = {(a, b): rule(a, b, c) for (a, b), c in self.plain.items()}
        self.addr = {b: rule("m", b, c) for b, c in self.addr.items()}


def read(record: Record, mnemonic: str, operands: list[str]) -> Latencies:
    """Return what was measured between the operands of a form.

    What uops.info says of data that go through memory is left out: forwarding is a matter of the
    core (memory.forward_cycles), and measured blocks are met worse with it.
    """
    named = labels(record, mnemonic, operands)
    out = Latencies()
    for item in record["latencies"]:
        src, dst = named.get(item["from"]), named.get(item["to"])
        if src is None or dst is None or dst == "m":
            continue
        cycles = item["cycles"]
        if src == "m":
            for key, table in (("addr", out.addr), ("addr_index", out.index)):
                if key in item:
                    table[dst] = item[key]
            if "VSIB" in record["string"]:
                # The indices count, which take longer than the base; the mask is cleared at once.
                out.addr[dst] = out.index.get(dst, 0) if dst == "0" else 0
        elif cycles is not None:
            out.plain[src, dst] = max(out.plain.get((src, dst), 0), cycles)
    hidden = {named.get(o["name"]) for o in record["operands"] if o["write"] and not o["read"]}
    out.merges = any(src == dst and src in hidden for src, dst in out.plain)
    return out


def same_register(record: Record, mnemonic: str, operands: list[str]) -> str:
    """Return the latencies with the same register twice, empty if they were not measured."""
    named = labels(record, mnemonic, operands)
    found = Latencies()
    for item in record["latencies"]:
        src, dst = named.get(item["from"]), named.get(item["to"])
        if src is not None and dst is not None and "same_reg" in item:
            found.plain[src, dst] = item["same_reg"]
    hidden = {named.get(o["name"]) for o in record["operands"] if o["write"] and not o["read"]}
    found.merges = any(src == dst and src in hidden for src, dst in found.plain)
    return text(found, mnemonic)


def text(found: Latencies, mnemonic: str) -> str:
    """Return `from>to:cycles`; `a` address to result, `x` index register of lea to result."""
    plain = found.plain
    out = []
    sources, targets = {s for s, _ in plain}, {d for _, d in plain}
    whole = len(set(plain.values())) == 1 and len(sources) * len(targets) == len(plain)
    if plain and not found.merges and whole:
        out.append(f"*:{next(iter(plain.values()))}")
    else:
        out += [f"{s}>{d}:{c}" for (s, d), c in sorted(plain.items())]
    index = found.index if mnemonic.startswith("lea") else {}
    for letter, table in (("a", found.addr), ("x", index)):
        values = set(table.values())
        if len(values) == 1:
            out.append(f"{letter}:{values.pop()}")
        else:
            out += [f"{letter}>{d}:{c}" for d, c in sorted(table.items())]
    return " ".join(out)
