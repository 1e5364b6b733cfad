"""Differences of the Zen cores that tables need. Sources: models/<core>/core.toml."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zen_kinds import GENERAL, Kind

KINDS = ("aps", "ups", "apd", "upd", "dqa", "dqu")
MOVES = {"mov"} | {f"{v}mov{kind}" for v in ("", "v") for kind in KINDS}
MOVES |= {f"vmovdq{kind}" for kind in ("a32", "a64", "u8", "u16", "u32", "u64")}
ZEROING = {"xor", "sub"}
# With one register twice these depend on nothing; in their VEX forms those of the first list
# need no unit on Zen 3 and Zen 4 (InstLatx64: 0.2 cycles and less against 0.25 and more).
FREE = (
    "pxor", "xorps", "xorpd", "psubb", "psubw", "psubd", "psubq", "pcmpgtb", "pcmpgtw", "pcmpgtd",
    "pcmpgtq", "pandn", "andnps", "andnpd", "pxord", "pxorq", "pandnd", "pandnq",
)  # fmt: skip
BREAKING = (
    *FREE, "psubsb", "psubsw", "psubusb", "psubusw", "pcmpeqb", "pcmpeqw", "pcmpeqd", "pcmpeqq",
)  # fmt: skip
COMPARES = frozenset({"cmp", "test"})
ARITHMETIC = frozenset({"add", "sub", "inc", "dec", "and", "or", "xor"})


@dataclass(frozen=True)
class Core:
    """Ports by what runs on them, and rules."""

    called: str
    # Records with latencies of pairs, and the core that they are of.
    records: str
    pairs: str
    source: str
    load: str
    vector_load: str
    address: str = "456"
    # The address of a store to where the instruction has loaded from.
    same_address: str = "456"
    store_data: str = "s"
    vector_store_data: str = "s"
    alu: str = "0123"
    vector_alu: str = "abcd"
    vector_pair: str = "bc"
    branch: str = "03"
    # Two ALUs of the four, for what runs twice a cycle; shifts and bit tests; selects by flags.
    pair: str = "12"
    shift: str = "0123"
    select: str = "0123"
    multiply: str = "1"
    divide: str = "2"
    # Ports of uops.info by its digits; a move from a general-purpose register has its own.
    vector: dict[str, str] = field(default_factory=dict)
    move_in: str = "m"
    vector_divide: str = "d"
    fuses: frozenset[str] = COMPARES
    eliminated_lea: bool = False
    free_zeroing: bool = True
    # Latency between the register files, in and out: what closes measured chains.
    to_vector: int = 4
    to_general: int = 2
    load_cycles: int = 4
    # Instructions of two uops are dispatched whole, and a base with an index makes two of one
    # that stores or changes a general-purpose register by an ALU.
    whole_pairs: bool = False
    no_port: frozenset[str] = frozenset({"nop", "prefetchw", "vzeroupper", "clc"})
    loads_plainly: frozenset[str] = frozenset()
    # Instructions of 256 bits are two uops of 128; summaries are those of pairs, so doubled.
    halves: bool = False

    def eliminates(self, kind: Kind) -> bool:
        """Say whether rename does the move."""
        ops = kind.operands
        if kind.mnemonic == "lea.b":
            return self.eliminated_lea and ops[0] in ("r32", "r64")
        plain = kind.base in MOVES and len(ops) == 2 and ops[0] == ops[1]
        return plain and not kind.mask and ops[0] in ("r32", "r64", "x", "y", "z")

    def zeroes(self, kind: Kind) -> bool:
        """Say whether the form with one register twice depends on nothing."""
        ops = [o for o in kind.operands if o in (*GENERAL, "x", "y", "z", "mm")]
        if kind.mask or len(ops) < 2 or len(ops) != len(kind.operands) or len(set(ops)) != 1:
            return False
        if kind.base in ZEROING:
            return ops[0] in ("r32", "r64")
        return kind.base.removeprefix("v") in BREAKING

    def zeroed_on(self, kind: Kind, ports: str) -> str:
        """Return the ports of such a form."""
        if not kind.vector:
            return "" if self.free_zeroing else ports
        if kind.base.removeprefix("v") not in FREE or "mm" in kind.operands:
            return ports
        return "" if self.free_zeroing and kind.base.startswith("v") else self.vector_alu


ZEN2 = Core(
    called="Zen 2",
    records="ZEN2",
    pairs="zen2",
    source="uops-info",
    load="45",
    vector_load="45",
    vector={"0": "a", "1": "b", "2": "c", "3": "d"},
    free_zeroing=False,
)
# Two address units for loads and stores together, and vector units of 128 bits.
ZEN1 = replace(
    ZEN2,
    called="Zen+",
    records="ZEN+",
    address="45",
    same_address="45",
    halves=True,
)
LATER = {"0": "a", "1": "b", "2": "c", "3": "d", "4": "e", "5": "e"}
ZEN3 = Core(
    called="Zen 3",
    records="ZEN3",
    pairs="zen3",
    source="uops-info",
    load="456",
    vector_load="45",
    store_data="st",
    same_address="uv",
    branch="03B",
    shift="12",
    select="03",
    vector=LATER,
    vector_divide="ab",
    fuses=COMPARES | ARITHMETIC,
    whole_pairs=True,
    eliminated_lea=True,
)
ZEN4 = replace(ZEN3, called="Zen 4", to_vector=5)
CORES = {"zen1": ZEN1, "zen2": ZEN2, "zen3": ZEN3, "zen4": ZEN4}
