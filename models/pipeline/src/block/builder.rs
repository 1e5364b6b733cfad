//! A block that is being made.

use crate::block::split::{Access, Pointers};
use crate::block::upper_halves::State;
use crate::block::{Block, Notion};
use crate::core::params::Params;

/// Makes a block.
pub(crate) struct Builder<'a> {
    pub(crate) params: &'a Params,
    pub(crate) block: Block,
    pub(crate) stack_dirty: bool,
    /// Registers whose high byte is renamed apart, one bit each.
    pub(crate) high_apart: u8,
    /// The upper halves of vector registers before the next instruction.
    pub(crate) upper_halves: State,
    pub(crate) stores: u16,
    /// Memory operands that are read, so far.
    pub(crate) reads: u16,
    /// Registers that a loop advances by a constant, one bit each.
    pub(crate) advancing: u64,
    /// The pointers, for accesses that cross boundaries.
    pub(crate) pointers: Pointers,
    /// The access of the instruction that is being built, where known.
    pub(crate) access: Option<Access>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(len: u32, code_offset: u32, notion: Notion, params: &'a Params) -> Self {
        let block = Block {
            notion,
            code_offset: code_offset % 64,
            len,
            insts: Vec::new(),
            fused: Vec::new(),
            slots: Vec::new(),
            uops: Vec::new(),
            owner: Vec::new(),
            stores: 0,
            places: Vec::new(),
            reads: Vec::new(),
            forwards: false,
            store_number: Vec::new(),
            inner_base: Vec::new(),
            names: Vec::new(),
            split_period: 1,
            caveats: Vec::new(),
            mispredicted: Vec::new(),
            transitions: false,
            stack: 0,
            stacked: Vec::new(),
        };
        Builder {
            params,
            block,
            stack_dirty: false,
            high_apart: 0,
            upper_halves: State::default(),
            stores: 0,
            reads: 0,
            advancing: 0,
            pointers: Pointers::default(),
            access: None,
        }
    }
}
