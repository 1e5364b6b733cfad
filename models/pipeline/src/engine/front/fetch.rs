//! Fetch in aligned blocks, for cores without a predecoder queue.

use crate::block::Notion;
use crate::engine::events::{Event, Observer};
use crate::engine::flight::Queued;
use crate::engine::machine::Machine;

impl Machine<'_> {
    /// Fetch an aligned block for a cycle.
    pub fn fetch_cycle<O: Observer>(&mut self, observer: &mut O) {
        if !self.predecode.running || self.cache.active {
            return;
        }
        if self.predecode.stall > 0 {
            self.predecode.stall -= 1;
            return;
        }
        let bytes = self.params.fetch.block_bytes;
        let first = self.address(self.predecode.next) / bytes;
        while self.queue.len() < self.params.fetch.queue as usize {
            let at = self.predecode.next;
            let inst = &self.block.insts[at.inst as usize];
            let start = self.address(at);
            if start / bytes != first && !self.relief.predecode {
                return;
            }
            // An instruction that runs into the next block is complete a cycle later.
            let crosses = (start + inst.len - 1) / bytes != first;
            let ready = self.now + 1 + i32::from(crosses);
            self.queue.push_back(Queued {
                inst: at.inst,
                iteration: at.iteration,
                ready,
            });
            observer.on(
                self.now,
                Event::Predecoded {
                    inst: at.inst,
                    iteration: at.iteration,
                },
            );
            self.predecode.next = self.after(at);
            let ends = inst.tail && self.after(at).inst == 0 && self.block.notion == Notion::Loop;
            if inst.branch && !inst.head && (inst.taken || ends) && !self.relief.taken_branch {
                let branches = self.params.taken_branch.cycles - 1;
                self.predecode.stall = self.params.fetch.taken_bubble + branches + self.block.target_bubble;
                self.predecode_from(self.predecode.next);
                return;
            }
            if !self.plan.decoded(self.predecode.next.inst) {
                self.predecode_from(self.predecode.next);
                return;
            }
            if crosses && !self.relief.predecode {
                return;
            }
        }
    }
}
