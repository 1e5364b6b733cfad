//! AArch64 vector and floating-point instructions: operands and forms.

use crate::arm64::{Refused, Work};
use crate::arm64_memory;
use disarm64_defn::InsnClass;
use InsnClass as C;

/// Instructions of three registers that only write the first.
const THREE: [&str; 56] = [
    "add", "sub", "and", "bic", "orr", "orn", "eor", "cmeq", "cmgt", "cmge", "cmhi", "cmhs", "cmtst", "smax", "smin",
    "umax", "umin", "addp", "smaxp", "sminp", "umaxp", "uminp", "mul", "pmul", "sshl", "ushl", "uhadd", "shadd",
    "urhadd", "srhadd", "uqadd", "sqadd", "uqsub", "sqsub", "uabd", "sabd", "fadd", "fsub", "fmul", "fdiv", "fmax",
    "fmin", "fmaxnm", "fminnm", "fabd", "fcmeq", "fcmge", "fcmgt", "faddp", "zip1", "zip2", "uzp1", "uzp2", "trn1",
    "trn2", "fnmul",
];
/// Instructions of three registers that also read the first.
const ACCUMULATE: [&str; 9] = ["mla", "mls", "fmla", "fmls", "bsl", "bit", "bif", "saba", "uaba"];
/// Instructions of two registers.
const TWO: [&str; 26] = [
    "not", "neg", "abs", "cnt", "rev64", "rev32", "rev16", "rbit", "cmeq", "cmgt", "cmge", "cmle", "cmlt", "xtn",
    "fabs", "fneg", "fsqrt", "addv", "uaddlv", "saddlv", "smaxv", "sminv", "umaxv", "uminv", "clz", "cls",
];
/// Shifts by a constant.
const SHIFTS: [&str; 9] = [
    "shl", "sshr", "ushr", "sshll", "sshll2", "ushll", "ushll2", "shrn", "urshr",
];

/// Fill in what a vector instruction does.
pub fn describe(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    match class {
        C::ASIMDSAME | C::ASIMDPERM => three(w, class == C::ASIMDPERM),
        C::ASIMDMISC | C::ASIMDALL => two(w),
        C::ASIMDSHF => shift(w),
        C::ASIMDEXT => extract(w),
        C::ASIMDIMM => immediate(w),
        C::ASIMDINS => insert(w),
        C::FLOATDP1 | C::FLOATDP2 | C::FLOATDP3 => scalar(w, class),
        C::FLOATCMP => compare(w),
        C::FLOAT2INT => convert(w),
        C::ASISDLSE | C::ASISDLSEP => arm64_memory::several(w, class == C::ASISDLSEP),
        _ => Err(Refused::Unknown),
    }
}

/// Elements of a vector, by the size field and the width bit.
fn arrangement(w: &Work) -> &'static str {
    match (w.bits(22, 2), w.bits(30, 1)) {
        (0, 0) => "8b",
        (0, _) => "16b",
        (1, 0) => "4h",
        (1, _) => "8h",
        (2, 0) => "2s",
        (2, _) => "4s",
        (_, 0) => "1d",
        _ => "2d",
    }
}

/// Elements of a floating-point vector.
fn float_arrangement(w: &Work) -> &'static str {
    match (w.bits(22, 1), w.bits(30, 1)) {
        (0, 0) => "2s",
        (0, _) => "4s",
        (_, 0) => "1d",
        _ => "2d",
    }
}

fn three(w: &mut Work, permutes: bool) -> Result<(), Refused> {
    let accumulates = ACCUMULATE.contains(&w.mnemonic);
    if !accumulates && !THREE.contains(&w.mnemonic) {
        return Err(Refused::Unknown);
    }
    let float = w.mnemonic.starts_with('f');
    if float && w.bits(14, 2) == 0 {
        // Half precision, an extension of the architecture.
        return Err(Refused::Unknown);
    }
    let logic = !permutes && w.bits(11, 5) == 3;
    let elements = match (float, logic, w.bits(30, 1)) {
        (true, ..) => float_arrangement(w),
        (_, true, 0) => "8b",
        (_, true, _) => "16b",
        _ => arrangement(w),
    };
    if elements == "1d" {
        return Err(Refused::Invalid);
    }
    if accumulates {
        w.read_vector(0, 0);
    }
    w.read_vector(1, 5);
    w.read_vector(2, 16);
    w.write_vector(0, 0);
    w.name(elements);
    // A register moved by "orr" with itself.
    if w.mnemonic == "orr" && w.bits(5, 5) == w.bits(16, 5) {
        w.d.form = format!("mov {elements}");
        w.d.reads.pop();
    }
    Ok(())
}

fn two(w: &mut Work) -> Result<(), Refused> {
    if !TWO.contains(&w.mnemonic) {
        return Err(Refused::Unknown);
    }
    let float = w.mnemonic.starts_with('f');
    if float && w.bits(17, 5) != 16 {
        // Half precision.
        return Err(Refused::Unknown);
    }
    let elements = if float { float_arrangement(w) } else { arrangement(w) };
    w.read_vector(1, 5);
    w.write_vector(0, 0);
    let zero = if w.mnemonic.starts_with("cm") { ",z" } else { "" };
    w.name(&format!("{elements}{zero}"));
    Ok(())
}

