"""Derive models/<microarch>/instructions.csv for the x86 cores from measured figures.

Reads uops/<ARCH>.jsonl.gz (per-instruction figures measured by uops.info: Abel
and Reineke, ASPLOS 2019) under $LOOPWRIGHT_SHARED/data and writes our own table.
The layout is described in models/pipeline/README.md.
"""

import csv
import gzip
import json
import os
import re
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("LOOPWRIGHT_SHARED", REPO.parent / "shared"))

CORES = {
    "sandybridge": "SNB",
    "ivybridge": "IVB",
    "haswell": "HSW",
    "skylake": "SKL",
    "redwoodcove": "MTL-P",
    "zen2": "ZEN2",
}
COLUMNS = [
    "mnemonic",
    "operands",
    "issue",
    "mite",
    "ms",
    "decoder",
    "ports",
    "latency",
    "flags",
    "indexed",
    "same",
]

CONDITIONS = {"NB": "ae", "NBE": "a", "NL": "ge", "NLE": "g", "NZ": "ne", "Z": "e"}
SUPPRESSED = {
    "mul": ["rax", "rdx"], "imul": ["rax", "rdx"], "div": ["rax", "rdx"], "idiv": ["rax", "rdx"],
    "cdq": ["rdx", "rax"], "cqo": ["rdx", "rax"], "cwd": ["rdx", "rax"],
    "cdqe": ["rax", "rax"], "cwde": ["rax", "rax"], "cbw": ["rax", "rax"],
    "push": ["rsp"], "pop": ["rsp"], "leave": ["rbp", "rsp"], "cmpxchg": ["rax"],
    "lahf": ["rax"], "sahf": ["rax"], "mulx": ["rdx"], "xlatb": ["rax"],
}  # fmt: skip
SKIPPED = re.compile(r"^(F[A-Z0-9]+$|FX|BND|VGATHER|VPGATHER|MOV_CR|MOV_DR|XSAVE|XRSTOR)")
# uops.info measured taken branches, which Haswell and Skylake run on port 6 (ports.taken_branch).
# On Redwood Cove a taken dec and jnz that do not fuse were measured at two a cycle: port 6 alone
# cannot; ports 0 and 6 are those of jiegec's notes on Golden Cove.
BRANCH_PORTS = dict.fromkeys(("haswell", "skylake", "redwoodcove"), "06")
CONDITIONAL = re.compile(r"^j(?!mp|rcxz)")
# Ports and latencies of constants that Redwood Cove adds at rename, and those of the same
# instructions where it cannot: they run as other additions do.
ADDED_AT_RENAME = {("", "0>0:0 0>f:1"): ("0156B", "*:1"), ("", "a:0"): ("0156B", "a:1")}
FUSES = {"Z": "z", "B": "c", "BE": "a", "L": "l", "LE": "l", "S": "s", "P": "p", "O": "o"}


def name_of(string):
    """Our mnemonic and operand signature for a record, or None if it is left out."""
    match = re.match(r"^(\S+?)(?: \((.*)\))?$", string)
    name, operands = match.group(1), match.group(2) or ""
    if name.startswith("F") and name not in ("FS",):
        return None
    if SKIPPED.match(name) or name.endswith(("_W", "_REX64", "_EXCLUSIVE", "_CR", "_DR")):
        return None
    suffix = ""
    for tail, ours in (("_LOCK", ".lock"), ("_REPE", ".rep"), ("_REPNE", ".repne")):
        if name.endswith(tail):
            name, suffix = name[: -len(tail)], ours
    if name.startswith("LEA_"):
        parts = {"B": "b", "I": "i", "IS": "is", "D8": "d", "D32": "d", "R": "r"}
        suffix = "." + "".join(parts[p] for p in name[4:].split("_"))
        name = "LEA"
    name = re.sub(r"_(R[04]|NEAR|XMM|SSE4)$", "", name)
    name = re.sub(r"_(0F)?[0-9A-F]{2}$", "", name)
    name = re.sub(r"_(R[04]|NEAR|XMM|SSE4)$", "", name)
    for stem in ("J", "CMOV", "SET"):
        if name.startswith(stem) and name[len(stem) :] in CONDITIONS:
            name = stem + CONDITIONS[name[len(stem) :]]
    mnemonic = {"XLAT": "xlatb", "INT3": "int3"}.get(name, name.lower())
    ours = []
    for op in operands.split(", ") if operands else []:
        op = {
            "R8l": "r8",
            "R8h": "r8h",
            "XMM": "x",
            "YMM": "y",
            "MM": "mm",
            "FS": "seg",
            "GS": "seg",
        }.get(op, op)
        op = re.sub(r"^Rel(8|32)$", "rel", op).lower()
        ours.append(re.sub(r"^moffs", "m", op))
    if mnemonic.split(".")[0] in STRING and not operands:
        ours = []
    return mnemonic + suffix, ours


