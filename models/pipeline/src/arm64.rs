//! AArch64 decoding: what an instruction reads, writes and does to addresses.
//!
//! The decoder crate tells which instruction a word is; fields and operands are
//! read here. Only instructions whose operands are known get through: for all
//! others the error names them.

use crate::arm64_vector;
use crate::error::Error;
use crate::figures::{Label, FLAGS};
use crate::inst::{Branch, Decoded, Effect, Mem, Reg, CARRY, NO_REG, VECTOR};
use disarm64::{decoder, InsnOpcode};
use disarm64_defn::InsnClass;
use InsnClass as C;

/// Label of the base register of an address.
pub const BASE: Label = 4;
/// Label of the index register of an address.
pub const INDEX: Label = 5;
/// Stack pointer; the zero register has no number.
pub const SP: Reg = 31;

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first word that is no instruction, [`Error::Unknown`]
/// with the name of an instruction whose operands are not known.
pub fn decode(code: &[u8]) -> Result<Vec<Decoded>, Error> {
    let mut out = Vec::with_capacity(code.len() / 4);
    for (n, bytes) in code.chunks(4).enumerate() {
        let word = <[u8; 4]>::try_from(bytes).map_err(|_| Error::Decode(4 * n))?;
        out.push(describe(u32::from_le_bytes(word), 4 * n)?);
    }
    Ok(out)
}

/// A word and what has been found out about it.
pub struct Work {
    /// The word.
    pub word: u32,
    /// Name of the instruction, without aliases.
    pub mnemonic: &'static str,
    /// What it does.
    pub d: Decoded,
}

/// Why a word is not described.
pub enum Refused {
    /// It is no instruction.
    Invalid,
    /// Its operands are not known.
    Unknown,
}

impl Work {
    /// Bits of the word, the lowest first.
    pub fn bits(&self, low: u32, count: u32) -> u32 {
        self.word >> low & ((1 << count) - 1)
    }

    /// Signed bits of the word.
    pub fn signed(&self, low: u32, count: u32) -> i64 {
        let value = i64::from(self.bits(low, count));
        if value >> (count - 1) == 1 {
            value - (1 << count)
        } else {
            value
        }
    }

    /// Reads a general-purpose register; number 31 is zero.
    pub fn read(&mut self, label: Label, low: u32) {
        let reg = self.bits(low, 5) as Reg;
        if reg != 31 {
            self.d.reads.push((label, reg));
        }
    }

    /// Reads a general-purpose register; number 31 is the stack pointer.
    pub fn read_sp(&mut self, label: Label, low: u32) {
        self.d.reads.push((label, self.bits(low, 5) as Reg));
    }

    /// Writes a general-purpose register; number 31 is nowhere.
    pub fn write(&mut self, label: Label, low: u32) {
        let reg = self.bits(low, 5) as Reg;
        if reg != 31 {
            self.d.writes.push((label, reg));
        }
    }

    /// Reads a vector register.
    pub fn read_vector(&mut self, label: Label, low: u32) {
        self.d.reads.push((label, VECTOR + self.bits(low, 5) as Reg));
    }

    /// Writes a vector register.
    pub fn write_vector(&mut self, label: Label, low: u32) {
        self.d.writes.push((label, VECTOR + self.bits(low, 5) as Reg));
    }

    /// Writes the flags.
    pub fn write_flags(&mut self) {
        self.d.writes.push((FLAGS, CARRY));
    }

    /// Reads the flags.
    pub fn read_flags(&mut self) {
        self.d.reads.push((FLAGS, CARRY));
    }

    /// Names the form.
    pub fn name(&mut self, operands: &str) {
        self.d.form = if operands.is_empty() {
            self.mnemonic.into()
        } else {
            format!("{} {operands}", self.mnemonic)
        };
    }

    /// Letter of a general-purpose register, by the width bit.
    fn width(&self) -> char {
        if self.bits(31, 1) == 1 {
            'x'
        } else {
            'w'
        }
    }
}

fn describe(word: u32, at: usize) -> Result<Decoded, Error> {
    let Some(opcode) = decoder::decode(word) else {
        return Err(Error::Decode(at));
    };
    let definition = opcode.definition();
    let mut work = Work {
        word,
        mnemonic: definition.mnemonic,
        d: blank(at),
    };
    match dispatch(&mut work, definition.class) {
        Ok(()) => Ok(work.d),
        Err(Refused::Invalid) => Err(Error::Decode(at)),
        Err(Refused::Unknown) => Err(Error::Unknown(system_name(&work).unwrap_or(work.mnemonic).into())),
    }
}

