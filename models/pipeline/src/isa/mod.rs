//! Instruction sets: from bytes to what instructions read, write and do to addresses.

pub mod arm64;
pub mod flow;
pub mod inst;
pub mod label;
pub mod outline;
pub mod x86;

use crate::error::Error;
use crate::isa::flow::Next;
use crate::isa::inst::Decoded;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 64-bit x86.
    X86,
    /// AArch64.
    Arm64,
}

impl Isa {
    /// The other one.
    pub fn other(self) -> Isa {
        match self {
            Isa::X86 => Isa::Arm64,
            Isa::Arm64 => Isa::X86,
        }
    }
}

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first byte that starts no instruction, [`Error::Unknown`] for an
/// instruction whose operands are not known.
pub fn decode(isa: Isa, code: &[u8]) -> Result<Vec<Decoded>, Error> {
    match isa {
        Isa::X86 => x86::decode(code),
        Isa::Arm64 => arm64::decode(code),
    }
}

/// Decode the instruction at a place in code, and where control goes from it.
///
/// # Errors
/// As [`decode`].
pub fn decode_at(isa: Isa, code: &[u8], at: usize) -> Result<(Decoded, Next), Error> {
    match isa {
        Isa::X86 => x86::decode_at(code, at),
        Isa::Arm64 => arm64::decode_at(code, at),
    }
}
