//! Positions in the endless stream of a block's instructions.

/// Position in the endless stream of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
}

/// Iterations after which what moves by so many bytes in each lies at the same place of aligned bytes, a power of two.
pub fn period(step: i64, within: u32) -> u32 {
    within >> step.trailing_zeros().min(within.trailing_zeros())
}

impl Position {
    /// The first one.
    pub const START: Position = Position { iteration: 0, inst: 0 };

    /// The next of so many in an iteration.
    #[inline]
    pub fn step(self, count: usize) -> Position {
        if self.inst as usize + 1 == count {
            Position {
                iteration: self.iteration + 1,
                inst: 0,
            }
        } else {
            Position {
                inst: self.inst + 1,
                ..self
            }
        }
    }
}
