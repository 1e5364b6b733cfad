//! A word of AArch64 code while it is read.

use crate::isa::inst::{Decoded, Reg, CARRY, VECTOR};
use crate::isa::label::{Label, FLAGS};

/// Label of the base register of an address.
pub const BASE: Label = 4;
/// Label of the index register of an address.
pub const INDEX: Label = 5;
/// Stack pointer; the zero register has no number.
pub const SP: Reg = 31;

/// A word and what has been found out about it.
pub struct Work {
    /// The word.
    pub word: u32,
    /// Name of the instruction, without aliases.
    pub mnemonic: &'static str,
    /// The description so far.
    pub d: Decoded,
}

/// The reason why a word has no description.
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
