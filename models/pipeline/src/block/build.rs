//! From bytes to a block.

use crate::block::builder::Builder;
use crate::block::{Block, Notion, StringUse};
use crate::core::figures::FigureTable;
use crate::core::params::Params;
use crate::error::Error;
use crate::isa;
use crate::isa::inst::Branch;

impl Block {
    /// Decode and prepare a block.
    ///
    /// # Errors
    /// The bytes do not decode, an instruction has no figures, or a loop does not
    /// end in a branch.
    pub fn new(
        code: &[u8],
        code_offset: u32,
        notion: Notion,
        params: &Params,
        table: &FigureTable,
        strings: StringUse,
    ) -> Result<Block, Error> {
        if code.is_empty() {
            return Err(Error::Block("no code".into()));
        }
        if code.len() > 1 << 16 {
            return Err(Error::Block("more than 64 KiB of code".into()));
        }
        let decoded = isa::decode(params.isa, code)?;
        if notion == Notion::Loop && decoded.last().is_none_or(|d| d.branch == Branch::No) {
            return Err(Error::Block("a loop must end in a branch".into()));
        }
        Builder::new(code.len() as u32, code_offset, notion, params).build(&decoded, table, strings)
    }
}
