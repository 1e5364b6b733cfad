"""Derive models/<microarch>/instructions.csv for the AArch64 cores.

Asks llvm-mca for the uops, latency and ports of sample instructions in LLVM's
scheduling model of a core, names each by our own form (examples/forms.rs), and
puts in the figures that were measured or documented otherwise. The layout of
the table is described in models/pipeline/README.md.

    derive_arm64.py FORMS_PROGRAM     writes both tables
"""

import csv
import json
import re
import subprocess
import sys
import tempfile
from itertools import combinations_with_replacement
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
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
TARGET = ["-triple=aarch64", "-mattr=+v8.2a,+crc"]

# Groups of LLVM's units that a uop may run on, as our port names.
NEOVERSE_N1 = {
    "ports": {
        "B": "B",
        "D.\0": "D",
        "D.\1": "E",
        "L.\0": "L",
        "L.\1": "K",
        "M": "M",
        "S.\0": "S",
        "S.\1": "T",
        "V0": "V",
        "V1": "W",
    },
    "groups": ["B", "STM", "ST", "M", "LK", "DE", "VW", "V", "W"],
}
TSV110 = {
    "ports": {
        "AB.\0": "B",
        "AB.\1": "C",
        "ALU": "A",
        "FSU1": "F",
        "FSU2": "G",
        "Ld0St": "S",
        "Ld1": "L",
        "MDU": "M",
    },
    "groups": ["ABC", "BC", "A", "M", "FG", "F", "G", "LS", "S", "L"],
}
CORES = {"neoverse-n1": ("N1Unit", NEOVERSE_N1), "tsv110": ("TSV110Unit", TSV110)}
SOURCES = {
    "neoverse-n1": "LLVM 19 AArch64SchedNeoverseN1.td, by llvm-mca",
    "tsv110": "LLVM 19 AArch64SchedTSV110.td, by llvm-mca; move elimination, load-use of indexed addresses: "
    "measured, Chips and Cheese 2025-07-23",
}


def samples():
    """Sample instructions, every form at least once."""
    lines = ["nop", "b .", "b.ne .", "bl .", "br x1", "blr x1", "ret", "adr x0, .", "adrp x0, ."]
    for r in "wx":
        a, b, c, d = (f"{r}{n}" for n in range(4))
        lines += [f"{op} {a}, {b}, #4" for op in ("add", "adds", "sub", "subs")]
        for op in ("add", "adds", "sub", "subs"):
            lines += [f"{op} {a}, {b}, {c}{s}" for s in ("", ", lsl #3", ", lsl #7")] + [
                f"{op} {a}, {b}, w2, uxtb #2"
            ]
        lines += [f"{op} {a}, {b}, #0xff" for op in ("and", "ands", "orr", "eor")]
        for op in ("and", "ands", "bic", "bics", "orr", "orn", "eor", "eon"):
            lines += [f"{op} {a}, {b}, {c}", f"{op} {a}, {b}, {c}, lsl #7"]
        lines += [
            f"{op} {a}, {b}, {c}"
            for op in (
                "adc",
                "adcs",
                "sbc",
                "sbcs",
                "lslv",
                "lsrv",
                "asrv",
                "rorv",
                "udiv",
                "sdiv",
                "mul",
                "mneg",
            )
        ]
        lines += [f"{op} {a}, {b}" for op in ("mov", "clz", "cls", "rbit", "rev16", "rev")] + [
            f"mov {a}, {r}zr"
        ]
        lines += [f"{op} {a}, #7" for op in ("movz", "movn", "movk")]
        lines += [f"{op} {a}, {b}, #3, #4" for op in ("ubfx", "sbfx", "bfi")] + [
            f"ror {a}, {b}, #3",
            f"extr {a}, {b}, {c}, #3",
        ]
        lines += [f"{op} {a}, {b}, {c}, {d}" for op in ("madd", "msub")]
        lines += [f"{op} {a}, {b}, {c}, ne" for op in ("csel", "csinc", "csinv", "csneg")]
        lines += [f"{op} {a}, {b}, #0, ne" for op in ("ccmp", "ccmn")] + [
            f"{op} {a}, #3, #0, ne" for op in ("ccmp", "ccmn")
        ]
        lines += [f"cbz {a}, .", f"cbnz {a}, .", f"tbz {a}, #3, .", f"tbnz {a}, #3, ."]
    lines += ["rev32 x0, x1", "smulh x0, x1, x2", "umulh x0, x1, x2"]
    lines += [f"{op} x0, w1, w2, x3" for op in ("smaddl", "umaddl", "smsubl", "umsubl")] + [
        "smull x0, w1, w2",
        "umull x0, w1, w2",
    ]
    for c in ("", "c"):
        lines += [f"crc32{c}{s} w0, w1, {'x' if s == 'x' else 'w'}2" for s in "bhwx"]
    lines += memory() + vector()
    return lines


