//! The way that an iteration most likely takes through the blocks of a loop.
//!
//! As static prediction has it: branches back are taken, forward ones fall through. Where one of
//! both ways leaves the loop, it is the other.

use crate::loops::blocks::{Graph, NONE};
use crate::loops::found::{Loop, Refusal};
use crate::loops::steps::{Flow, Hint, Text};
use std::collections::HashSet;

/// A walk around a loop.
pub(crate) struct Walk<'a> {
    text: &'a Text,
    graph: &'a Graph,
    body: &'a HashSet<u32>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(text: &'a Text, graph: &'a Graph, body: &'a HashSet<u32>) -> Self {
        Walk { text, graph, body }
    }

    /// The loop of a head as one iteration runs.
    pub(crate) fn from(&self, head: u32) -> Loop {
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        let mut exits = Vec::new();
        let mut refused = None;
        let (mut block, mut joins) = (head, false);
        let mut left = self.body.len();
        loop {
            let here = &self.graph.blocks[block as usize];
            match stretches.last_mut().filter(|_| joins) {
                Some(stretch) => stretch.1 = here.end,
                None => stretches.push((here.start, here.end)),
            }
            refused = refused.or_else(|| self.refused(block));
            let last = &self.text.steps[here.last as usize];
            if last.flow == Flow::Branch && here.falls != here.taken {
                exits.push(last.at);
            }
            let (next, falls) = self.after(block);
            left -= 1;
            if next == NONE || left == 0 && next != head {
                refused = refused.or(Some(if next == NONE {
                    Refusal::Indirect
                } else {
                    Refusal::Elsewhere
                }));
                break;
            }
            if next == head {
                // The first stretch may go on where the last one ends.
                if falls && stretches.len() > 1 {
                    let before = stretches.pop().unwrap_or_default();
                    stretches[0].0 = before.0;
                }
                break;
            }
            (block, joins) = (next, falls);
        }
        let lowest = (0..stretches.len()).min_by_key(|n| stretches[*n]).unwrap_or(0);
        stretches.rotate_left(lowest);
        let closing = stretches.last().map_or(0, |s| s.1);
        exits.retain(|at| self.text.steps[self.step(*at)].end() != closing);
        exits.sort_unstable();
        Loop {
            path: stretches,
            exits,
            refused,
        }
    }

    fn step(&self, at: u32) -> usize {
        self.text.steps.partition_point(|s| s.at < at)
    }

    /// The block that follows, and whether control falls through to it.
    fn after(&self, block: u32) -> (u32, bool) {
        let here = &self.graph.blocks[block as usize];
        let (falls, taken) = (self.body.contains(&here.falls), self.body.contains(&here.taken));
        let back = taken && self.graph.blocks[here.taken as usize].start <= here.start;
        match (falls, taken) {
            (true, true) if here.falls != here.taken && back => (here.taken, false),
            (true, _) => (here.falls, true),
            (false, true) => (here.taken, false),
            (false, false) => (NONE, false),
        }
    }

    /// The reason in a block why the loop cannot be predicted.
    fn refused(&self, block: u32) -> Option<Refusal> {
        let here = &self.graph.blocks[block as usize];
        let steps = &self.text.steps[here.first as usize..=here.last as usize];
        if steps.iter().any(|s| s.flow == Flow::Call) {
            return Some(Refusal::Calls);
        }
        steps
            .iter()
            .any(|s| s.hint == Hint::Repeats)
            .then_some(Refusal::Repeats)
    }
}
