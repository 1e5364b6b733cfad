//! A block made ready for simulation: instructions, fused uops, uops, all in flat tables.

pub mod address;
pub mod aliasing;
pub mod arm64;
mod branches;
mod build;
mod builder;
pub mod cache_plan;
pub mod call;
pub mod caveats;
pub mod cut;
mod forwarding;
mod fusion;
mod high_bytes;
pub mod jumps;
pub mod layout;
pub mod locations;
pub mod path;
pub mod position;
mod regions;
pub mod replay;
mod slots;
pub mod source;
pub mod special;
pub mod split;
pub mod stream;
mod sums;
mod targets;
pub mod uops;
mod upper_halves;
pub mod x86;

use crate::block::locations::Location;
use crate::block::uops::Uop;
use crate::isa::inst::{Reg, HIGH};
use std::ops::Range;

/// Throughput notion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notion {
    /// The block ends in a taken branch to its start.
    Loop,
    /// Copies of the block follow each other in memory.
    Unrolled,
    /// The instructions that one call executes, and after them those of the next.
    Call,
}

/// The treatment of a dispatch slot by rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Its uops go to the schedulers.
    Normal,
    /// A register move that may be eliminated.
    Move {
        /// Register written.
        to: Reg,
        /// Register read.
        from: Reg,
    },
    /// A constant addition that rename may do.
    Add {
        /// Register written.
        to: Reg,
        /// Register read.
        from: Reg,
        /// Constant.
        add: i32,
    },
    /// Two registers of the x87 stack change places.
    Exchange(Reg, Reg),
}

/// The cost of a serializing instruction, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drain {
    /// From the last instruction before it that retires.
    pub cycles: u32,
    /// As many of them pass while what is before it still runs.
    pub overlap: u32,
}

/// Properties of an instruction that cost cycles beside certain others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traits {
    /// Its flags are those of logic.
    pub logic: bool,
    /// It picks or sets one value by the flags, in one uop.
    pub picks: bool,
    /// It shifts.
    pub shifts: bool,
    /// It adds or subtracts floats of less than 512 bits.
    pub sums: bool,
}

/// A dispatch slot: one fused uop at rename and retirement.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Kind.
    pub kind: SlotKind,
    /// Its uops.
    pub uops: Range<u32>,
    /// Registers that become known without execution.
    pub clears: Vec<Reg>,
    /// Instruction.
    pub inst: u16,
    /// Inserted by rename, not by the front end.
    pub inserted: bool,
    /// Serialises; cycles.
    pub serial: Option<Drain>,
    /// Cycles for which rename stands still behind it.
    pub holds: u32,
    /// Last slot of its instruction.
    pub last: bool,
    /// Store that it makes.
    pub store: Option<u16>,
    /// Of an instruction of 512 bits.
    pub wide: bool,
    /// The properties of its instruction.
    pub traits: Traits,
}

/// A fused uop of the front end.
#[derive(Clone, Debug)]
pub struct Fused {
    /// Its dispatch slots.
    pub slots: Range<u32>,
    /// Dispatch slots of uops that merge high bytes before it, in a cycle of their own.
    pub merges: Range<u32>,
    /// Instruction.
    pub inst: u16,
    /// First of its instruction.
    pub first: bool,
    /// Uops in its slots.
    pub uops: u32,
    /// Uops that the limit of arithmetic uops a cycle counts.
    pub alu: u32,
    /// Begins a branch, or a pair that is one.
    pub branch: bool,
    /// Waits until everything before it has retired, then takes that many cycles.
    pub serial: Option<Drain>,
    /// Cycles for which rename stands still behind it.
    pub holds: u32,
    /// Stores in its slots.
    pub stores: u32,
}

