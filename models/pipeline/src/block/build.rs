//! From bytes to a block.

use crate::block::path::Path;
use crate::block::source::Source;
use crate::block::{Block, Notion, StringUse};
use crate::core::figures::FigureTable;
use crate::core::params::Params;
use crate::error::Error;

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
        let path = Path::whole(params.isa, code, notion)?;
        Source::new(path, code.len(), notion, params, table, strings)?.at(code_offset)
    }
}
