"""Ports of Zen 2 instructions, which the measured files leave out for integer,
load, store and branch uops. Rules and their sources: models/zen2/core.toml and the
comments below; latencies and uop counts are the measured ones."""

import re

FP = {"0": "a", "1": "b", "2": "c", "3": "d"}
ANY_ALU = "0123"
MULTIPLY = {"imul", "mul", "mulx"}  # ALU1: gcc znver.md
DIVIDE = {"div", "idiv"}  # ALU2: gcc znver.md
NO_PORT = {"nop", "prefetchw"}
COMPUTES_WITH_LOAD = re.compile(r"^v?(mov|lddqu|broadcast|pop|prefetch|ld)")


def vector(operands):
    return any(o in ("x", "y", "mm") for o in operands)


def moves(record, mnemonic, operands):
    plain = mnemonic in ("mov", "movaps", "movups", "movapd", "movupd", "movdqa", "movdqu", "vmovaps", "vmovups",
                         "vmovapd", "vmovupd", "vmovdqa", "vmovdqu")  # fmt: skip
    return plain and len(operands) == 2 and operands[0] == operands[1] and operands[0] in ("r32", "r64", "x", "y")


def figures(record, mnemonic, operands):
    base = mnemonic.split(".")[0]
    uops = record["uops"] or 1
    reads = any(o.get("mem_role") in ("read", "read_write") for o in record["operands"])
    writes = any(o.get("mem_role") in ("write", "read_write") for o in record["operands"])
    if base == "lea" or base == "nop":
        reads = writes = False
    ports = {}

    def add(names, count=1):
        if count > 0:
            ports[names] = ports.get(names, 0) + count

    fp = 0
    for names, count in (record["ports"] or {}).items():
        add("".join(FP[c] for c in names[2:]), count)
        fp += count
    if reads:
        add("45")
    if writes:
        add("456")
        add("s")
    if moves(record, mnemonic, operands):
        record["may_be_eliminated"] = True
        record["variants"] = {}
        ports = {}
    elif base in NO_PORT:
        ports = {}
    elif base.startswith("j") or base in ("call", "ret"):
        add("03", 1 if base != "call" else 1)  # branches: ALU0 and ALU3
    elif not fp:
        integer = max(uops, 1)
        pure = (reads or writes) and COMPUTES_WITH_LOAD.match(base) or base in ("push", "pop")
        if pure and uops == 1:
            integer = 0
        if vector(operands) and integer and (reads or writes):
            integer = 0
        if base in MULTIPLY:
            add("1")
            integer -= 1
        elif base in DIVIDE:
            add("2")
            integer -= 1
        elif base == "lea" and (len(base) and ("s" in mnemonic[3:] or mnemonic.endswith(".bid"))):
            add("12")  # scaled or three parts: latency 2, two a cycle
            integer = 0
        add(ANY_ALU if not vector(operands) else "abcd", integer)
    latencies = []
    for item in record["latencies"]:
        item = dict(item)
        # Forwarded or impossible memory latencies are left to the model's own load latency.
        if item.get("addr") is not None and item["addr"] < 4 and base != "lea":
            item.pop("addr")
        if base == "lea" and ("s" in mnemonic[3:] or mnemonic.endswith(".bid")) and "r16" not in operands:
            for key in ("addr", "addr_index"):
                if key in item:
                    item[key] = 2
        latencies.append(item)
    record["latencies"] = latencies
    if base in DIVIDE and not record["TP"]:
        record["TP"] = max([i["cycles"] or 0 for i in latencies] + [1])
    if record["variants"].get("same_reg") is not None or (base in ("xor", "sub", "pxor", "vpxor", "xorps", "vxorps",
                                                           "xorpd", "vxorpd") and len(operands) >= 2
                                                           and len(set(operands)) == 1):  # fmt: skip
        # A zero idiom breaks the dependency but still takes an ALU.
        record["zero_idiom"] = True
    if mnemonic.endswith((".rep", ".repne")):
        return None, None, None, None
    issue = uops
    ms = uops if uops > 2 else 0  # more than two macro-ops come from microcode
    return issue, issue - ms if not ms else 0, ms, ports
