"""Vector rows of insn_bench_aarch64 as code: see insn_bench.py."""

from __future__ import annotations

import re

FULL = {"b": "16b", "h": "8h", "s": "4s", "d": "2d"}
HALF = {"b": "8b", "h": "4h", "s": "2s", "d": "1d"}
WIDER = {"b": "h", "h": "s", "s": "d", "d": "q"}
NARROWER = {"h": "b", "s": "h", "d": "s"}
LONG = re.compile(r"([su](addl|subl|abdl|abal|mull|mlal|mlsl)|sqdml[as]l|sqdmull|pmull)(2?)")
WIDE = re.compile(r"[su](add|sub)w(2?)")
NARROW = re.compile(r"r?(add|sub)hn(2?)")
ACCUMULATES = re.compile(
    r"(ml[as]|[su]ml[as]l2?|sqdml[as]l2?|sqrdml[as]h|fml[as]|[su]abal?2?|[su]dot)$"
)
ACROSS = re.compile(r"([su](max|min)|add|fmax(nm)?|fmin(nm)?)v")
SHIFT_RIGHT = re.compile(r"[su]r?shr|[su]r?sra|sri")
SHIFT_LEFT = re.compile(r"shl|sli|sqshlu?|uqshl")
SHIFT_NARROW = re.compile(r"(r?shrn|[su]q(r?)shrn|sqr?shrun)(2?)")
SHIFT_REGISTER = re.compile(r"[su]q?r?shl")
EXTRACT_NARROW = re.compile(r"(xtn|[su]qxtn|sqxtun)(2?)")
EXTEND = re.compile(r"[su]xtl(2?)")
ELEMENT = re.compile(r"elem; (?:v\.)?([bhs]?d?)\[(\d+)\]")
CONVERT = re.compile(r"fcvt(as|au|zs|zu|ms|mu|ns|nu|ps|pu)|frint[aimnpxz]")
ONE = {
    "abs", "neg", "sqabs", "sqneg", "not", "mvn", "rbit", "rev16", "rev32", "rev64", "cls", "clz",
    "cnt", "fabs", "fneg", "fsqrt", "frecpe", "frsqrte", "frecpx", "urecpe", "ursqrte", "suqadd",
    "usqadd",
}  # fmt: skip
CRYPTO = {"aese": 1, "aesd": 1, "aesmc": 1, "aesimc": 1}

Text = tuple[str, bool]


def _three(op: str, kind: str, last: str = "") -> str:
    return f"{op} v{{d}}.{kind}, v{{a}}.{kind}, {last or f'v28.{kind}'}"


def text(name: str) -> Text | None:
    """Return the instruction of a row and whether its latency is from {a} to {d}."""
    found = re.fullmatch(r"(\w+)(?:\.([bhsd]))?(?: \((.*)\))?", name)
    if not found:
        return None
    op, size, what = found[1], found[2] or "", found[3] or ""
    if op in CRYPTO:
        return f"{op} v{{d}}.16b, v{{a}}.16b", True
    if op in ("sha1c", "sha1m", "sha1p"):
        return f"{op} q{{d}}, s{{a}}, v28.4s", True
    if op in ("tbl", "tbx"):
        count = int(what[-1])
        table = ", ".join(f"v{20 + n}.16b" for n in range(count))
        return f"{op} v{{d}}.16b, {{{{{table}}}}}, v{{a}}.16b", True
    if op.startswith("fcvt") and "->" in what and not size:
        return _convert(op, what)
    if op in ("fcvtxn", "fcvtxn2"):
        return f"{op} v{{d}}.{'2s' if op == 'fcvtxn' else '4s'}, v{{a}}.2d", True
    if not size:
        return None
    forwards = "acc. fwd." in what
    what = what.replace("; acc. fwd.", "").replace("acc. fwd.", "")
    made = _scalar(op, size, what) if what.startswith(("scl", "eq", "le")) else None
    if made is None and re.fullmatch(r"fn?m(add|sub)", op):
        made = f"{op} {size}{{d}}, {size}{{a}}, {size}28, {size}29"
    if made is None and re.fullmatch(r"fcmpe?", op):
        return f"{op} {size}{{a}}, " + ("#0.0" if what == "zero" else f"{size}28"), False
    if made is None:
        made = _vector(op, size, what)
    if made is None:
        return None
    if forwards:
        made = _through_accumulator(made)
    return made, "-> reg" not in what and not op.startswith("fccmp")


def _through_accumulator(made: str) -> str:
    """Let the latency go through the register that is added to."""
    if re.match(r"fn?m(add|sub) ", made):
        return re.sub(r"(\w)\{a\}(, \w28, )\w29", r"\g<1>29\2\1{a}", made)
    return made.replace("{a}", "27")


def _convert(op: str, what: str) -> Text | None:
    one, two = what.split(" -> ")
    if op == "fcvt":
        return f"fcvt {two}{{d}}, {one}{{a}}", True
    narrow, wide = (one, two) if op.startswith("fcvtl") else (two, one)
    short = FULL[narrow] if op.endswith("2") else HALF[narrow]
    kinds = (FULL[wide], short) if op.startswith("fcvtl") else (short, FULL[wide])
    return f"{op} v{{d}}.{kinds[0]}, v{{a}}.{kinds[1]}", True


