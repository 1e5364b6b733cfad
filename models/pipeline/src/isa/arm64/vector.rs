//! AArch64 vector and floating-point instructions: operands and forms.

use crate::isa::arm64::simd::{accumulates, compares_with_zero, elements};
use crate::isa::arm64::work::{Refused, Work};
use crate::isa::arm64::{float, memory, simd};
use disarm64_defn::InsnClass;
use InsnClass as C;

/// Fill in what a vector instruction does.
pub fn describe(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    match class {
        C::ASIMDSAME | C::ASIMDPERM => three(w, class == C::ASIMDPERM),
        C::ASIMDMISC | C::ASIMDALL => two(w, class == C::ASIMDALL),
        C::ASIMDSHF => shift(w),
        C::ASIMDEXT => extract(w),
        C::ASIMDIMM => immediate(w),
        C::ASIMDINS => insert(w),
        C::FLOATDP1 | C::FLOATDP2 | C::FLOATDP3 => float::scalar(w, class),
        C::FLOATCMP => float::compare(w),
        C::FLOATSEL | C::FLOATCCMP => float::conditional(w, class == C::FLOATSEL),
        C::FLOATIMM => float::constant(w),
        C::FLOAT2INT | C::FLOAT2FIX => float::convert(w),
        C::ASISDLSE | C::ASISDLSEP => memory::several(w, class == C::ASISDLSEP),
        C::ASISDLSO | C::ASISDLSOP => memory::elements(w, class == C::ASISDLSOP),
        _ => simd::describe(w, class),
    }
}

fn three(w: &mut Work, permutes: bool) -> Result<(), Refused> {
    let float = w.mnemonic.starts_with('f');
    let logic = !permutes && w.bits(11, 5) == 3;
    let kind = match (float, logic, w.bits(30, 1)) {
        (true, ..) => float::elements(w),
        (_, true, 0) => "8b",
        (_, true, _) => "16b",
        _ => elements(w),
    };
    if kind == "1d" {
        return Err(Refused::Invalid);
    }
    if accumulates(w.mnemonic) {
        w.read_vector(0, 0);
    }
    w.read_vector(1, 5);
    w.read_vector(2, 16);
    w.write_vector(0, 0);
    w.name(kind);
    // A register moved by "orr" with itself.
    if w.mnemonic == "orr" && w.bits(5, 5) == w.bits(16, 5) {
        w.d.form = format!("mov {kind}");
        w.d.reads.pop();
    }
    Ok(())
}

fn two(w: &mut Work, across: bool) -> Result<(), Refused> {
    // Conversions have their size in one bit, too.
    let float = w.mnemonic.starts_with('f') || w.mnemonic.contains("cvtf");
    let kind = match (float, across) {
        (true, true) if w.bits(29, 1) == 0 => ["4h", "8h"][w.bits(30, 1) as usize],
        (true, _) => float::elements(w),
        _ => elements(w),
    };
    if accumulates(w.mnemonic) {
        w.read_vector(0, 0);
    }
    w.read_vector(1, 5);
    w.write_vector(0, 0);
    let zero = if compares_with_zero(w.mnemonic) { ",z" } else { "" };
    w.name(&format!("{kind}{zero}"));
    Ok(())
}

fn shift(w: &mut Work) -> Result<(), Refused> {
    let narrows = w.mnemonic.trim_end_matches('2').ends_with('n');
    let resizes = w.mnemonic.contains("shll") || narrows;
    if w.bits(22, 1) == 1 && (resizes || w.bits(30, 1) == 0) {
        // Elements of 64 bits.
        return Err(Refused::Invalid);
    }
    if accumulates(w.mnemonic) {
        w.read_vector(0, 0);
    }
    w.read_vector(1, 5);
    w.write_vector(0, 0);
    if w.mnemonic.contains("cvt") {
        // What these take depends on the elements: the highest bit of their size is set.
        let size = 3 - w.bits(19, 4).leading_zeros().saturating_sub(28).min(3);
        let kind = [["8b", "16b"], ["4h", "8h"], ["2s", "4s"], ["1d", "2d"]][size as usize][w.bits(30, 1) as usize];
        w.name(&format!("{kind},i"));
        return Ok(());
    }
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
    let register = if w.bits(30, 1) == 1 { "q" } else { "d" };
    let zero = w.mnemonic == "movi" && w.bits(16, 3) == 0 && w.bits(5, 5) == 0;
    w.name(&format!("{register},{}", if zero { "0" } else { "i" }));
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
