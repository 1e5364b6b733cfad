//! Everything in flight: entries of queues, uops, values of registers and stores.

/// Fused uops in flight at most; a power of two.
pub const ROB_SIZE: usize = 2048;
/// Uops in flight at most; a power of two.
pub const UOP_SIZE: usize = 4096;
/// No index.
pub const NONE: u32 = u32::MAX;
/// Not known yet.
pub const LATER: i32 = i32::MAX;

/// The value of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Known since a cycle; instruction that made it.
    Since(i32, u16),
    /// Result in flight.
    Value(u32),
}

/// An instruction between fetch and decode.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// Instruction of the block.
    pub inst: u32,
    /// Iteration.
    pub iteration: u32,
    /// First cycle at which it can be decoded.
    pub ready: i32,
}

/// A fused uop in front of rename.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Fused uop of the block.
    pub fused: u32,
    /// Iteration.
    pub iteration: u32,
    /// Last before the loop buffer starts over.
    pub wraps: bool,
}

/// The reason why the front end delivered nothing, for naming the bottleneck.
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
