//! The blocks that control reaches, and from where.
//!
//! Code without predecessors (fixups after faults, targets of jump tables, code that is
//! patched in) is not counted against a loop that it joins: it is reached in a later turn, from
//! where it begins, and its ways into what was reached before are left out.

use crate::loops::blocks::Graph;
use crate::loops::section::Section;
use crate::loops::steps::{Text, ALIGNED};

/// The order in which blocks are reached.
#[derive(Debug)]
pub(crate) struct Reach {
    /// The turn in which each block is reached; the first begins at the entries.
    pub(crate) turn: Vec<u32>,
    /// Turns that begin where routines do.
    sure: u32,
    /// All blocks, each after those that lead to it but for branches back (reverse postorder).
    pub(crate) order: Vec<u32>,
    /// The position of each block in it.
    pub(crate) place: Vec<u32>,
    /// Blocks where a turn begins.
    pub(crate) roots: Vec<bool>,
    /// Branches back to a block that is not left yet: from, to.
    pub(crate) back: Vec<(u32, u32)>,
    /// The number of each block in the order of being reached.
    number: Vec<u32>,
    /// The last number of those that were reached by way of a block.
    last: Vec<u32>,
    count: u32,
}

const UNSEEN: u32 = u32::MAX;

impl Reach {
    /// Begin at entries, then at what else is known to be the start of something.
    pub(crate) fn new(graph: &Graph, entries: &[u32], starts: &[u32]) -> Reach {
        let count = graph.blocks.len();
        let mut reach = Reach {
            turn: vec![UNSEEN; count],
            sure: 1,
            order: Vec::with_capacity(count),
            place: vec![0; count],
            roots: vec![false; count],
            back: Vec::new(),
            number: vec![0; count],
            last: vec![0; count],
            count: 0,
        };
        let mut open = vec![false; count];
        reach.from(graph, entries, 0, &mut open);
        for &start in starts {
            if reach.turn[start as usize] == UNSEEN {
                reach.from(graph, &[start], reach.sure, &mut open);
                reach.sure += 1;
            }
        }
        // First what nothing left leads to, lest a way in counts from the middle of a routine.
        let mut turn = reach.sure;
        for anywhere in [false, true] {
            for block in 0..count as u32 {
                let unseen = |b: u32| reach.turn[b as usize] == UNSEEN;
                if unseen(block) && (anywhere || !graph.before(block).iter().any(|b| unseen(*b))) {
                    reach.from(graph, &[block], turn, &mut open);
                    turn += 1;
                }
            }
        }
        reach.order.reverse();
        for (n, block) in reach.order.iter().enumerate() {
            reach.place[*block as usize] = n as u32;
        }
        reach
    }

    /// Go on from some blocks, depth first, to all that is not reached yet.
    fn from(&mut self, graph: &Graph, roots: &[u32], turn: u32, open: &mut [bool]) {
        for &root in roots {
            self.roots[root as usize] = true;
        }
        let mut stack: Vec<(u32, u8)> = Vec::new();
        for &root in roots {
            if self.turn[root as usize] != UNSEEN {
                continue;
            }
            self.open(root, turn, open);
            stack.push((root, 0));
            while let Some((block, done)) = stack.last_mut() {
                let here = *block;
                let Some(to) = graph.blocks[here as usize].next().nth(usize::from(*done)) else {
                    open[here as usize] = false;
                    self.last[here as usize] = self.count - 1;
                    self.order.push(here);
                    stack.pop();
                    continue;
                };
                *done += 1;
                if self.turn[to as usize] == UNSEEN {
                    self.open(to, turn, open);
                    stack.push((to, 0));
                } else if open[to as usize] {
                    self.back.push((here, to));
                }
            }
        }
    }

    fn open(&mut self, block: u32, turn: u32, open: &mut [bool]) {
        let at = block as usize;
        (self.turn[at], open[at], self.number[at]) = (turn, true, self.count);
        self.count += 1;
    }

    /// Whether a block was reached by way of another one.
    pub(crate) fn by_way_of(&self, above: u32, block: u32) -> bool {
        let number = self.number[block as usize];
        (self.number[above as usize]..=self.last[above as usize]).contains(&number)
    }

    /// Whether a way from one block to another counts.
    pub(crate) fn same(&self, from: u32, to: u32) -> bool {
        self.turn[from as usize] == self.turn[to as usize]
    }

    /// Blocks that nothing leads to beside bytes that are no instructions: they may be data, too.
    ///
    /// Code at an aligned address after padding counts as a routine.
    pub(crate) fn doubtful(&self, graph: &Graph, text: &Text, section: &Section) -> Vec<bool> {
        let mut doubtful = vec![false; graph.blocks.len()];
        let known = |b: &usize| self.turn[*b] < self.sure;
        let padded = |b: &usize| {
            let block = &graph.blocks[*b];
            let before = (block.first as usize).checked_sub(1).map(|n| &text.steps[n]);
            let byte = section.code[..block.start as usize].last();
            let padding = before.is_some_and(|s| s.pads && s.end() == block.start) || byte == Some(&0xcc);
            (block.start + section.address) % ALIGNED == 0 && padding
        };
        for run in text.runs.iter().filter(|r| r.guessed || r.broken) {
            let from = graph.blocks.partition_point(|b| b.start < run.start);
            let to = graph.blocks.partition_point(|b| b.start < run.end);
            if run.guessed {
                let first = (from..to).take_while(|b| !known(b) && !padded(b));
                first.for_each(|b| doubtful[b] = true);
            }
            if run.broken {
                for b in (from..to).rev().take_while(|b| !known(b)) {
                    doubtful[b] = true;
                    if padded(&b) {
                        break;
                    }
                }
            }
        }
        doubtful
    }
}
