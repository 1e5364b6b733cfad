//! AArch64 scalar floating-point instructions: operands and forms.

use crate::isa::arm64::work::{Refused, Work};
use disarm64_defn::InsnClass;
use InsnClass as C;

/// Letter of the precision.
fn precision(w: &Work) -> Result<&'static str, Refused> {
    match w.bits(22, 2) {
        0 => Ok("s"),
        1 => Ok("d"),
        3 => Ok("h"),
        _ => Err(Refused::Unknown),
    }
}

/// Whether a vector instruction is on half precision, an extension of the architecture.
pub(crate) fn half(w: &Work) -> bool {
    let same = w.bits(21, 1) == 0 && w.bits(14, 2) == 0 && w.bits(10, 1) == 1 && w.bits(22, 1) == 1;
    let misc = w.bits(17, 5) == 0b11100 && w.bits(10, 2) == 2;
    same || misc
}

/// Elements of a floating-point vector.
pub(crate) fn elements(w: &Work) -> &'static str {
    match (half(w), w.bits(22, 1), w.bits(30, 1)) {
        (true, _, 0) => "4h",
        (true, ..) => "8h",
        (_, 0, 0) => "2s",
        (_, 0, _) => "4s",
        (.., 0) => "1d",
        _ => "2d",
    }
}

pub(crate) fn scalar(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    let letter = precision(w)?;
    let mut name = letter.to_string();
    if w.mnemonic == "fcvt" {
        let to = ["s", "d", "", "h"][w.bits(15, 2) as usize];
        name = format!("{to},{letter}");
    }
    w.read_vector(1, 5);
    if class != C::FLOATDP1 {
        w.read_vector(2, 16);
    }
    if class == C::FLOATDP3 {
        w.read_vector(3, 10);
    }
    w.write_vector(0, 0);
    w.name(&name);
    Ok(())
}

pub(crate) fn compare(w: &mut Work) -> Result<(), Refused> {
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

/// Conditional select and compare.
pub(crate) fn conditional(w: &mut Work, selects: bool) -> Result<(), Refused> {
    let letter = precision(w)?;
    w.read_vector(1, 5);
    w.read_vector(2, 16);
    w.read_flags();
    if selects {
        w.write_vector(0, 0);
    } else {
        w.write_flags();
    }
    w.name(letter);
    Ok(())
}

pub(crate) fn constant(w: &mut Work) -> Result<(), Refused> {
    let letter = precision(w)?;
    w.write_vector(0, 0);
    w.name(&format!("{letter},i"));
    Ok(())
}

/// Between a general-purpose and a vector register, the value or its bits.
pub(crate) fn convert(w: &mut Work) -> Result<(), Refused> {
    let width = w.width();
    // The upper half of a vector register.
    let upper = w.mnemonic == "fmov" && w.bits(19, 2) == 1;
    let letter = if upper { "e" } else { precision(w)? };
    let into = matches!((w.mnemonic, w.bits(16, 1)), ("fmov", 1) | ("scvtf" | "ucvtf", _));
    if w.mnemonic != "fmov" && !w.mnemonic.contains("cvt") {
        return Err(Refused::Unknown);
    }
    if into {
        if upper {
            w.read_vector(0, 0);
        }
        w.read(1, 5);
        w.write_vector(0, 0);
        w.name(&format!("{letter},{width}"));
    } else {
        w.read_vector(1, 5);
        w.write(0, 0);
        w.name(&format!("{width},{letter}"));
    }
    Ok(())
}
