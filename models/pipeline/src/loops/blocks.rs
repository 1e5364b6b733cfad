//! Basic blocks of a section, and which can follow which.

use crate::loops::returns::Returns;
use crate::loops::steps::{Flow, Text};

/// No block.
pub(crate) const NONE: u32 = u32::MAX;

/// A basic block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Its instructions.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// The block behind it, if control falls through.
    pub(crate) falls: u32,
    /// The block that its branch goes to.
    pub(crate) taken: u32,
}

impl Block {
    /// The blocks that can follow.
    pub(crate) fn next(&self) -> impl Iterator<Item = u32> {
        let taken = if self.taken == self.falls { NONE } else { self.taken };
        [self.falls, taken].into_iter().filter(|b| *b != NONE)
    }
}

/// The blocks of a section by address, and what can precede each.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) blocks: Vec<Block>,
    first_before: Vec<u32>,
    all_before: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(text: &Text, returns: &Returns) -> Graph {
        let steps = &text.steps;
        let index = |at: u32| steps.binary_search_by_key(&at, |s| s.at).ok();
        let mut leads = vec![false; steps.len() + 1];
        for at in &returns.edges {
            index(*at).into_iter().for_each(|n| leads[n] = true);
        }
        for (n, step) in steps.iter().enumerate() {
            let gap = n == 0 || steps[n - 1].end() != step.at;
            leads[n] |= gap;
            leads[n + 1] |= match step.flow {
                Flow::Next => false,
                Flow::Call => !returns.falls(text, n),
                _ => true,
            };
            step.target.and_then(index).into_iter().for_each(|t| leads[t] = true);
        }
        let mut blocks: Vec<Block> = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            if leads[n] {
                blocks.push(Block {
                    start: step.at,
                    end: step.end(),
                    first: n as u32,
                    last: n as u32,
                    falls: NONE,
                    taken: NONE,
                });
            } else if let Some(block) = blocks.last_mut() {
                block.end = step.end();
                block.last = n as u32;
            }
        }
        let mut graph = Graph {
            blocks,
            ..Graph::default()
        };
        graph.connect(text, returns);
        graph
    }

    fn connect(&mut self, text: &Text, returns: &Returns) {
        for n in 0..self.blocks.len() {
            let block = self.blocks[n];
            let step = &text.steps[block.last as usize];
            let behind = self.blocks.get(n + 1).filter(|b| b.start == block.end);
            let falls = match step.flow {
                Flow::Next | Flow::Branch => true,
                Flow::Call => returns.falls(text, block.last as usize),
                _ => false,
            };
            if falls && behind.is_some() {
                self.blocks[n].falls = n as u32 + 1;
            }
            if matches!(step.flow, Flow::Branch | Flow::Jump) {
                self.blocks[n].taken = step.target.and_then(|t| self.at(t)).unwrap_or(NONE);
            }
        }
        self.first_before = vec![0; self.blocks.len() + 1];
        for block in &self.blocks {
            block.next().for_each(|to| self.first_before[to as usize + 1] += 1);
        }
        for n in 0..self.blocks.len() {
            self.first_before[n + 1] += self.first_before[n];
        }
        let mut filled = self.first_before.clone();
        self.all_before = vec![0; filled.last().map_or(0, |n| *n as usize)];
        for (n, block) in self.blocks.iter().enumerate() {
            for to in block.next() {
                self.all_before[filled[to as usize] as usize] = n as u32;
                filled[to as usize] += 1;
            }
        }
    }

    /// The blocks that a block can follow.
    pub(crate) fn before(&self, block: u32) -> &[u32] {
        let at = block as usize;
        &self.all_before[self.first_before[at] as usize..self.first_before[at + 1] as usize]
    }

    /// The block that begins at an offset.
    pub(crate) fn at(&self, start: u32) -> Option<u32> {
        let found = self.blocks.binary_search_by_key(&start, |b| b.start);
        found.ok().map(|n| n as u32)
    }

    /// The blocks that begin at some offsets.
    pub(crate) fn all_at(&self, starts: &[u32]) -> Vec<u32> {
        starts.iter().filter_map(|at| self.at(*at)).collect()
    }
}
