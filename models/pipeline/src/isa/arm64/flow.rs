//! AArch64 branches and hints: operands and forms.

use crate::isa::arm64::work::{Refused, Work};
use crate::isa::flow::Next;
use crate::isa::inst::Branch;

pub(crate) fn branch(w: &mut Work) -> Result<(), Refused> {
    w.d.branch = Branch::Always;
    match w.mnemonic {
        "b" => w.name(""),
        "bl" => {
            w.d.writes.push((0, 30));
            w.name("");
        }
        "br" | "blr" | "ret" => {
            w.read(1, 5);
            if w.mnemonic == "blr" {
                w.d.writes.push((0, 30));
            }
            w.name("");
        }
        "cbz" | "cbnz" | "tbz" | "tbnz" => {
            w.read(1, 0);
            w.d.branch = Branch::Conditional(7);
            w.name("");
        }
        "b.c" => {
            // Conditions 14 and 15 hold always.
            if w.bits(0, 4) < 14 {
                w.read_flags();
                w.d.branch = Branch::Conditional(0);
            }
            w.mnemonic = "b.cond";
            w.name("");
        }
        _ => return Err(Refused::Unknown),
    }
    Ok(())
}

/// Control flow after an instruction at an offset.
pub(crate) fn next(word: u32, at: i64, branch: Branch) -> Next {
    // A field of words, with its sign.
    let target = |low: u32, bits: u32| {
        let field = i64::from((word << (32 - low - bits)) as i32 >> (32 - bits));
        at + 4 * field
    };
    let to = match word >> 24 & 0xff {
        top if top & 0x7c == 0x14 => target(0, 26),
        0x54 => target(5, 19),
        top if top & 0x7e == 0x34 => target(5, 19),
        top if top & 0x7e == 0x36 => target(5, 14),
        _ => {
            return if branch == Branch::No {
                Next::Falls
            } else {
                Next::Anywhere
            }
        }
    };
    match branch {
        Branch::Conditional(_) => Next::Either(to),
        _ => Next::Jumps(to),
    }
}

pub(crate) fn system(w: &mut Work) -> Result<(), Refused> {
    if w.word & 0xffff_f01f != 0xd503_201f {
        return Err(Refused::Unknown);
    }
    match w.bits(5, 7) {
        // Hints of extensions to the architecture are nops on cores without them:
        // pointer authentication (Armv8.3) and branch targets (Armv8.5).
        0 | 7 | 8 | 10 | 12 | 14 | 24..=32 | 34 | 36 | 38 => w.mnemonic = "nop",
        _ => return Err(Refused::Unknown),
    }
    w.name("");
    Ok(())
}

/// Names what the decoder crate leaves to aliases.
pub(crate) fn system_name(w: &Work) -> Option<&'static str> {
    if w.mnemonic == "hint" {
        const HINTS: [&str; 6] = ["nop", "yield", "wfe", "wfi", "sev", "sevl"];
        return HINTS.get(w.bits(5, 7) as usize).copied();
    }
    if w.mnemonic != "sys" {
        return None;
    }
    match (w.bits(16, 3), w.bits(12, 4), w.bits(8, 4), w.bits(5, 3)) {
        (3, 7, 4, 1) => Some("dc zva"),
        (_, 7, 4 | 6 | 10 | 11 | 12 | 13 | 14, _) => Some("dc"),
        (_, 7, 1 | 5, _) => Some("ic"),
        (_, 7, 8, _) => Some("at"),
        (_, 8, ..) => Some("tlbi"),
        _ => None,
    }
}
