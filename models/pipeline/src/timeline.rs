//! The cycle-by-cycle timeline as plain rows.

use crate::block::Block;
use crate::events::{Event, Recorder};
use crate::params::Params;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Cycle.
    pub cycle: u32,
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
    /// What: `predecode`, `queue`, `rename`, `dispatch`, `retire`.
    pub what: &'static str,
    /// Port, for `dispatch`.
    pub port: Option<char>,
}

/// Events of the first iterations in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Rows in order of cycles.
    pub rows: Vec<Row>,
}

impl Timeline {
    /// Make rows of recorded events.
    pub fn new(block: &Block, params: &Params, recorder: &Recorder) -> Timeline {
        let names: Vec<char> = params.ports.names.chars().collect();
        let mut owner = vec![0u32; block.uops.len()];
        for slot in &block.slots {
            for uop in slot.uops.clone() {
                owner[uop as usize] = u32::from(slot.inst);
            }
        }
        let rows = recorder.events.iter().filter_map(|&(cycle, event)| {
            let (what, inst, iteration, port) = match event {
                Event::Cycle => return None,
                Event::Predecoded { inst, iteration } => ("predecode", inst, iteration, None),
                Event::Queued { fused, iteration } => {
                    ("queue", u32::from(block.fused[fused as usize].inst), iteration, None)
                }
                Event::Renamed { slot, iteration } => {
                    ("rename", u32::from(block.slots[slot as usize].inst), iteration, None)
                }
                Event::Dispatched { uop, iteration, port } => {
                    ("dispatch", owner[uop as usize], iteration, names.get(usize::from(port)).copied())
                }
                Event::Retired { slot, iteration } => {
                    ("retire", u32::from(block.slots[slot as usize].inst), iteration, None)
                }
            };
            Some(Row { cycle: cycle as u32, iteration, inst, what, port })
        });
        Timeline { rows: rows.collect() }
    }
}
