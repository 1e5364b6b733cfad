//! AArch64 vector instructions whose operands follow from their class: widening and narrowing ones,
//! those with one element, scalar ones on vector registers, tables, cryptography.
//!
//! Forms are named by the elements of the source. Words of a class that are not allocated get a
//! name that no table has.

use crate::isa::arm64::float::half;
use crate::isa::arm64::work::{Refused, Work};
use disarm64_defn::InsnClass;
use InsnClass as C;

/// Whether the instruction also reads the register that it writes.
pub(crate) fn accumulates(mnemonic: &str) -> bool {
    const WITHIN: [&str; 10] = [
        "mla", "mls", "aba", "adalp", "sra", "dot", "sha1", "sha256", "uqadd", "sqadd",
    ];
    const EXACT: [&str; 7] = ["sli", "sri", "tbx", "bsl", "bit", "bif", "aese"];
    let narrows = mnemonic.ends_with('2') && (mnemonic.contains('n') || mnemonic == "sqxtun2");
    match mnemonic {
        // Only those of unlike signs add to what is there.
        "uqadd" | "sqadd" | "sha1h" => false,
        "aesd" | "saba" | "uaba" => true,
        _ => WITHIN.iter().any(|part| mnemonic.contains(part)) || EXACT.contains(&mnemonic) || narrows,
    }
}

/// Fill in what such an instruction does.
pub(crate) fn describe(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    if accumulates(w.mnemonic) {
        w.read_vector(0, 0);
    }
    w.read_vector(1, 5);
    w.write_vector(0, 0);
    match class {
        C::ASIMDDIFF | C::DOTPRODUCT if w.bits(24, 1) == 0 => {
            w.read_vector(2, 16);
            w.name(elements(w));
        }
        C::ASIMDELEM | C::ASISDELEM | C::DOTPRODUCT => element(w, class == C::ASISDELEM),
        C::ASIMDTBL => table(w),
        C::ASISDSAME | C::ASISDDIFF => {
            w.read_vector(2, 16);
            w.name(letter(w));
        }
        C::ASISDMISC | C::ASISDPAIR => {
            let zero = if compares_with_zero(w.mnemonic) { ",z" } else { "" };
            let letter = letter(w);
            w.name(&format!("{letter}{zero}"));
        }
        C::ASISDSHF => w.name("s,i"),
        C::ASISDONE => w.name("s,e"),
        C::CRYPTOAES | C::CRYPTOSHA2 => w.name(""),
        C::CRYPTOSHA3 => {
            w.read_vector(2, 16);
            w.name("");
        }
        _ => return Err(Refused::Unknown),
    }
    Ok(())
}

/// Comparisons of the miscellaneous class are with zero.
pub(crate) fn compares_with_zero(mnemonic: &str) -> bool {
    mnemonic.starts_with("cm") || mnemonic.starts_with("fcm")
}

/// Elements of a vector, by the size field and the width bit.
pub(crate) fn elements(w: &Work) -> &'static str {
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

/// Letter of a scalar's size.
fn letter(w: &Work) -> &'static str {
    if !w.mnemonic.starts_with('f') && !w.mnemonic.ends_with("cvtf") {
        return ["b", "h", "s", "d"][w.bits(22, 2) as usize];
    }
    let pair_of_halves = w.bits(17, 5) == 0b11000 && w.bits(29, 1) == 0;
    match (half(w) || pair_of_halves, w.bits(22, 1)) {
        (true, _) => "h",
        (_, 0) => "s",
        _ => "d",
    }
}

/// One source is an element of a register.
fn element(w: &mut Work, scalar: bool) {
    let size = w.bits(22, 2);
    // The register of a 16-bit element has four bits.
    let halves = size == 1 || size == 0 && w.mnemonic.starts_with('f');
    let register = if halves { w.bits(16, 4) } else { w.bits(16, 5) };
    w.d.reads
        .push((2, crate::isa::inst::VECTOR + register as crate::isa::inst::Reg));
    let name = if scalar {
        "s,e".to_string()
    } else {
        let kind = match (halves, w.bits(30, 1)) {
            (true, 0) => "4h",
            (true, _) => "8h",
            _ => elements(w),
        };
        format!("{kind},e")
    };
    w.name(&name);
}

/// A table of one to four registers.
fn table(w: &mut Work) {
    let count = w.bits(13, 2) + 1;
    let first = w.bits(5, 5);
    for n in 1..count {
        w.d.reads.push((
            1,
            crate::isa::inst::VECTOR + ((first + n) % 32) as crate::isa::inst::Reg,
        ));
    }
    w.read_vector(2, 16);
    let kind = if w.bits(30, 1) == 1 { "16b" } else { "8b" };
    w.name(&format!("{kind},{count}"));
}
