//! AArch64 decoding: what an instruction reads, writes and does to addresses.
//!
//! The decoder crate tells which instruction a word is; fields and operands are
//! read here. Only instructions whose operands are known get through: for all
//! others the error names them.

mod float;
pub mod flow;
pub mod integer;
pub mod memory;
mod simd;
pub mod vector;

use crate::core::figures::{Label, FLAGS};
use crate::error::Error;
use crate::isa::inst::{Decoded, Reg, CARRY, VECTOR};
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
    pub fn width(&self) -> char {
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
        Err(Refused::Unknown) => Err(Error::Unknown(flow::system_name(&work).unwrap_or(work.mnemonic).into())),
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
        C::ADDSUB_IMM => integer::add_immediate(w)?,
        C::ADDSUB_SHIFT => integer::add_shifted(w)?,
        C::ADDSUB_EXT => integer::add_extended(w)?,
        C::ADDSUB_CARRY => integer::add_carry(w)?,
        C::LOG_IMM => integer::logic_immediate(w)?,
        C::LOG_SHIFT => integer::logic_shifted(w)?,
        C::MOVEWIDE => integer::move_wide(w)?,
        C::PCRELADDR => {
            w.write(0, 0);
            w.name("x,i");
        }
        C::BITFIELD => integer::bitfield(w)?,
        C::EXTRACT => integer::extract(w)?,
        C::DP_1SRC => integer::one_source(w)?,
        C::DP_2SRC => integer::two_sources(w)?,
        C::DP_3SRC => integer::three_sources(w)?,
        C::CONDSEL => integer::select(w)?,
        C::CONDCMP_IMM | C::CONDCMP_REG => integer::conditional_compare(w, class == C::CONDCMP_REG)?,
        C::BRANCH_IMM | C::BRANCH_REG | C::COMPBRANCH | C::TESTBRANCH | C::CONDBRANCH => flow::branch(w)?,
        C::IC_SYSTEM => flow::system(w)?,
        C::LDST_POS | C::LDST_UNSCALED | C::LDST_UNPRIV | C::LDST_IMM9 | C::LDST_REGOFF => memory::single(w, class)?,
        C::LOADLIT => memory::literal(w)?,
        C::LDSTPAIR_OFF | C::LDSTPAIR_INDEXED | C::LDSTNAPAIR_OFFS => memory::pair(w)?,
        _ => vector::describe(w, class)?,
    }
    let d = &mut w.d;
    d.compares = d.mems.is_empty() && d.writes.len() == 1 && d.writes[0].0 == FLAGS;
    Ok(())
}
