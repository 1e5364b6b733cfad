//! AArch64 loads and stores: addresses, what is moved, forms.

use crate::isa::arm64::work::{Refused, Work, BASE, INDEX};
use crate::isa::inst::{Effect, Mem, Reg, NO_REG, VECTOR};
use crate::isa::label::Label;
use disarm64_defn::InsnClass;
use InsnClass as C;

/// The operand of a single load or store: letter of the register, bytes, whether it loads.
fn moved(w: &Work) -> Option<(char, u16, bool)> {
    let (size, kind) = (w.bits(30, 2), w.bits(22, 2));
    if w.bits(26, 1) == 1 {
        let scale = (kind >> 1) << 2 | size;
        let letter = "bhsdq".chars().nth(scale as usize)?;
        return Some((letter, 1 << scale, kind & 1 == 1));
    }
    let letter = match (size, kind) {
        (3, 0 | 1) | (_, 2) => 'x',
        (_, 3) if size > 1 => return None,
        _ => 'w',
    };
    Some((letter, 1 << size, kind != 0))
}

pub(crate) fn single(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    let prefetch = w.mnemonic.starts_with("prf");
    let (letter, bytes, loads) = if prefetch {
        ('p', 8, true)
    } else {
        moved(w).ok_or(Refused::Unknown)?
    };
    if !prefetch && !known_single(w.mnemonic) {
        return Err(Refused::Unknown);
    }
    if !prefetch {
        data(w, 0, 0, letter, loads);
    }
    let (disp, operands) = match class {
        C::LDST_POS => (i64::from(w.bits(10, 12)) * i64::from(bytes), "[x,i]".to_string()),
        C::LDST_IMM9 => {
            let add = w.signed(12, 9);
            return indexed(w, letter, add, add, bytes, loads, w.bits(11, 1) == 1);
        }
        C::LDST_REGOFF => return register_offset(w, letter, bytes, loads),
        _ => (w.signed(12, 9), "[x,i]".to_string()),
    };
    address(w, disp, bytes, loads);
    w.name(&format!("{letter},{operands}"));
    Ok(())
}

fn known_single(mnemonic: &str) -> bool {
    let stem = ["ldtrs", "ldurs", "ldrs", "ldtr", "ldur", "ldr", "sttr", "stur", "str"]
        .iter()
        .find_map(|stem| mnemonic.strip_prefix(stem));
    matches!(stem, Some("" | "b" | "h" | "w"))
}

/// The register that is loaded or stored.
fn data(w: &mut Work, label: Label, low: u32, letter: char, loads: bool) {
    match (letter, loads) {
        ('w' | 'x', true) => w.write(label, low),
        ('w' | 'x', false) => w.read(label, low),
        (_, true) => w.write_vector(label, low),
        (_, false) => w.read_vector(label, low),
    }
}

fn address(w: &mut Work, disp: i64, bytes: u16, loads: bool) {
    w.read_sp(BASE, 5);
    let base = w.bits(5, 5) as Reg;
    w.d.mems.push(Mem {
        base,
        index: NO_REG,
        scale: 1,
        disp,
        bytes,
        read: loads,
        write: !loads,
        stack: false,
    });
}

/// Moves the base on, before or after the access.
fn indexed(
    w: &mut Work,
    letter: char,
    disp: i64,
    add: i64,
    bytes: u16,
    loads: bool,
    before: bool,
) -> Result<(), Refused> {
    let base = w.bits(5, 5) as Reg;
    let pair = w.bits(27, 3) == 5;
    if base != 31
        && matches!(letter, 'w' | 'x')
        && (base == w.bits(0, 5) as Reg || pair && base == w.bits(10, 5) as Reg)
    {
        // The architecture does not say what happens.
        return Err(Refused::Invalid);
    }
    address(w, if before { disp } else { 0 }, bytes, loads);
    w.d.writes.push((BASE, base));
    w.d.effects.push(Effect::Offset {
        to: base,
        from: base,
        add,
    });
    let second = if pair { format!(",{letter}") } else { String::new() };
    let place = if before { "[x,i]!" } else { "[x],i" };
    w.name(&format!("{letter}{second},{place}"));
    Ok(())
}

fn register_offset(w: &mut Work, letter: char, bytes: u16, loads: bool) -> Result<(), Refused> {
    let extension = w.bits(13, 3);
    let letter_of_index = match extension {
        3 | 7 => 'x',
        2 | 6 => 'w',
        _ => return Err(Refused::Invalid),
    };
    let shift = if w.bits(12, 1) == 1 { bytes.ilog2() } else { 0 };
    w.read(INDEX, 16);
    address(w, 0, bytes, loads);
    if let (Some(mem), index @ 0..=30) = (w.d.mems.last_mut(), w.word >> 16 & 31) {
        mem.index = index as Reg;
        mem.scale = 1 << shift;
    }
    let shift = if shift == 0 { String::new() } else { format!(",{shift}") };
    w.name(&format!("{letter},[x,{letter_of_index}{shift}]"));
    Ok(())
}

