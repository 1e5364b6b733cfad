"""Sample instructions of the AArch64 cores, every form of the simulator at least once."""

from __future__ import annotations


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
    """Loads, stores and prefetches."""
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
    """Vector and floating-point instructions."""
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
        "movi v0.4s, #0",
        "movi v0.2s, #0",
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
    lines += [f"fmov {r}0, #1.0" for r in "hsd"]
    lines += ["fmov s0, w1", "fmov d0, x1", "fmov w0, s1", "fmov x0, d1"]
    return lines
