//! The predecoder: finds instructions in aligned blocks of code.

use crate::block::Notion;
use crate::engine::events::{Event, Observer};
use crate::engine::flight::{Position, Queued};
use crate::engine::machine::Machine;

/// State of the predecoder.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Next instruction.
    pub next: Position,
    /// Cycles that it still stands still.
    pub stall: u32,
    /// Block whose prefixes were paid for.
    pub block: Option<(u32, u32)>,
    /// Whether it works at all: the decoders are in use.
    pub running: bool,
}

impl Default for State {
    fn default() -> Self {
        State {
            next: Position { iteration: 0, inst: 0 },
            stall: 0,
            block: None,
            running: true,
        }
    }
}

impl Machine<'_> {
    /// Block of code in which an instruction ends.
    fn end_block(&self, at: Position) -> u32 {
        let end = self
            .address(at)
            .wrapping_add(self.block.insts[at.inst as usize].len - 1);
        end >> self.mode.block_shift
    }

    /// Go on with the next instruction that is not cached, from a place on.
    pub fn predecode_from(&mut self, at: Position) {
        let next = self.plan.next_decoded(at);
        self.predecode.running = next.is_some();
        if let Some(next) = next {
            self.predecode.next = next;
            self.predecode.block = None;
        }
    }

    /// Predecode for a cycle.
    pub fn predecode_cycle<O: Observer>(&mut self, observer: &mut O) {
        // It works ahead of the decoders, across what is cached, but only while they are in use.
        if !self.predecode.running || self.cache.active {
            return;
        }
        let p = &self.params.predecode;
        let (width, queue) = (p.width as usize, p.queue as usize);
        if self.queue.len() + width > queue {
            return;
        }
        // A stall passes only while there is room, as if it were a group of its own.
        if self.predecode.stall > 0 {
            self.predecode.stall -= 1;
            return;
        }
        let first = self.predecode.next;
        let block = self.end_block(first);
        if self.predecode.block != Some((block, first.iteration)) {
            self.predecode.block = Some((block, first.iteration));
            let prefixes = self.count_prefixes(first, block);
            if prefixes > 0 {
                self.predecode.stall = (prefixes * p.lcp_cycles).saturating_sub(1);
                return;
            }
        }
        let mut taken = 0;
        while taken < width {
            let at = self.predecode.next;
            if self.end_block(at) != block && !self.relief.predecode {
                return;
            }
            self.queue.push_back(Queued {
                inst: at.inst,
                iteration: at.iteration,
                ready: self.now + p.delay as i32,
            });
            observer.on(
                self.now,
                Event::Predecoded {
                    inst: at.inst,
                    iteration: at.iteration,
                },
            );
            taken += 1;
            let jumps = self.block.insts[at.inst as usize].taken && !self.block.insts[at.inst as usize].head;
            let jumps = jumps && !self.relief.taken_branch;
            self.predecode.next = self.after(at);
            if let (Notion::Unrolled, true) = (self.block.notion, self.predecode.next.iteration != at.iteration) {
                // The next copy continues in the same block of code.
                if self.end_block(self.predecode.next) == block {
                    self.predecode.block = Some((block, self.predecode.next.iteration));
                }
            }
            if jumps || !self.plan.decoded(self.predecode.next.inst) {
                self.predecode_from(self.predecode.next);
                return;
            }
        }
        if taken < width {
            return;
        }
        let next = self.predecode.next;
        if self.end_block(next) != block {
            let opcode = self
                .address(next)
                .wrapping_add(self.block.insts[next.inst as usize].opcode_at);
            if opcode >> self.mode.block_shift == block {
                self.predecode.stall = p.cross_cycles;
            }
        }
    }

    fn count_prefixes(&self, first: Position, block: u32) -> u32 {
        let mut at = first;
        let mut count = 0;
        while self.end_block(at) == block {
            count += u32::from(self.block.insts[at.inst as usize].lcp);
            let jumps = self.block.insts[at.inst as usize].taken;
            at = self.after(at);
            if jumps || !self.plan.decoded(at.inst) {
                break;
            }
        }
        count
    }
}
