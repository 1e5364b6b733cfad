//! AArch64 instructions on general-purpose registers: operands and forms.

use crate::isa::arm64::work::{Refused, Work};
use crate::isa::inst::{Effect, Reg};

/// Width and operands of a form with so many registers.
fn registers(w: &Work, rest: &str) -> String {
    let letter = w.width();
    rest.chars().map(|c| if c == 'r' { letter } else { c }).collect()
}

pub(crate) fn add_immediate(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "add" | "adds" | "sub" | "subs") {
        return Err(Refused::Unknown);
    }
    if w.bits(23, 1) == 1 {
        return Err(Refused::Invalid);
    }
    w.read_sp(1, 5);
    let sets_flags = w.bits(29, 1) == 1;
    let to = w.bits(0, 5) as Reg;
    if sets_flags {
        w.write(0, 0);
        w.write_flags();
    } else {
        w.d.writes.push((0, to));
    }
    let amount = i64::from(w.bits(10, 12)) << (12 * w.bits(22, 1));
    let add = if w.bits(30, 1) == 1 { -amount } else { amount };
    if w.bits(31, 1) == 1 && !(sets_flags && to == 31) {
        w.d.effects.push(Effect::Offset {
            to,
            from: w.bits(5, 5) as Reg,
            add,
        });
    }
    w.d.has_immediate = true;
    w.name(&registers(w, "r,r,i"));
    Ok(())
}

pub(crate) fn add_shifted(w: &mut Work) -> Result<(), Refused> {
    let (kind, amount) = (w.bits(22, 2), w.bits(10, 6));
    if kind == 3 || w.bits(31, 1) == 0 && amount > 31 {
        return Err(Refused::Invalid);
    }
    w.read(1, 5);
    w.read(2, 16);
    w.write(0, 0);
    if w.bits(29, 1) == 1 {
        w.write_flags();
    }
    let operands = match (kind, amount) {
        (_, 0) => "r,r,r",
        (0, 1..=4) => "r,r,r,lsl4",
        _ => "r,r,r,shift",
    };
    w.name(&registers(w, operands));
    Ok(())
}

pub(crate) fn add_extended(w: &mut Work) -> Result<(), Refused> {
    if w.bits(10, 3) > 4 {
        return Err(Refused::Invalid);
    }
    w.read_sp(1, 5);
    w.read(2, 16);
    if w.bits(29, 1) == 1 {
        w.write(0, 0);
        w.write_flags();
    } else {
        w.d.writes.push((0, w.bits(0, 5) as Reg));
    }
    w.name(&registers(w, "r,r,r,ext"));
    Ok(())
}

pub(crate) fn add_carry(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "adc" | "adcs" | "sbc" | "sbcs") {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.read(2, 16);
    w.read_flags();
    w.write(0, 0);
    if w.bits(29, 1) == 1 {
        w.write_flags();
    }
    w.name(&registers(w, "r,r,r"));
    Ok(())
}

pub(crate) fn logic_immediate(w: &mut Work) -> Result<(), Refused> {
    let (n, sizes) = (w.bits(22, 1), w.bits(10, 6));
    // The element size is the highest bit of N and the inverted sizes; a mask of
    // all ones has no encoding.
    let pattern = n << 6 | !sizes & 0x3f;
    if w.bits(31, 1) == 0 && n == 1 || pattern < 2 {
        return Err(Refused::Invalid);
    }
    let levels = (1 << pattern.ilog2()) - 1;
    if sizes & levels == levels {
        return Err(Refused::Invalid);
    }
    w.read(1, 5);
    if w.mnemonic == "ands" {
        w.write(0, 0);
        w.write_flags();
    } else {
        w.d.writes.push((0, w.bits(0, 5) as Reg));
    }
    w.d.has_immediate = true;
    w.name(&registers(w, "r,r,i"));
    Ok(())
}