STRING = {f"{s}{w}" for s in ("movs", "stos", "lods", "scas", "cmps") for w in "bwdq"}


def ports_of(ports):
    """Return ports as our table writes them: 2*015+23."""
    return "+".join(f"{n}*{p}" if n != 1 else p for p, n in sorted((ports or {}).items()))


def labels(record, mnemonic, operands):
    """Map the record's operand names to ours: explicit position, f, m, or a register."""
    named, explicit, extra = {}, 0, 0
    for op in record["operands"]:
        kind = op["kind"]
        while explicit < len(operands) and re.match(r"^(i\d+|0|1|rel)$", operands[explicit]):
            if kind == "imm":
                break
            explicit += 1
        if kind == "flags":
            named[op["name"]] = "f"
        elif kind == "mem" or kind == "agen":
            named[op["name"]] = "m"
            if explicit < len(operands) and operands[explicit].startswith(("m", "v")):
                explicit += 1
        elif kind in ("imm", "relbr"):
            explicit += explicit < len(operands)
        elif explicit < len(operands):
            named[op["name"]] = str(explicit)
            explicit += 1
        else:
            base = mnemonic.split(".")[0]
            known = SUPPRESSED.get(base, [])
            if base == "imul" and len(operands) > 1:
                known = []
            if base in ("mul", "imul") and operands and operands[0] in ("r8", "r8h", "m8"):
                known = ["rax", "rax"]
            named[op["name"]] = known[extra] if extra < len(known) else f"s{extra}"
            extra += 1
    return named


def latency_of(record, mnemonic, operands, same=False):
    """Latencies as `from>to:cycles`; `a` address to result, `s` stored data to load."""
    named = labels(record, mnemonic, operands)
    plain, addr, mem, store, index = {}, {}, {}, {}, {}
    for item in record["latencies"]:
        src, dst = named.get(item["from"]), named.get(item["to"])
        if src is None or dst is None:
            continue
        cycles = item["cycles"]
        if same:
            if "same_reg" in item:
                plain[src, dst] = item["same_reg"]
            continue
        if src == "m" and dst == "m":
            continue
        if dst == "m":
            if cycles is not None:
                store[src] = cycles
        elif src == "m":
            if "addr" in item:
                addr[dst] = item["addr"]
            if "addr_index" in item:
                index[dst] = item["addr_index"]
            if "mem" in item:
                mem[dst] = item["mem"]
        elif cycles is not None:
            key = (src, dst)
            plain[key] = max(plain.get(key, 0), cycles)
    out = []
    hidden = {named.get(o["name"]) for o in record["operands"] if o["write"] and not o["read"]}
    merges = any(src == dst and src in hidden for src, dst in plain)
    if (
        plain
        and not merges
        and len(set(plain.values())) == 1
        and len({d for _, d in plain}) * len({s for s, _ in plain}) == len(plain)
    ):
        out.append(f"*:{next(iter(plain.values()))}")
    else:
        out += [f"{s}>{d}:{c}" for (s, d), c in sorted(plain.items())]
    for letter, table in (
        ("a", addr),
        ("x", index if mnemonic.startswith("lea") else {}),
        ("d", mem),
    ):
        values = set(table.values())
        if len(values) == 1:
            out.append(f"{letter}:{values.pop()}")
        else:
            out += [f"{letter}>{d}:{c}" for d, c in sorted(table.items())]
    if store:
        out.append(f"s:{max(store.values())}")
    return " ".join(out)


def decoder_of(figures):
    """Return what the instruction needs of the decoders, empty for nothing special."""
    if not figures.get("complex_decoder"):
        return ""
    simple = figures.get("available_simple_decoders")
    return f"c{simple if simple is not None else 0}"


