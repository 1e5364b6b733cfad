//! A core: parameters and figures of instructions.

pub mod check;
pub mod choice;
mod declare;
pub mod figures;
pub mod inert;
pub mod params;
pub mod port_masks;
pub mod read;
pub mod scheduler_pools;
pub mod value;

use crate::core::figures::FigureTable;
use crate::core::params::Params;
use crate::error::Error;
use crate::isa::Isa;

/// A core ready to predict: parameters and figures.
#[derive(Debug)]
pub struct Core {
    /// Parameters.
    pub params: Params,
    /// Figures.
    pub table: FigureTable,
}

impl Core {
    /// Read a core from the texts of its `core.toml` and `instructions.csv`.
    ///
    /// # Errors
    /// See [`Params::parse`] and [`FigureTable::parse`].
    pub fn new(core: &str, instructions: &str, overrides: &[(String, String)]) -> Result<Core, Error> {
        let params = Params::parse(core, overrides)?;
        let table = FigureTable::parse(instructions, &params)?;
        let loads = ["memory.load_cycles", "memory.load_vector_cycles"];
        let set = overrides.iter().find(|(name, _)| loads.contains(&name.as_str()));
        if let Some((name, _)) = set.filter(|_| params.isa == Isa::Arm64 && table.lists_loads()) {
            let why = "the table lists the latency of every load";
            return Err(Error::Parameter(format!("{name} does nothing here: {why}")));
        }
        Ok(Core { params, table })
    }
}
