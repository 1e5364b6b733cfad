//! A block at several code offsets: where a core cuts its code alike it is simulated once.

use crate::block::cut::Cut;
use crate::block::path::Path;
use crate::block::source::Source;
use crate::block::{Block, Notion, StringUse};
use crate::core::Core;
use crate::engine::ablation::Ablation;
use crate::engine::events::Nobody;
use crate::engine::machine::Machine;
use crate::engine::steady::run;
use crate::error::Error;
use crate::predict::Prediction;
use std::collections::HashMap;

/// The outcome of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Cycles per iteration.
    pub cycles: f64,
    /// Whether the state of the machine repeated.
    pub steady: bool,
    /// Cycles simulated.
    pub simulated: u32,
}

/// Simulate a block as it is cut.
///
/// # Errors
/// It has no uops, or the pipeline does not move.
fn simulate(core: &Core, block: &Block, cut: &Cut) -> Result<Outcome, Error> {
    let mut machine = Machine::new(block, cut, &core.params, &Ablation::default())?;
    let (cycles, steady) = run(&mut machine, &mut Nobody, 0)?;
    let simulated = machine.now() as u32;
    machine.recycle();
    Ok(Outcome {
        cycles,
        steady,
        simulated,
    })
}

/// The block where its instructions fuse in one way, and what came of its cuts.
struct Alike {
    pairs: Vec<bool>,
    block: Block,
    known: HashMap<Cut, Outcome>,
}

/// A block and its places so far.
pub struct BlockOffsets<'a> {
    core: &'a Core,
    source: Source<'a>,
    blocks: Vec<Alike>,
}

impl<'a> BlockOffsets<'a> {
    /// A block of the instructions of so many bytes, at no place yet.
    ///
    /// # Errors
    /// An instruction has no figures.
    pub fn new(
        core: &'a Core,
        path: Path,
        len: usize,
        notion: Notion,
        strings: StringUse,
    ) -> Result<BlockOffsets<'a>, Error> {
        Ok(BlockOffsets {
            core,
            source: Source::new(path, len, notion, &core.params, &core.table, strings)?,
            blocks: Vec::new(),
        })
    }

    /// The outcome at a code offset.
    ///
    /// # Errors
    /// It cannot be simulated.
    pub fn at(&mut self, offset: u32) -> Result<Outcome, Error> {
        let pairs = self.source.pairs(offset);
        let n = match self.blocks.iter().position(|b| b.pairs == pairs) {
            Some(n) => n,
            None => {
                self.blocks.push(Alike {
                    pairs,
                    block: self.source.at(offset)?,
                    known: HashMap::new(),
                });
                self.blocks.len() - 1
            }
        };
        let Alike { block, known, .. } = &mut self.blocks[n];
        block.code_offset = offset % 64;
        let cut = Cut::new(block, &self.core.params);
        if let Some(outcome) = known.get(&cut) {
            return Ok(*outcome);
        }
        let outcome = simulate(self.core, block, &cut)?;
        known.insert(cut, outcome);
        Ok(outcome)
    }

    /// The same as a prediction that says nothing else.
    pub fn prediction(&self, outcome: Outcome) -> Prediction {
        let block = self.blocks.first().map(|b| &b.block);
        Prediction {
            cycles: outcome.cycles,
            bottleneck: String::new(),
            limits: Vec::new(),
            steady: outcome.steady,
            simulated: outcome.simulated,
            ports: None,
            timeline: None,
            names: block.map(|b| b.names.clone()).unwrap_or_default(),
            caveats: block.map(|b| b.caveats.clone()).unwrap_or_default(),
        }
    }
}
