//! Watches a simulation for all reports that were asked for.

use crate::block::Block;
use crate::engine::events::{Event, Observer};
use crate::observe::chains::Edges;
use crate::observe::recorder::Recorder;
use crate::observe::usage::Usage;

/// The observer of a simulation.
pub struct Watch<'a> {
    block: &'a Block,
    /// The dependencies that instructions waited for.
    pub edges: Edges,
    /// For each instruction, the one whose result it waited for last.
    pub waited: Vec<u16>,
    /// Use of ports, if asked for.
    pub usage: Option<Usage>,
    /// Events, if asked for.
    pub recorder: Option<Recorder>,
}

impl<'a> Watch<'a> {
    /// Nothing seen yet.
    pub fn new(block: &'a Block, usage: Option<Usage>, recorder: Option<Recorder>) -> Watch<'a> {
        Watch {
            block,
            edges: Edges::new(),
            waited: (0..block.insts.len() as u16).collect(),
            usage,
            recorder,
        }
    }
}

impl Observer for Watch<'_> {
    const OPERANDS: bool = true;

    fn on(&mut self, cycle: i32, event: Event) {
        match event {
            Event::Needs { inst, from } => {
                self.edges.insert((from, inst));
                return;
            }
            Event::Issued { uop, critical, .. } => {
                self.waited[usize::from(self.block.owner[uop as usize])] = critical;
            }
            _ => {}
        }
        if let Some(usage) = &mut self.usage {
            usage.on(cycle, event);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.on(cycle, event);
        }
    }
}
