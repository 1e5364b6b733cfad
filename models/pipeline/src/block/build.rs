//! From the instructions that an iteration executes to a block.

use crate::block::path::Path;
use crate::block::source::Source;
use crate::block::{Block, Notion, StringUse};
use crate::core::figures::FigureTable;
use crate::core::params::Params;
use crate::error::Error;

impl Block {
    /// Prepare a block of a path through so many bytes of code.
    ///
    /// # Errors
    /// An instruction has no figures, or the block is too long.
    pub fn new(
        path: Path,
        len: usize,
        code_offset: u32,
        notion: Notion,
        params: &Params,
        table: &FigureTable,
        strings: StringUse,
    ) -> Result<Block, Error> {
        Source::new(path, len, notion, params, table, strings)?.at(code_offset)
    }
}