def fuse_of(record):
    """Return the letters of the branches that the instruction fuses with."""
    letters = set()
    for partner in record["macro_fusible_with"]:
        name = partner.split()[0][1:]
        letters.add(FUSES[name.lstrip("N") if name.startswith("N") else name])
    return "".join(sorted(letters))


def row_of(record, mnemonic, operands, zen):
    """Return the figures of one record, in the order of COLUMNS after the form."""
    issue, mite, ms = record["retire_slots"], record["uops_MITE"], record["uops_MS"]
    ports = record["ports"]
    if zen:
        issue, mite, ms, ports = zen(record, mnemonic, operands)
    flags = []
    if record["may_be_eliminated"]:
        flags.append("elim")
    if record["TP"]:
        flags.append(f"tp={record['TP']:g}")
    elif record["div_cycles"]:
        flags.append(f"tp={record['div_cycles']}")
    fuse = fuse_of(record)
    if fuse:
        flags.append(f"fuse={fuse}")
    indexed = record["variants"].get("indexed")
    same = record["variants"].get("same_reg")
    idx = ""
    if indexed and not zen:
        figures = (indexed["retire_slots"], indexed["uops_MITE"], ports_of(indexed.get("ports")))
        if figures != (issue, mite, ports_of(ports)):
            idx = "{}:{}:{}".format(*figures)
    alike = ""
    if same and not zen:
        alike = f"{same['retire_slots']}:{same['uops_MITE']}:{ports_of(same.get('ports'))}"
    lat_same = latency_of(record, mnemonic, operands, same=True)
    if lat_same and not zen:
        alike = f"{alike or f'{issue}:{mite}:{ports_of(ports)}'}|{lat_same}"
    if record.get("zero_idiom"):
        alike = f"{issue}:{mite}:{ports_of(ports)}|*:0"
    latency = latency_of(record, mnemonic, operands)
    return (issue, mite, ms, decoder_of(record), ports_of(ports), latency,
            " ".join(flags), idx, alike)  # fmt: skip


def derive(core, arch, zen=None):
    """Write one core's instructions.csv from the measurements of one architecture."""
    rows, conflicts = {}, 0
    with gzip.open(SHARED / "data" / "uops" / f"{arch}.jsonl.gz", "rt") as lines:
        for line in lines:
            record = json.loads(line)
            form = name_of(record["string"])
            if form is None:
                continue
            if record["retire_slots"] is None and not zen:
                continue
            mnemonic, operands = form
            figures = row_of(record, mnemonic, operands, zen)
            if figures is None or figures[0] is None or max(figures[0], figures[2] or 0) > 400:
                continue
            if core in BRANCH_PORTS and CONDITIONAL.match(mnemonic):
                figures = (*figures[:4], BRANCH_PORTS[core], *figures[5:])
            if core == "redwoodcove" and figures[4:6] in ADDED_AT_RENAME:
                figures = (*figures[:4], *ADDED_AT_RENAME[figures[4:6]], *figures[6:])
            key = (mnemonic, ",".join(operands))
            if key in rows and rows[key] != figures:
                conflicts += 1
                continue
            rows[key] = figures
    groups = {}
    for (mnemonic, operands), figures in rows.items():
        groups.setdefault((mnemonic, figures), []).append(operands)
    path = REPO / "models" / core / "instructions.csv"
    with path.open("w", newline="") as out:
        out.write(
            f"# Source: uops.info measurements ({arch}), Abel and Reineke, ASPLOS 2019; "
            "layout: models/pipeline/README.md\n"
        )
        table = csv.writer(out, lineterminator="\n")
        table.writerow(COLUMNS)
        for (mnemonic, figures), operands in sorted(
            groups.items(), key=lambda kv: (kv[0][0], kv[1])
        ):
            table.writerow([mnemonic, ";".join(operands), *figures])
    print(
        f"{core}: {len(rows)} forms in {len(groups)} rows, {path.stat().st_size} bytes, "
        f"{conflicts} differing duplicates"
    )


def main():
    """Derive the tables of the cores named, or of all."""
    if not (SHARED / "data" / "uops").is_dir():
        sys.exit(f"no figures under {SHARED}: set LOOPWRIGHT_SHARED")
    wanted = sys.argv[1:] or list(CORES)
    for core in wanted:
        zen = None
        if core == "zen2":
            from derive_zen2 import figures as zen
        derive(core, CORES[core], zen)


if __name__ == "__main__":
    main()