pub(crate) fn literal(w: &mut Work) -> Result<(), Refused> {
    let letter = match (w.bits(26, 1), w.bits(30, 2)) {
        (0, 0) => 'w',
        (0, 1 | 2) => 'x',
        (1, 0) => 's',
        (1, 1) => 'd',
        (1, 2) => 'q',
        _ => return Err(Refused::Unknown),
    };
    let bytes = match letter {
        'q' => 16,
        'x' | 'd' if w.mnemonic != "ldrsw" => 8,
        _ => 4,
    };
    data(w, 0, 0, letter, true);
    let disp = i64::from(w.d.offset) + 4 * w.signed(5, 19);
    w.d.mems.push(Mem {
        base: NO_REG,
        index: NO_REG,
        scale: 1,
        disp,
        bytes,
        read: true,
        write: false,
        stack: false,
    });
    w.d.ip_relative = true;
    w.name(&format!("{letter},literal"));
    Ok(())
}

pub(crate) fn pair(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "ldp" | "stp" | "ldnp" | "stnp" | "ldpsw") {
        return Err(Refused::Unknown);
    }
    let (letter, bytes) = match (w.bits(26, 1), w.bits(30, 2)) {
        (0, 0) => ('w', 4u16),
        (0, 1) => ('x', 4),
        (0, 2) => ('x', 8),
        (1, 0) => ('s', 4),
        (1, 1) => ('d', 8),
        (1, 2) => ('q', 16),
        _ => return Err(Refused::Unknown),
    };
    let loads = w.bits(22, 1) == 1;
    if loads && w.bits(0, 5) == w.bits(10, 5) {
        return Err(Refused::Invalid);
    }
    data(w, 0, 0, letter, loads);
    data(w, 1, 10, letter, loads);
    let disp = w.signed(15, 7) * i64::from(bytes);
    match w.bits(23, 2) {
        1 => indexed(w, letter, disp, disp, 2 * bytes, loads, false),
        3 => indexed(w, letter, disp, disp, 2 * bytes, loads, true),
        _ => {
            address(w, disp, 2 * bytes, loads);
            w.name(&format!("{letter},{letter},[x,i]"));
            Ok(())
        }
    }
}

/// Loads and stores of one to four whole registers.
pub(crate) fn several(w: &mut Work, moves_on: bool) -> Result<(), Refused> {
    let (count, interleaves) = match w.bits(12, 4) {
        7 => (1u32, false),
        10 => (2, false),
        6 => (3, false),
        2 => (4, false),
        8 => (2, true),
        4 => (3, true),
        0 => (4, true),
        _ => return Err(Refused::Unknown),
    };
    let wide = w.bits(30, 1) == 1;
    let bytes = if wide { 16 } else { 8 } * count as u16;
    registers(w, count, false);
    let operands = if interleaves {
        let kind = ["b", "h", "s", "d"][w.bits(10, 2) as usize];
        format!("{}{kind}", if wide { "q" } else { "d" })
    } else {
        format!("{count}{}", if wide { "q" } else { "d" })
    };
    let name = if interleaves { count } else { 1 };
    structure(w, name, "", &operands, bytes, moves_on)
}

/// Loads and stores of one element of one to four registers, and loads of one into all elements.
pub(crate) fn elements(w: &mut Work, moves_on: bool) -> Result<(), Refused> {
    let count = (w.bits(13, 1) << 1 | w.bits(21, 1)) + 1;
    let repeats = w.bits(14, 2) == 3;
    let scale = match (repeats, w.bits(14, 2), w.bits(10, 1)) {
        (true, ..) => w.bits(10, 2),
        (_, 2, 1) => 3,
        (_, scale, _) => scale,
    };
    let kind = ["b", "h", "s", "d"][scale as usize];
    registers(w, count, !repeats && w.bits(22, 1) == 1);
    let wide = if repeats && w.bits(30, 1) == 1 { "q" } else { "" };
    let operands = if repeats {
        format!("{wide}{kind}")
    } else {
        format!("{kind},e")
    };
    let all = if repeats { "r" } else { "" };
    structure(w, count, all, &operands, (count << scale) as u16, moves_on)
}

/// The registers of a structure: consecutive ones; a load of one element keeps the others.
fn registers(w: &mut Work, count: u32, merges: bool) {
    let loads = w.bits(22, 1) == 1;
    let first = w.bits(0, 5);
    for n in 0..count {
        let reg = VECTOR + ((first + n) % 32) as Reg;
        if loads {
            w.d.writes.push((0, reg));
        }
        if !loads || merges {
            w.d.reads.push((0, reg));
        }
    }
}

/// Names a load or store of structures and adds its address.
fn structure(w: &mut Work, count: u32, all: &str, operands: &str, bytes: u16, moves_on: bool) -> Result<(), Refused> {
    const NAMES: [[&str; 4]; 3] = [
        ["ld1", "ld2", "ld3", "ld4"],
        ["ld1r", "ld2r", "ld3r", "ld4r"],
        ["st1", "st2", "st3", "st4"],
    ];
    let loads = w.bits(22, 1) == 1;
    let base = w.bits(5, 5) as Reg;
    address(w, 0, bytes, loads);
    let mut place = "[x]";
    if moves_on {
        w.d.writes.push((BASE, base));
        place = "[x],i";
        if w.bits(16, 5) == 31 {
            w.d.effects.push(Effect::Offset {
                to: base,
                from: base,
                add: i64::from(bytes),
            });
        } else {
            w.read(INDEX, 16);
            place = "[x],x";
        }
    }
    let row = if !loads { 2 } else { usize::from(!all.is_empty()) };
    w.mnemonic = NAMES[row][count as usize - 1];
    w.name(&format!("{operands},{place}"));
    Ok(())
}
