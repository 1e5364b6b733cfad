//! What is in flight: uops, results, entries of queues.

/// Fused uops in flight at most; a power of two.
pub const ROB_SIZE: usize = 2048;
/// Uops in flight at most; a power of two.
pub const UOP_SIZE: usize = 4096;
/// Sources of a uop that are tracked.
pub const SOURCES: usize = 8;
/// Outputs of a uop that are tracked.
pub const OUTPUTS: usize = 4;
/// No index.
pub const NONE: u32 = u32::MAX;
/// Not known yet.
pub const LATER: i32 = i32::MAX;

/// A result in flight.
#[derive(Clone, Copy)]
pub struct Value {
    /// Cycle at which it is known.
    pub ready: i32,
    /// Registers that hold it.
    pub uses: u16,
    /// First waiting input, as uop slot times [`SOURCES`] plus input.
    pub waiting: u32,
    /// Instruction that makes it.
    pub inst: u16,
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Known since a cycle; instruction that made it.
    Since(i32, u16),
    /// Result in flight.
    Value(u32),
}

/// A uop in flight.
#[derive(Clone, Copy)]
pub struct Flight {
    /// Uop of the block.
    pub uop: u32,
    /// Reorder buffer entry.
    pub rob: u32,
    /// Iteration.
    pub iteration: u32,
    /// Port chosen, or 255.
    pub port: u8,
    /// Inputs not known yet.
    pub pending: u8,
    /// Earliest start as far as known.
    pub ready: i32,
    /// Cycle from which on its operands are looked at.
    pub earliest: i32,
    /// Cycle at which the last operand known so far comes.
    pub operand: i32,
    /// Instruction whose result came last.
    pub critical: u16,
    /// Values of its outputs.
    pub values: [u32; OUTPUTS],
    /// Cycle at which its first result is known, [`LATER`] until it starts.
    pub result: i32,
}

/// A fused uop in flight.
#[derive(Clone, Copy)]
pub struct RobEntry {
    /// Slot of the block.
    pub slot: u32,
    /// Iteration.
    pub iteration: u32,
    /// Uops still to start.
    pub left: u16,
    /// Cycle at which all started uops are done.
    pub done: i32,
}

/// An instruction between fetch and decode.
#[derive(Clone, Copy)]
pub struct Queued {
    /// Instruction of the block.
    pub inst: u32,
    /// Iteration.
    pub iteration: u32,
    /// First cycle at which it can be decoded.
    pub ready: i32,
}

/// A fused uop in front of rename.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Fused uop of the block.
    pub fused: u32,
    /// Iteration.
    pub iteration: u32,
    /// Last before the loop buffer starts over.
    pub wraps: bool,
}

/// Why the front end delivered nothing, for naming the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Predecoder or fetch.
    Predecode,
    /// Decoders.
    Decode,
    /// Microcode sequencer.
    Microcode,
    /// Uop cache.
    UopCache,
    /// Loop buffer.
    LoopBuffer,
}

/// Position in the endless stream of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
}
