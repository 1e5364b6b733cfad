//! The code in which loops are searched.

use crate::isa::Isa;

/// A section of code, and what is known of it.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// Instruction set.
    pub isa: Isa,
    /// Its bytes.
    pub code: &'a [u8],
    /// Offsets where routines begin, and parts of them that were moved elsewhere, sorted.
    pub starts: &'a [u32],
    /// Offsets where routines end, sorted.
    pub ends: &'a [u32],
    /// Offsets where control may come in from outside, sorted.
    pub entries: &'a [u32],
    /// Stretches that hold data, sorted.
    pub data: &'a [(u32, u32)],
    /// Its address mod 16, for where to look on behind bytes that are no instructions.
    pub address: u32,
}