def memory():
    lines = [
        "ldr x0, .",
        "ldr w0, .",
        "ldrsw x0, .",
        "ldr s0, .",
        "ldr d0, .",
        "ldr q0, .",
        "prfm pldl1keep, [x1, #8]",
    ]
    lines += [
        "prfum pldl1keep, [x1, #-8]",
        "prfm pldl1keep, [x1, x2]",
        "prfm pldl1keep, [x1, x2, lsl #3]",
    ]
    lines += ["prfm pldl1keep, [x1, w2, sxtw]", "prfm pldl1keep, [x1, w2, sxtw #3]"]
    regular = [
        ("ldr", "x", 3),
        ("ldr", "w", 2),
        ("ldrb", "w", 0),
        ("ldrh", "w", 1),
        ("ldrsb", "w", 0),
        ("ldrsb", "x", 0),
    ]
    regular += [
        ("ldrsh", "w", 1),
        ("ldrsh", "x", 1),
        ("ldrsw", "x", 2),
        ("str", "x", 3),
        ("str", "w", 2),
        ("strb", "w", 0),
        ("strh", "w", 1),
    ]
    floats = [(op, r, n) for op in ("ldr", "str") for n, r in enumerate("bhsdq")]
    for op, r, scale in regular + floats:
        lines += [
            f"{op} {r}0, [x1, #{1 << scale}]",
            f"{op} {r}0, [x1], #8",
            f"{op} {r}0, [x1, #8]!",
        ]
        lines += [f"{op} {r}0, [x1, x2]", f"{op} {r}0, [x1, w2, sxtw]"]
        if scale:
            lines += [f"{op} {r}0, [x1, x2, lsl #{scale}]", f"{op} {r}0, [x1, w2, uxtw #{scale}]"]
        lines.append(f"{op.replace('ldr', 'ldur').replace('str', 'stur')} {r}0, [x1, #-1]")
        if (op, r, scale) in regular:
            lines.append(f"{op.replace('ldr', 'ldtr').replace('str', 'sttr')} {r}0, [x1, #8]")
    for r in "wxsdq":
        for op in ("ldp", "stp"):
            lines += [f"{op} {r}0, {r}1, [x2{s}" for s in (", #16]", "], #16", ", #16]!")]
        lines += [f"{op} {r}0, {r}1, [x2, #16]" for op in ("ldnp", "stnp")]
    lines += [f"ldpsw x0, x1, [x2{s}" for s in (", #16]", "], #16", ", #16]!")]
    for op in ("ld1", "st1"):
        for kind, size in (("16b", 16), ("8b", 8)):
            for count in range(1, 5):
                registers = ", ".join(f"v{n}.{kind}" for n in range(count))
                lines += [
                    f"{op} {{{registers}}}, [x1{s}" for s in ("]", f"], #{size * count}", "], x2")
                ]
    return lines


