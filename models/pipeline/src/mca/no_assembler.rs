//! Where no assembler can run.

use crate::isa::Isa;
use crate::mca::elf::Code;
use crate::mca::flags::Flags;

/// Refuse a text.
///
/// # Errors
/// Always: one line that says what to do.
pub fn assembled(_: &Flags, _: Isa, _: &str) -> Result<Code, String> {
    Err("assembly text, and no assembler here: paste hex, or what `objdump -d` prints".into())
}