def _scalar(op: str, size: str, what: str) -> str | None:
    if what in ("eq", "le"):
        if op == "fcsel":
            return f"fcsel {size}{{d}}, {size}{{a}}, {size}28, {what}"
        return f"{op} {size}{{a}}, {size}28, #0, {what}"
    if op in ("scvtf", "ucvtf"):
        return f"{op} {size}{{d}}, {size}{{a}}" + (", #2" if ">>2" in what else "")
    if "-> reg" in what:
        return f"{op} x{{d}}, {size}{{a}}"
    narrow = EXTRACT_NARROW.fullmatch(op)
    if narrow:
        return f"{op} {NARROWER[size]}{{d}}, {size}{{a}}"
    if re.fullmatch(r"f(add|max|min|maxnm|minnm)p", op):
        return f"{op} {size}{{d}}, v{{a}}.2{size}"
    if "zero" in what:
        return f"{op} {size}{{d}}, {size}{{a}}, #0.0"
    if op in ONE or CONVERT.fullmatch(op):
        return f"{op} {size}{{d}}, {size}{{a}}"
    return f"{op} {size}{{d}}, {size}{{a}}, {size}28"


def _vector(op: str, size: str, what: str) -> str | None:
    full, half = FULL[size], HALF[size]
    element = ELEMENT.match(what)
    last = f"v15.{size}[{element[2]}]" if element else ""
    if op in ("sdot", "udot"):
        last = f"v15.4b[{element[2]}]" if element else "v28.16b"
        return f"{op} v{{d}}.4s, v{{a}}.16b, {last}"
    if LONG.fullmatch(op):
        wide = "1q" if size == "d" else FULL[WIDER[size]]
        short = full if op.endswith("2") else half
        return f"{op} v{{d}}.{wide}, v{{a}}.{short}, {last or f'v28.{short}'}"
    if WIDE.fullmatch(op):
        short = (FULL if op.endswith("2") else HALF)[NARROWER[size]]
        return f"{op} v{{d}}.{full}, v{{a}}.{full}, v28.{short}"
    if NARROW.fullmatch(op):
        short = (FULL if op.endswith("2") else HALF)[NARROWER[size]]
        return f"{op} v{{d}}.{short}, v{{a}}.{full}, v28.{full}"
    if re.fullmatch(r"[su]addlp|[su]adalp", op):
        return f"{op} v{{d}}.{FULL[WIDER[size]]}, v{{a}}.{full}"
    if re.fullmatch(r"[su]addlv", op):
        return f"{op} {WIDER[size]}{{d}}, v{{a}}.{full}"
    if ACROSS.fullmatch(op):
        return f"{op} {size}{{d}}, v{{a}}.{full}"
    return _shift(op, size, what) or _other(op, size, what, last)


def _shift(op: str, size: str, what: str) -> str | None:
    full = FULL[size]
    found = SHIFT_NARROW.fullmatch(op) or EXTRACT_NARROW.fullmatch(op)
    if found:
        short = (FULL if op.endswith("2") else HALF)[NARROWER[size]]
        amount = ", #2" if SHIFT_NARROW.fullmatch(op) else ""
        return f"{op} v{{d}}.{short}, v{{a}}.{full}{amount}"
    if EXTEND.fullmatch(op):
        return f"{op} v{{d}}.{FULL[WIDER[size]]}, v{{a}}.{full if op[-1] == '2' else HALF[size]}"
    if re.fullmatch(r"[su]?shll2?", op):
        amount = re.search(r"<<(\d+)", what)
        short = full if op.endswith("2") else HALF[size]
        return f"{op} v{{d}}.{FULL[WIDER[size]]}, v{{a}}.{short}, #{amount[1] if amount else 2}"
    if "reg" not in what and (SHIFT_RIGHT.fullmatch(op) or SHIFT_LEFT.fullmatch(op)):
        return f"{op} v{{d}}.{full}, v{{a}}.{full}, #2"
    if SHIFT_REGISTER.fullmatch(op):
        return _three(op, full)
    return None


def _other(op: str, size: str, what: str, last: str) -> str | None:
    full = FULL[size]
    if op in ("movi", "mvni"):
        amount = re.search(r"0x(\w+)(?:<<(\d+))?", what)
        if not amount:
            return None
        shift = f", lsl #{amount[2]}" if amount[2] else ""
        return f"{op} v{{d}}.{full}, #0x{amount[1]}{shift}"
    if op in ("orr", "bic") and size != "b":
        return f"{op} v{{d}}.{full}, #2" + (", lsl #8" if "<<8" in what else "")
    if op == "dup":
        lane = re.search(r"lane = (\d+)", what)
        return f"dup v{{d}}.{full}, v{{a}}.{size}[{lane[1]}]" if lane else None
    if op == "ext":
        return f"ext v{{d}}.16b, v{{a}}.16b, v28.16b, #{what[2:]}"
    if op in ("mov", "smov", "umov", "fmov") or ("fcvt" in op and "->" in what):
        return None
    if op in ("scvtf", "ucvtf"):
        return f"{op} v{{d}}.{full}, v{{a}}.{full}" + (", #2" if ">>2" in what else "")
    if "zero" in what:
        return f"{op} v{{d}}.{full}, v{{a}}.{full}, #0" + (".0" if op[0] == "f" else "")
    if op in ONE or CONVERT.fullmatch(op):
        return f"{op} v{{d}}.{full}, v{{a}}.{full}"
    if op == "pmul" or op in ("and", "orn", "eor", "bif", "bit", "bsl"):
        return _three(op, "16b")
    return _three(op, full, last)
