//! Loops that were found.

/// The reason why a loop has no block to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its path calls.
    Calls,
    /// A string instruction repeats on its path.
    Repeats,
    /// Its path ends in an indirect jump.
    Indirect,
    /// Its likely path goes around elsewhere.
    Elsewhere,
    /// Nothing leads there, and bytes that are no instructions lie beside it.
    Doubtful,
}

/// An innermost loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Stretches of an iteration in order: offsets of first byte and of the byte behind. The first
    /// is the lowest in memory. Of a refused loop its head alone.
    pub path: Vec<(u32, u32)>,
    /// Offsets of conditional branches on the path, but for the last, that may leave it.
    pub exits: Vec<u32>,
    /// The reason why it cannot be predicted.
    pub refused: Option<Refusal>,
}

/// All loops of a section.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// Innermost ones by where their path begins.
    pub found: Vec<Loop>,
    /// The number of loops that contain another one.
    pub outer: u32,
    /// Bytes that are no instructions, padding left out.
    pub lost: u32,
}
