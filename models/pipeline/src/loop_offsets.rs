//! Loops at every code offset.

use crate::block::path::{Path, Stretch};
use crate::block::{Notion, StringUse};
use crate::block_offsets::BlockOffsets;
use crate::core::Core;
use crate::error::Error;
use crate::isa::Isa;
use crate::parallel;
use std::collections::HashMap;

/// Code offsets of a line.
pub const OFFSETS: usize = 64;

/// Cycles per iteration at each code offset; not a number where no code can lie.
pub type Cycles = [f64; OFFSETS];

/// A loop, wherever it lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// Machine code, of which the first byte lies at the code offset.
    pub code: Vec<u8>,
    /// Stretches of it that an iteration executes, in order; `None`: all of it.
    pub path: Option<Vec<Stretch>>,
}

/// Predict all loops, in the order given, equal ones once. `threads` 0 means one per processor.
pub fn run_all(core: &Core, loops: &[Loop], threads: usize) -> Vec<Result<Cycles, Error>> {
    let mut known: HashMap<&Loop, usize> = HashMap::new();
    let mut distinct: Vec<&Loop> = Vec::new();
    let mut numbers = Vec::with_capacity(loops.len());
    for one in loops {
        numbers.push(*known.entry(one).or_insert(distinct.len()));
        if numbers.last() == Some(&distinct.len()) {
            distinct.push(one);
        }
    }
    let found = parallel::each(&distinct, threads, |one| at_all(core, one));
    numbers.into_iter().map(|n| found[n].clone()).collect()
}

/// Cycles of a loop at each code offset.
///
/// # Errors
/// The bytes do not decode, control does not go the way that is given, or an instruction has no figures.
fn at_all(core: &Core, one: &Loop) -> Result<Cycles, Error> {
    let params = &core.params;
    let path = Path::given(params.isa, &one.code, one.path.as_deref(), Notion::Loop)?;
    let mut placed = BlockOffsets::new(core, path, one.code.len(), Notion::Loop, StringUse::default())?;
    let apart = match params.isa {
        Isa::X86 => 1,
        Isa::Arm64 => 4,
    };
    let mut found = [f64::NAN; OFFSETS];
    for (offset, cycles) in (0..).zip(&mut found).step_by(apart) {
        *cycles = placed.at(offset)?.cycles;
    }
    Ok(found)
}