fn blank(at: usize) -> Decoded {
    Decoded {
        offset: at as u32,
        len: 4,
        ..Decoded::default()
    }
}

fn dispatch(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    match class {
        C::ADDSUB_IMM => add_immediate(w)?,
        C::ADDSUB_SHIFT => add_shifted(w)?,
        C::ADDSUB_EXT => add_extended(w)?,
        C::ADDSUB_CARRY => add_carry(w)?,
        C::LOG_IMM => logic_immediate(w)?,
        C::LOG_SHIFT => logic_shifted(w)?,
        C::MOVEWIDE => move_wide(w)?,
        C::PCRELADDR => {
            w.write(0, 0);
            w.name("x,i");
        }
        C::BITFIELD => bitfield(w)?,
        C::EXTRACT => extract(w)?,
        C::DP_1SRC => one_source(w)?,
        C::DP_2SRC => two_sources(w)?,
        C::DP_3SRC => three_sources(w)?,
        C::CONDSEL => select(w)?,
        C::CONDCMP_IMM | C::CONDCMP_REG => conditional_compare(w, class == C::CONDCMP_REG)?,
        C::BRANCH_IMM | C::BRANCH_REG | C::COMPBRANCH | C::TESTBRANCH | C::CONDBRANCH => branch(w)?,
        C::IC_SYSTEM => system(w)?,
        C::LDST_POS | C::LDST_UNSCALED | C::LDST_UNPRIV | C::LDST_IMM9 | C::LDST_REGOFF => single(w, class)?,
        C::LOADLIT => literal(w)?,
        C::LDSTPAIR_OFF | C::LDSTPAIR_INDEXED | C::LDSTNAPAIR_OFFS => pair(w)?,
        _ => arm64_vector::describe(w, class)?,
    }
    let d = &mut w.d;
    d.compares = d.mems.is_empty() && d.writes.len() == 1 && d.writes[0].0 == FLAGS;
    Ok(())
}

/// Width and operands of a form with so many registers.
fn registers(w: &Work, rest: &str) -> String {
    let letter = w.width();
    rest.chars().map(|c| if c == 'r' { letter } else { c }).collect()
}

fn add_immediate(w: &mut Work) -> Result<(), Refused> {
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

fn add_shifted(w: &mut Work) -> Result<(), Refused> {
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

fn add_extended(w: &mut Work) -> Result<(), Refused> {
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

fn add_carry(w: &mut Work) -> Result<(), Refused> {
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

fn logic_immediate(w: &mut Work) -> Result<(), Refused> {
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

fn logic_shifted(w: &mut Work) -> Result<(), Refused> {
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

fn move_wide(w: &mut Work) -> Result<(), Refused> {
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

fn bitfield(w: &mut Work) -> Result<(), Refused> {
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

fn extract(w: &mut Work) -> Result<(), Refused> {
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

fn one_source(w: &mut Work) -> Result<(), Refused> {
    if !matches!(w.mnemonic, "rbit" | "rev" | "rev16" | "rev32" | "clz" | "cls") {
        return Err(Refused::Unknown);
    }
    w.read(1, 5);
    w.write(0, 0);
    w.name(&registers(w, "r,r"));
    Ok(())
}

fn two_sources(w: &mut Work) -> Result<(), Refused> {
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

fn three_sources(w: &mut Work) -> Result<(), Refused> {
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

fn select(w: &mut Work) -> Result<(), Refused> {
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

fn conditional_compare(w: &mut Work, register: bool) -> Result<(), Refused> {
    w.read(1, 5);
    if register {
        w.read(2, 16);
    }
    w.read_flags();
    w.write_flags();
    w.name(&registers(w, if register { "r,r" } else { "r,i" }));
    Ok(())
}

fn branch(w: &mut Work) -> Result<(), Refused> {
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

fn system(w: &mut Work) -> Result<(), Refused> {
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
fn system_name(w: &Work) -> Option<&'static str> {
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

/// What a single load or store moves: letter of the register, bytes, whether it loads.
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

fn single(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
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

fn literal(w: &mut Work) -> Result<(), Refused> {
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

fn pair(w: &mut Work) -> Result<(), Refused> {
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