pub(crate) fn logic_shifted(w: &mut Work) -> Result<(), Refused> {
    let amount = w.bits(10, 6);
    if w.bits(31, 1) == 0 && amount > 31 {
        return Err(Refused::Invalid);
    }
    let shifted = amount != 0;
    let copies = w.mnemonic == "orr" && w.bits(5, 5) == 31 && !shifted;
    w.read(1, 5);
    w.read(2, 16);
    w.write(0, 0);
    if matches!(w.mnemonic, "ands" | "bics") {
        w.write_flags();
    }
    if copies {
        w.mnemonic = "mov";
        let (to, from) = (w.bits(0, 5) as Reg, w.bits(16, 5) as Reg);
        if w.bits(31, 1) == 1 && to != 31 {
            w.d.effects.push(if from == 31 {
                Effect::Zero { to }
            } else {
                Effect::Offset { to, from, add: 0 }
            });
        }
        let operands = if from == 31 { "r,z" } else { "r,r" };
        w.name(&registers(w, operands));
        return Ok(());
    }
    w.name(&registers(w, if shifted { "r,r,r,shift" } else { "r,r,r" }));
    Ok(())
}

pub(crate) fn move_wide(w: &mut Work) -> Result<(), Refused> {
    if w.bits(31, 1) == 0 && w.bits(21, 2) > 1 {
        return Err(Refused::Invalid);
    }
    if w.mnemonic == "movk" {
        w.read(0, 0);
    }
    w.write(0, 0);
    let to = w.bits(0, 5) as Reg;
    if w.mnemonic == "movz" && w.bits(5, 16) == 0 && to != 31 {
        w.d.effects.push(Effect::Zero { to });
    }
    w.d.has_immediate = true;
    w.name(&registers(w, "r,i"));
    Ok(())
}

pub(crate) fn bitfield(w: &mut Work) -> Result<(), Refused> {
    let wide = w.bits(31, 1);
    if w.bits(22, 1) != wide || wide == 0 && (w.bits(21, 1) == 1 || w.bits(15, 1) == 1) {
        return Err(Refused::Invalid);
    }
    if w.mnemonic == "bfm" {
        w.read(0, 0);
    }
    w.read(1, 5);
    w.write(0, 0);
    w.name(&registers(w, "r,r,i,i"));
    Ok(())
}

pub(crate) fn extract(w: &mut Work) -> Result<(), Refused> {
    let wide = w.bits(31, 1);
    if w.bits(22, 1) != wide || wide == 0 && w.bits(15, 1) == 1 {
        return Err(Refused::Invalid);
    }
    w.read(1, 5);
    let rotates = w.bits(5, 5) == w.bits(16, 5);
    if !rotates {
        w.read(2, 16);
    }
    w.write(0, 0);
    w.name(&registers(w, if rotates { "r,r,i" } else { "r,r,r,i" }));
    Ok(())
}

pub(crate) fn one_source(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "rbit" | "rev" | "rev16" | "rev32" | "clz" | "cls") {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.write(0, 0);
    w.name(&registers(w, "r,r"));
    Ok(())
}

pub(crate) fn two_sources(w: &mut Work) -> Result<(), Refused> {
    let known =
        ["udiv", "sdiv", "lslv", "lsrv", "asrv", "rorv"].contains(&w.mnemonic) || w.mnemonic.starts_with("crc32");
    if !known {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.read(2, 16);
    w.write(0, 0);
    w.name(&registers(w, "r,r,r"));
    Ok(())
}

pub(crate) fn three_sources(w: &mut Work) -> Result<(), Refused> {
    let high = matches!(w.mnemonic, "smulh" | "umulh");
    if !high && !matches!(w.mnemonic, "madd" | "msub" | "smaddl" | "smsubl" | "umaddl" | "umsubl") {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.read(2, 16);
    if !high {
        w.read(3, 10);
    }
    w.write(0, 0);
    let plain = high || w.bits(10, 5) == 31;
    w.name(&registers(w, if plain { "r,r,r" } else { "r,r,r,r" }));
    Ok(())
}

pub(crate) fn select(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "csel" | "csinc" | "csinv" | "csneg") {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.read(2, 16);
    w.read_flags();
    w.write(0, 0);
    w.name(&registers(w, "r,r,r"));
    Ok(())
}

pub(crate) fn conditional_compare(w: &mut Work, register: bool) -> Result<(), Refused> {
    w.read(1, 5);
    if register {
        w.read(2, 16);
    }
    w.read_flags();
    w.write_flags();
    w.name(&registers(w, if register { "r,r" } else { "r,i" }));
    Ok(())
}