def vector():
    lines = []
    sizes = ["8b", "16b", "4h", "8h", "2s", "4s", "2d"]
    for op in "add sub cmeq cmgt cmge cmhi cmhs cmtst addp sshl ushl uqadd sqadd uqsub sqsub zip1 zip2 uzp1 uzp2 trn1 trn2".split():
        lines += [f"{op} v0.{s}, v1.{s}, v2.{s}" for s in sizes]
    for op in "smax smin umax umin smaxp sminp umaxp uminp mul mla mls uhadd shadd urhadd srhadd uabd sabd uaba saba".split():
        lines += [f"{op} v0.{s}, v1.{s}, v2.{s}" for s in sizes[:-1]]
    for op in "and bic orr orn eor bsl bit bif pmul".split():
        lines += [f"{op} v0.{s}, v1.{s}, v2.{s}" for s in sizes[:2]]
    for op in (
        "fadd fsub fmul fdiv fmla fmls fmax fmin fmaxnm fminnm fabd fcmeq fcmge fcmgt faddp".split()
    ):
        lines += [f"{op} v0.{s}, v1.{s}, v2.{s}" for s in ("2s", "4s", "2d")]
    lines += [f"mov v0.{s}, v1.{s}" for s in ("8b", "16b")]
    lines += [f"{op} v0.{s}, v1.{s}" for op in ("not", "cnt", "rbit") for s in sizes[:2]]
    lines += [f"{op} v0.{s}, v1.{s}" for op in ("neg", "abs") for s in sizes]
    lines += [f"{op} v0.{s}, v1.{s}" for op in ("clz", "cls") for s in sizes[:-1]]
    lines += (
        [f"rev64 v0.{s}, v1.{s}" for s in sizes[:-1]]
        + [f"rev32 v0.{s}, v1.{s}" for s in sizes[:4]]
        + [f"rev16 v0.{s}, v1.{s}" for s in sizes[:2]]
    )
    lines += [
        f"{op} v0.{s}, v1.{s}, #0" for op in ("cmeq", "cmgt", "cmge", "cmle", "cmlt") for s in sizes
    ]
    lines += [
        f"{op} v0.{s}, v1.{s}" for op in ("fabs", "fneg", "fsqrt") for s in ("2s", "4s", "2d")
    ]
    lines += [f"xtn v0.{a}, v1.{b}" for a, b in (("8b", "8h"), ("4h", "4s"), ("2s", "2d"))]
    across = [
        ("8b", "b", "h"),
        ("16b", "b", "h"),
        ("4h", "h", "s"),
        ("8h", "h", "s"),
        ("4s", "s", "d"),
    ]
    lines += [
        f"{op} {r}0, v1.{s}"
        for op in ("addv", "smaxv", "sminv", "umaxv", "uminv")
        for s, r, _ in across
    ]
    lines += [f"{op} {r}0, v1.{s}" for op in ("uaddlv", "saddlv") for s, _, r in across]
    for op in ("shl", "sshr", "ushr", "urshr"):
        lines += [f"{op} v0.4s, v1.4s, #3", f"{op} v0.2s, v1.2s, #3"]
    lines += [
        "sshll v0.8h, v1.8b, #3",
        "ushll v0.8h, v1.8b, #3",
        "sshll2 v0.8h, v1.16b, #3",
        "ushll2 v0.8h, v1.16b, #3",
        "shrn v0.8b, v1.8h, #3",
    ]
    lines += ["ext v0.16b, v1.16b, v2.16b, #3", "ext v0.8b, v1.8b, v2.8b, #3"]
    for s in ("4s", "2s"):
        lines += [f"{op} v0.{s}, #3" for op in ("movi", "mvni", "orr", "bic")] + [
            f"fmov v0.{s}, #1.0"
        ]
    lines += [
        "dup v0.4s, w1",
        "dup v0.4s, v1.s[1]",
        "mov v0.s[1], w1",
        "mov v0.s[1], v1.s[2]",
        "umov w0, v1.b[3]",
        "smov x0, v1.b[3]",
    ]
    for r in "sd":
        lines += [f"{op} {r}0, {r}1" for op in ("fmov", "fabs", "fneg", "fsqrt", "fcmp", "fcmpe")]
        lines += [
            f"{op} {r}0, {r}1, {r}2"
            for op in "fadd fsub fmul fnmul fdiv fmax fmin fmaxnm fminnm".split()
        ]
        lines += [f"{op} {r}0, {r}1, {r}2, {r}3" for op in ("fmadd", "fmsub", "fnmadd", "fnmsub")]
        for g in "wx":
            lines += [f"{op} {r}0, {g}1" for op in ("scvtf", "ucvtf")] + [
                f"{op} {g}0, {r}1" for op in ("fcvtzs", "fcvtzu")
            ]
    lines += ["fmov s0, w1", "fmov d0, x1", "fmov w0, s1", "fmov x0, d1"]
    return lines


def encodings(lines):
    """Bytes of each line as hex."""
    with tempfile.TemporaryDirectory() as folder:
        built, flat = f"{folder}/samples.o", f"{folder}/samples.bin"
        subprocess.run(
            ["llvm-mc-19", *TARGET, "-filetype=obj", "-o", built],
            input="\n".join(lines),
            text=True,
            check=True,
        )
        subprocess.run(["llvm-objcopy", "-O", "binary", "-j", ".text", built, flat], check=True)
        code = Path(flat).read_bytes()
    assert len(code) == 4 * len(lines), (len(code), len(lines))
    return [code[at : at + 4].hex() for at in range(0, len(code), 4)]


def figures(core, lines):
    """Pressure on each unit, latency, uops of each line."""
    text = "\n".join(lines)
    done = subprocess.run(
        ["llvm-mca-19", "-mtriple=aarch64", f"-mcpu={core}", "-instruction-tables", "-json"],
        input=text,
        text=True,
        capture_output=True,
        check=True,
    )
    report = json.loads(done.stdout)
    units = report["TargetInfo"]["Resources"]
    region = report["CodeRegions"][0]
    out = [
        (info["NumMicroOpcodes"], info["Latency"], info["RThroughput"], {})
        for info in region["InstructionInfoView"]["InstructionList"]
    ]
    for use in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if use["InstructionIndex"] < len(out):
            out[use["InstructionIndex"]][3][units[use["ResourceIndex"]]] = use["ResourceUsage"]
    return out


