//! Fetch in aligned blocks, for cores without a predecoder queue.

use crate::events::{Event, Observer};
use crate::machine::{Machine, Queued};

impl Machine<'_> {
    /// Fetch an aligned block for a cycle.
    pub fn fetch_cycle<O: Observer>(&mut self, observer: &mut O) {
        if !self.predecode.running {
            return;
        }
        if self.predecode.stall > 0 {
            self.predecode.stall -= 1;
            return;
        }
        let bytes = self.params.fetch.block_bytes;
        let mut branches = 0;
        let first = self.address(self.predecode.next) / bytes;
        while self.queue.len() < self.params.fetch.queue as usize {
            let at = self.predecode.next;
            let inst = &self.block.insts[at.inst as usize];
            let start = self.address(at);
            if start / bytes != first {
                return;
            }
            // An instruction that runs into the next block is complete a cycle later.
            let crosses = (start + inst.len - 1) / bytes != first;
            let ready = self.now + 1 + i32::from(crosses);
            self.queue.push_back(Queued { inst: at.inst, iteration: at.iteration, ready });
            observer.on(self.now, Event::Predecoded { inst: at.inst, iteration: at.iteration });
            self.predecode.next = self.after(at);
            if inst.branch && !inst.head {
                if inst.taken || inst.tail && self.after(at).inst == 0 && self.block.notion == crate::block::Notion::Loop {
                    let dense = branches > 0;
                    let p = &self.params.fetch;
                    self.predecode.stall = if dense { p.dense_bubble.max(p.taken_bubble) } else { p.taken_bubble };
                    self.leave_decoders(at);
                    return;
                }
                branches += 1;
            }
            if self.plan.switches_after(at.inst) {
                self.predecode.running = false;
                return;
            }
            if crosses {
                return;
            }
        }
    }
}
