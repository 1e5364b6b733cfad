//! Instructions as the pipeline sees them, whatever the instruction set.

use crate::isa::label::Label;

/// Architectural register: general-purpose 0-31, vector 32-63, flags and others above.
pub type Reg = u8;
/// First vector register.
pub const VECTOR: Reg = 32;
/// Carry flag (all flags on arm64).
pub const CARRY: Reg = 64;
/// Other arithmetic flags.
pub const ARITH: Reg = 65;
/// First register of other kinds.
pub const OTHER: Reg = 66;
/// High bytes of the first four registers, where they are renamed apart.
pub const HIGH: Reg = 88;
/// Number of registers.
pub const REGS: usize = 96;
/// No register.
pub const NO_REG: Reg = 255;

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// Base register or [`NO_REG`].
    pub base: Reg,
    /// Index register or [`NO_REG`].
    pub index: Reg,
    /// Factor of the index.
    pub scale: u8,
    /// Displacement, absolute if there is no base.
    pub disp: i64,
    /// Bytes accessed.
    pub bytes: u16,
    /// Is read.
    pub read: bool,
    /// Is written.
    pub write: bool,
    /// Displacement of the stack engine rather than of the code.
    pub stack: bool,
}

/// A use of the high byte of a register: `ah`, `ch`, `dh` or `bh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HighByte {
    /// Its operand.
    pub label: Label,
    /// Its register.
    pub reg: Reg,
    /// Is read.
    pub read: bool,
    /// Is written.
    pub written: bool,
}

/// The effect of an instruction on a register, for following addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `to = from + add`.
    Offset {
        /// Register written.
        to: Reg,
        /// Register read.
        from: Reg,
        /// Constant added.
        add: i64,
    },
    /// `to` is zero.
    Zero {
        /// Register written.
        to: Reg,
    },
}

/// Kind of branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Branch {
    /// Not a branch.
    #[default]
    No,
    /// Conditional; bit of [`crate::isa::label::BRANCH_KINDS`] it belongs to.
    Conditional(u8),
    /// Unconditional, direct or indirect.
    Always,
}

/// The kind of a serializing instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serial {
    /// `lfence`.
    LoadFence,
    /// `mfence`.
    MemoryFence,
    /// `stac` or `clac`.
    UserAccess,
}

/// Special handling outside of the table of figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Special {
    /// None.
    #[default]
    No,
    /// String copy with a repeat prefix; bytes per element.
    RepMovs(u8),
    /// String fill with a repeat prefix; bytes per element.
    RepStos(u8),
    /// Waits for all before it.
    Serialise(Serial),
}

/// The upper halves of vector registers, bits 128 and up, in an instruction of x86-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpperHalves {
    /// No part in it.
    #[default]
    None,
    /// A VEX or EVEX instruction of 256 bits or more writes a register.
    Writes,
    /// Another VEX or EVEX instruction works on vectors.
    Uses,
    /// A legacy SSE instruction writes a lower half and keeps the upper one.
    Keeps,
    /// `vzeroupper` and `vzeroall` clear all.
    Clears,
}

/// One decoded instruction before its uops are made.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// Offset in the block, bytes.
    pub offset: u32,
    /// Length, bytes.
    pub len: u8,
    /// Bytes before the primary opcode.
    pub opcode_at: u8,
    /// Carries a prefix that changes its length.
    pub lcp: bool,
    /// 32-bit constants in its code: immediates, displacements and distances of branches; one of 64 bits is two.
    pub constants: u8,
    /// There is one, of 8 bits.
    pub short_constant: bool,
    /// 64-bit immediate.
    pub wide_immediate: bool,
    /// One whose value needs more than 32 bits.
    pub long_constant: bool,
    /// An immediate of more than 16 bits beside a memory operand.
    pub wide_operands: bool,
    /// An operand of 512 bits.
    pub bits512: bool,
    /// Upper halves of vector registers.
    pub upper_halves: UpperHalves,
    /// High bytes of registers that are read or written.
    pub high: Vec<HighByte>,
    /// Registers with a high byte that are read beyond it, or written by 16 bits: one bit each.
    pub whole_reads: u8,
    /// The same of those that are written by 32 or 64 bits.
    pub whole_writes: u8,
    /// Registers read: label and register.
    pub reads: Vec<(Label, Reg)>,
    /// Registers written: label and register.
    pub writes: Vec<(Label, Reg)>,
    /// Memory operands in order.
    pub mems: Vec<Mem>,
    /// Kind of branch.
    pub branch: Branch,
    /// Effect on registers that addresses are made of.
    pub effects: Vec<Effect>,
    /// All source registers are the same one.
    pub same: bool,
    /// Change of the stack pointer done by the stack engine, bytes.
    pub stack: i64,
    /// Uses the stack pointer explicitly.
    pub explicit_sp: bool,
    /// Immediate addition that rename can do: the constant.
    pub rename_add: Option<i64>,
    /// Has an immediate operand.
    pub has_immediate: bool,
    /// Has a memory operand relative to the instruction pointer.
    pub ip_relative: bool,
    /// Compare or test.
    pub compares: bool,
    /// Name of its form in the table of figures.
    pub form: String,
    /// Special handling.
    pub special: Special,
    /// Atomic.
    pub locked: bool,
    /// Pops the stack pointer or r12, which few decoders take.
    pub awkward_pop: bool,
}

impl Decoded {
    /// Whether a vector register takes part.
    pub fn vector(&self) -> bool {
        let mut regs = self.reads.iter().chain(&self.writes).map(|r| r.1);
        regs.any(|reg| (VECTOR..CARRY).contains(&reg))
    }

    /// Whether a memory operand has an index register, and a base register unless the index may be `alone`.
    pub fn indexed(&self, alone: bool) -> bool {
        self.mems
            .iter()
            .any(|m| m.index != NO_REG && (alone || m.base != NO_REG))
    }
}
