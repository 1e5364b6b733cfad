//! Names of values inside an instruction, and kinds of branch, that figures are listed by.

/// Names a value inside an instruction: an operand, the flags or a fixed register.
pub type Label = u8;
/// The flags.
pub const FLAGS: Label = 8;
/// The memory operand.
pub const MEM: Label = 9;
/// The index register of `lea`.
pub const INDEX: Label = 10;
/// The mask of an AVX-512 instruction.
pub const MASK: Label = 11;
/// Any operand: matches every label.
pub const ANY: Label = 255;

/// Label of a fixed register, by its number.
pub fn fixed(register: u8) -> Label {
    16 + register
}

/// Letters of branch kinds in the order of their bits.
pub const BRANCH_KINDS: &str = "acloprsz";

/// Bit mask of branch kinds.
pub fn kind_mask(letters: &str) -> u16 {
    letters
        .chars()
        .filter_map(|c| BRANCH_KINDS.find(c))
        .fold(0, |mask, bit| mask | 1 << bit)
}
