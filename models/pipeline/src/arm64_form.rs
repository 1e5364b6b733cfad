//! Names of AArch64 instruction forms in the table of figures.
//!
//! Instructions that every core treats alike share a form: `alu` is any plain
//! addition or logic without shift, `alus` the same with flags.

use crate::arm64::field;
use disarm64::Insn;
use disarm64_defn::InsnClass;

/// Name of the form of an instruction.
pub fn form_name(word: u32, definition: &Insn) -> String {
    use InsnClass as C;
    let name = definition.mnemonic;
    let sets = if matches!(name, "adds" | "subs" | "ands" | "bics" | "adcs" | "sbcs") { "s" } else { "" };
    let amount = field(word, 10, 6);
    match definition.class {
        C::ADDSUB_IMM | C::LOG_IMM => format!("alu{sets}"),
        C::ADDSUB_CARRY => format!("adc{sets}"),
        C::MOVEWIDE | C::PCRELADDR => "movi".into(),
        C::ADDSUB_SHIFT if amount == 0 => format!("alu{sets}"),
        C::ADDSUB_SHIFT if amount <= 4 && field(word, 22, 2) == 0 => format!("alu{sets}.lsl"),
        C::ADDSUB_SHIFT | C::ADDSUB_EXT => format!("alu{sets}.shift"),
        C::LOG_SHIFT if amount == 0 && name == "orr" && field(word, 5, 5) == 31 => "mov".into(),
        C::LOG_SHIFT if amount == 0 => format!("alu{sets}"),
        C::LOG_SHIFT => format!("logic{sets}.shift"),
        C::BITFIELD => name.into(),
        C::EXTRACT => "extr".into(),
        C::DP_1SRC => name.into(),
        C::DP_2SRC => match name {
            "udiv" | "sdiv" => wide("div", word),
            "lslv" | "lsrv" | "asrv" | "rorv" => "shiftv".into(),
            other => other.into(),
        },
        C::DP_3SRC => match name {
            "umulh" | "smulh" => "mulh".into(),
            "madd" | "msub" => wide("madd", word),
            _ => "maddl".into(),
        },
        C::CONDSEL => "csel".into(),
        C::CONDCMP_IMM | C::CONDCMP_REG => "ccmp".into(),
        C::BRANCH_IMM => if name == "bl" { "bl".into() } else { "b".into() },
        C::BRANCH_REG => "br".into(),
        C::CONDBRANCH => "b.cond".into(),
        C::COMPBRANCH | C::TESTBRANCH => "cbz".into(),
        C::IC_SYSTEM => system(word, name),
        C::LDST_POS | C::LDST_UNSCALED | C::LDST_UNPRIV | C::LDST_IMM9 | C::LDST_REGOFF | C::LOADLIT
        | C::LDSTPAIR_OFF | C::LDSTPAIR_INDEXED | C::LDSTNAPAIR_OFFS => access(word, definition),
        C::ASIMDSAME if matches!(name, "add" | "sub" | "and" | "orr" | "eor" | "bic" | "cmeq" | "cmgt" | "umaxp") => {
            "v.alu".into()
        }
        C::ASIMDIMM => "v.movi".into(),
        C::FLOATDP2 => match name {
            "fadd" | "fsub" => "fadd".into(),
            "fmul" | "fnmul" => "fmul".into(),
            other => other.into(),
        },
        C::FLOATDP3 => "fmadd".into(),
        other => format!("{name} ({other:?})"),
    }
}

fn wide(name: &str, word: u32) -> String {
    format!("{name} {}", if field(word, 31, 1) == 1 { "x" } else { "w" })
}

fn system(word: u32, name: &str) -> String {
    match name {
        // Data cache zero by address.
        "sys" if field(word, 5, 14) == 0b011_0111_0100_001 => "dc zva".into(),
        "hint" if field(word, 5, 7) == 0 => "nop".into(),
        other => other.into(),
    }
}

/// Loads and stores: kind, register, addressing.
fn access(word: u32, definition: &Insn) -> String {
    use InsnClass as C;
    let name = definition.mnemonic;
    if name.starts_with("prf") {
        return "prfm".into();
    }
    let vector = field(word, 26, 1) == 1;
    let pair = name.starts_with("ldp") || name.starts_with("stp") || name.starts_with("ldnp") || name.starts_with("stnp");
    let kind = if name.starts_with("ld") { "ld" } else { "st" };
    let register = match (vector, pair) {
        (true, true) => ["s", "d", "q", "q"][field(word, 30, 2) as usize],
        (true, false) => if field(word, 23, 1) == 1 { "q" } else { "d" },
        (false, true) => if field(word, 30, 2) == 2 { "x" } else { "w" },
        (false, false) => if field(word, 30, 2) == 3 { "x" } else { "w" },
    };
    let addressing = match definition.class {
        C::LDST_IMM9 | C::LDSTPAIR_INDEXED => ",wb",
        C::LDST_REGOFF => ",reg",
        _ => "",
    };
    format!("{kind}{} {register}{addressing}", if pair { "p" } else { "r" })
}
