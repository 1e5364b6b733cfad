//! A block's instructions in program order, as units meet them: without end, each in its blocks of code.

use crate::block::cut::Cut;
use crate::block::position::Position;
use crate::block::{Block, Inst};

/// The instructions of a block, one iteration after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// Block.
    pub block: &'a Block,
    /// The division of its code.
    pub cut: &'a Cut,
}

impl<'a> Stream<'a> {
    /// The instruction at a position.
    #[inline]
    pub fn inst(&self, at: Position) -> &'a Inst {
        &self.block.insts[at.inst as usize]
    }

    /// The instruction after this one in program order.
    #[inline]
    pub fn after(&self, at: Position) -> Position {
        at.step(self.block.insts.len())
    }

    /// Address of an instruction of copies that follow each other, mod 2^32.
    #[inline]
    pub fn address(&self, at: Position) -> u32 {
        let first = self.cut.first.wrapping_add(self.inst(at).offset);
        first.wrapping_add(at.iteration.wrapping_mul(self.block.len))
    }

    /// Block of code in which an instruction starts.
    #[inline]
    pub fn start(&self, at: Position) -> u32 {
        match self.cut.window(at.inst) {
            Some(window) => window.start,
            None => self.address(at) / self.cut.bytes,
        }
    }

    /// Block of code in which its opcode stands.
    #[inline]
    pub fn opcode(&self, at: Position) -> u32 {
        match self.cut.window(at.inst) {
            Some(window) => window.opcode,
            None => self.address(at).wrapping_add(self.inst(at).opcode_at) / self.cut.bytes,
        }
    }

    /// Block of code in which it ends.
    #[inline]
    pub fn end(&self, at: Position) -> u32 {
        match self.cut.window(at.inst) {
            Some(window) => window.end,
            None => self.address(at).wrapping_add(self.inst(at).len - 1) / self.cut.bytes,
        }
    }
}