def explain(pressure, groups):
    """Uops whose groups of ports add up to the pressure."""
    groups = [g for g in groups if set(g) <= set(pressure)]
    for choice in combinations_with_replacement(groups, round(sum(pressure.values()))):
        load = dict.fromkeys(pressure, 0.0)
        for group in choice:
            for port in group:
                load[port] += 1 / len(group)
        if all(abs(load[p] - pressure[p]) < 0.01 for p in load):
            return list(choice)
    return None


def ports_of(core, uops, pressure):
    """Uops of a row and the cycles that a unit stays busy."""
    prefix, model = CORES[core]
    named = {model["ports"][unit.removeprefix(prefix)]: use for unit, use in pressure.items()}
    total = sum(named.values())
    if uops == 1 and total > 1.01:
        # One uop that keeps its unit: dividers, 64-bit multiplication, shift and flags.
        return ["".join(named)], round(total)
    return explain(named, model["groups"]) if named else [], 0


# Figures that differ from LLVM's, by core and form: ports, latency or flags.
def corrected(core, form, ports, latency, flags):
    mnemonic, _, operands = form.partition(" ")
    if mnemonic == "nop":
        return [], latency, flags
    if core == "neoverse-n1":
        if mnemonic in ("ands", "bics") and not operands.endswith("shift"):
            # LLVM does not tell these from the shifted ones.
            return ["STM"], 1, flags
        if mnemonic in ("ldrh", "ldrsh", "strh", "prfm") and operands.endswith((",1]", ",4]")):
            # LLVM FeatureAddrLSLSlow14: the address takes a uop of its own.
            return ["STM", *ports], latency + 1, flags
        if mnemonic in ("ldp", "stp", "stnp") and operands.startswith("w,w"):
            # LLVM gives the plain form one address uop, these two.
            return [*dict.fromkeys(ports)], latency, flags
        if mnemonic == "stur" and operands[0] in "bhsdq":
            # LLVM gives these no data uop; as "str".
            return ["LK", "LK", "VW", "VW"] if operands[0] == "q" else ["LK", "VW"], latency, flags
    if core == "tsv110":
        if mnemonic.startswith("st") and "S" not in ports:
            return None, latency, flags
        if mnemonic == "mov" and operands == "x,x":
            # Measured: eliminated at rename.
            return ports, latency, flags + ["elim"]
        if operands in ("w,w,[x],i", "x,x,[x],i", "w,w,[x,i]!", "x,x,[x,i]!"):
            # LLVM moves the base on twice.
            return [*dict.fromkeys(ports)] if mnemonic == "ldp" else ports, latency, flags
        if mnemonic.startswith("ld") and re.search(r",\[x,[xw]", operands):
            return ports, latency + 1, flags
    return ports, latency, flags


def rows(core, lines, forms):
    seen = {}
    for line, form, (uops, latency, throughput, pressure) in zip(
        lines, forms, figures(core, lines), strict=True
    ):
        ports, busy = ports_of(core, uops, pressure)
        if ports is None:
            print(f"{core}: {line}: no set of ports gives {pressure}")
            continue
        flags = [f"tp={busy}"] if busy else []
        ports, latency, flags = corrected(core, form, ports, latency, flags)
        if ports is None:
            continue
        mnemonic, _, operands = form.partition(" ")
        memory = "[" in operands or "literal" in operands
        loads = memory and mnemonic.startswith("ld")
        text = f"a:{latency}" if loads else "" if memory or not ports else f"*:{latency}"
        if not ports and form != "nop":
            print(f"{core}: {line}: no ports")
            continue
        issue = max(1, len(ports) if core == "tsv110" else -(-len(ports) // 2))
        names = "" if "elim" in flags else "+".join(ports)
        same = f"1:1:{ports[0]}|" if "elim" in flags else ""
        row = (issue, issue, 0, "", names, text, " ".join(flags), "", same)
        key = (mnemonic, operands)
        if seen.get(key, row) != row:
            print(f"{core}: {line}: {form}: {row} and {seen[key]}")
        seen.setdefault(key, row)
    return seen


def main(program):
    lines = samples()
    named = subprocess.run(
        [program], input="\n".join(encodings(lines)), text=True, capture_output=True, check=True
    )
    forms = named.stdout.splitlines()
    bad = [
        f"{line}: {form}"
        for line, form in zip(lines, forms, strict=True)
        if form.startswith("error")
    ]
    if bad:
        sys.exit("\n".join(bad))
    for core in CORES:
        table = {}
        for (mnemonic, operands), row in rows(core, lines, forms).items():
            table.setdefault((mnemonic, row), []).append(operands)
        with open(REPO / "models" / core / "instructions.csv", "w", newline="") as out:
            out.write(f"# Source: {SOURCES[core]}; layout: models/pipeline/README.md\n")
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(COLUMNS)
            for (mnemonic, row), operands in sorted(table.items()):
                writer.writerow([mnemonic, ";".join(operands), *row])


if __name__ == "__main__":
    main(sys.argv[1])
