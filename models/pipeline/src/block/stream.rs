//! A block's instructions in program order, as units meet them: without end, each at its address.

use crate::block::{Block, Inst, Notion};

/// Position in the endless stream of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
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

/// The instructions of a block, one iteration after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Block.
    pub block: &'a Block,
}

impl<'a> Stream<'a> {
    /// The instruction at a position.
    #[inline]
    pub fn inst(&self, at: Position) -> &'a Inst {
        &self.block.insts[at.inst as usize]
    }

    /// Address of an instruction mod 2^32, the block being laid out at its code offset.
    #[inline]
    pub fn address(&self, at: Position) -> u32 {
        let copies = match self.block.notion {
            Notion::Unrolled => at.iteration,
            Notion::Loop | Notion::Call => 0,
        };
        self.block
            .code_offset
            .wrapping_add(copies.wrapping_mul(self.block.len))
            .wrapping_add(self.inst(at).offset)
    }

    /// The instruction after this one in program order.
    #[inline]
    pub fn after(&self, at: Position) -> Position {
        at.step(self.block.insts.len())
    }
}