/// An instruction as the front end sees it.
#[derive(Clone, Debug, Default)]
pub struct Inst {
    /// Offset in the block, bytes.
    pub offset: u32,
    /// Length, bytes.
    pub len: u32,
    /// Bytes before the primary opcode.
    pub opcode_at: u32,
    /// Has a length-changing prefix.
    pub lcp: bool,
    /// Fused uops.
    pub fused: Range<u32>,
    /// The number of them from microcode.
    pub ms: u32,
    /// Needs the complex decoder.
    pub complex: bool,
    /// Simple decoders usable after it.
    pub simple_after: u32,
    /// Fuses with the next instruction.
    pub head: bool,
    /// Fused into the previous instruction.
    pub tail: bool,
    /// Could fuse with some branch.
    pub fusible: bool,
    /// Is a branch or fused with one.
    pub branch: bool,
    /// Is a branch that neither calls nor returns, or fused with one.
    pub jump: bool,
    /// Is a return.
    pub returns: bool,
    /// Is a branch whose target is found with that of the branch taken before it.
    pub second: bool,
    /// A branch that is taken: in a loop the last instruction.
    pub taken: bool,
    /// A branch that leaves a loop, which a quick predictor does not expect.
    pub late: bool,
    /// Takes two places in a line of the uop cache.
    pub wide: bool,
    /// Holds a constant that needs 64 bits.
    pub long_constant: bool,
    /// 32-bit constants that a line of the uop cache keeps of it, or of the pair that it is fused in.
    pub constants: u32,
}

/// A block ready for simulation.
#[derive(Clone, Debug)]
pub struct Block {
    /// Notion.
    pub notion: Notion,
    /// Code offset of its first byte, mod 64; of a call's code mod 4096.
    pub code_offset: u32,
    /// Length, bytes.
    pub len: u32,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// Fused uops of one iteration.
    pub fused: Vec<Fused>,
    /// Dispatch slots of one iteration.
    pub slots: Vec<Slot>,
    /// Uops of one iteration.
    pub uops: Vec<Uop>,
    /// Instruction of each uop.
    pub owner: Vec<u16>,
    /// Number of stores.
    pub stores: usize,
    /// The location of each store.
    pub places: Vec<Location>,
    /// The location of each memory operand that is read; none if nothing depends on it.
    pub reads: Vec<Location>,
    /// Whether a load takes its data from a store.
    pub forwards: bool,
    /// Store number of each uop that stores data.
    pub store_number: Vec<Option<u16>>,
    /// First uop of the instruction of each uop, for inner sources.
    pub inner_base: Vec<u32>,
    /// Names of the forms.
    pub names: Vec<String>,
    /// Iterations after which accesses cross the same boundaries again.
    pub split_period: u32,
    /// The parts that are not simulated, in sentences.
    pub caveats: Vec<String>,
    /// Instructions of a call whose branches are mispredicted; empty: none.
    pub mispredicted: Vec<bool>,
    /// Upper halves of vector registers are saved and restored.
    pub transitions: bool,
    /// Net change of the stack pointer by pushes and pops, bytes.
    pub stack: i64,
    /// The same by each instruction of a call.
    pub stacked: Vec<i64>,
}

/// A range of 32-bit numbers as one that indexes slices.
pub(crate) fn indices(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

impl Block {
    /// Whether an instruction writes the high byte of a register, where rename knows it apart.
    pub fn writes_high_bytes(&self) -> bool {
        let mut written = self.uops.iter().flat_map(|u| &u.outputs).flat_map(|o| &o.regs);
        written.any(|reg| *reg >= HIGH)
    }

    /// Whether pushes and pops of some instructions leave the stack pointer where it was.
    pub fn balanced(&self, insts: Range<usize>) -> bool {
        self.stacked
            .get(insts)
            .is_none_or(|moved| moved.iter().sum::<i64>() == 0)
    }
}

/// Counts and alignments that string instructions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StringUse {
    /// Repetitions of each string instruction.
    pub count: Option<u32>,
    /// Destination address mod 64.
    pub destination: Option<u32>,
    /// Source address mod 64, where that is known.
    pub source: Option<u32>,
}