fn shift(w: &mut Work) -> Result<(), Refused> {
    if !SHIFTS.contains(&w.mnemonic) {
        return Err(Refused::Unknown);
    }
    let resizes = w.mnemonic.contains("shll") || w.mnemonic == "shrn";
    if w.bits(22, 1) == 1 && (resizes || w.bits(30, 1) == 0) {
        // Elements of 64 bits.
        return Err(Refused::Invalid);
    }
    w.read_vector(1, 5);
    w.write_vector(0, 0);
    w.name(if w.bits(30, 1) == 1 { "q,i" } else { "d,i" });
    Ok(())
}

fn extract(w: &mut Work) -> Result<(), Refused> {
    let wide = w.bits(30, 1) == 1;
    if w.mnemonic != "ext" || !wide && w.bits(14, 1) == 1 {
        return Err(Refused::Invalid);
    }
    w.read_vector(1, 5);
    w.read_vector(2, 16);
    w.write_vector(0, 0);
    w.name(if wide { "16b,i" } else { "8b,i" });
    Ok(())
}

fn immediate(w: &mut Work) -> Result<(), Refused> {
    match w.mnemonic {
        "fmov" if w.bits(11, 1) == 1 => return Err(Refused::Unknown),
        "movi" | "mvni" | "fmov" => {}
        "orr" | "bic" => w.read_vector(0, 0),
        _ => return Err(Refused::Unknown),
    }
    w.write_vector(0, 0);
    w.name(if w.bits(30, 1) == 1 { "q,i" } else { "d,i" });
    Ok(())
}

fn insert(w: &mut Work) -> Result<(), Refused> {
    let from_general = w.bits(29, 1) == 0 && w.bits(11, 4) != 0;
    let operands = match (w.mnemonic, from_general) {
        ("dup", _) if w.bits(11, 4) == 0 => {
            w.read_vector(1, 5);
            w.write_vector(0, 0);
            "v,e"
        }
        ("dup", _) => {
            w.read(1, 5);
            w.write_vector(0, 0);
            "v,r"
        }
        ("ins", true) => {
            w.read_vector(0, 0);
            w.read(1, 5);
            w.write_vector(0, 0);
            "e,r"
        }
        ("ins", false) => {
            w.read_vector(0, 0);
            w.read_vector(1, 5);
            w.write_vector(0, 0);
            "e,e"
        }
        ("umov" | "smov", _) => {
            w.read_vector(1, 5);
            w.write(0, 0);
            "r,e"
        }
        _ => return Err(Refused::Unknown),
    };
    let (size, wide) = (w.bits(16, 5).trailing_zeros(), w.bits(30, 1) == 1);
    let possible = match w.mnemonic {
        "dup" => size < 3 || size == 3 && wide,
        "umov" => wide == (size == 3) && size < 4,
        "smov" => size < if wide { 3 } else { 2 },
        _ => size < 4,
    };
    if !possible {
        return Err(Refused::Invalid);
    }
    w.name(operands);
    Ok(())
}

/// Letter of the precision.
fn precision(w: &Work) -> Result<&'static str, Refused> {
    match w.bits(22, 2) {
        0 => Ok("s"),
        1 => Ok("d"),
        _ => Err(Refused::Unknown),
    }
}

fn scalar(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    let letter = precision(w)?;
    let known: &[&str] = match class {
        C::FLOATDP1 => &["fmov", "fabs", "fneg", "fsqrt"],
        C::FLOATDP2 => &[
            "fadd", "fsub", "fmul", "fnmul", "fdiv", "fmax", "fmin", "fmaxnm", "fminnm",
        ],
        _ => &["fmadd", "fmsub", "fnmadd", "fnmsub"],
    };
    if !known.contains(&w.mnemonic) {
        return Err(Refused::Unknown);
    }
    w.read_vector(1, 5);
    if class != C::FLOATDP1 {
        w.read_vector(2, 16);
    }
    if class == C::FLOATDP3 {
        w.read_vector(3, 10);
    }
    w.write_vector(0, 0);
    w.name(letter);
    Ok(())
}

fn compare(w: &mut Work) -> Result<(), Refused> {
    let letter = precision(w)?;
    if !matches!(w.mnemonic, "fcmp" | "fcmpe") {
        return Err(Refused::Unknown);
    }
    w.read_vector(1, 5);
    if w.bits(3, 1) == 0 {
        w.read_vector(2, 16);
    }
    w.write_flags();
    w.name(letter);
    Ok(())
}

fn convert(w: &mut Work) -> Result<(), Refused> {
    let letter = precision(w)?;
    let width = if w.bits(31, 1) == 1 { "x" } else { "w" };
    match (w.mnemonic, w.bits(16, 1)) {
        ("fmov", 1) | ("scvtf" | "ucvtf", _) => {
            w.read(1, 5);
            w.write_vector(0, 0);
            w.name(&format!("{letter},{width}"));
        }
        ("fmov", _) | ("fcvtzs" | "fcvtzu", _) => {
            w.read_vector(1, 5);
            w.write(0, 0);
            w.name(&format!("{width},{letter}"));
        }
        _ => return Err(Refused::Unknown),
    }
    Ok(())
}
