//! The cache of decoded uops: what it delivers to rename.

use crate::engine::events::{Event, Observer};
use crate::engine::flight::{Position, Source, Waiting};
use crate::engine::machine::Machine;

/// State of the uop cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// It feeds rename.
    pub active: bool,
    /// Set up for the first iteration.
    pub started: bool,
    /// Next line.
    pub line: u32,
    /// Next fused uop of that line.
    pub fused: u32,
    /// Iteration.
    pub iteration: u32,
    /// Cycles that it still stands still.
    pub stall: u32,
}

impl Machine<'_> {
    /// Continue from the uop cache at the start of an iteration, if it is there.
    pub fn resume_cache(&mut self, iteration: u32) {
        if self.plan.starts_cached() {
            self.cache.active = true;
            self.cache.line = 0;
            self.cache.fused = self.plan.lines.first().map_or(0, |l| l.start);
            self.cache.iteration = iteration;
        }
    }

    /// Deliver for a cycle.
    pub fn uop_cache_cycle<O: Observer>(&mut self, observer: &mut O) {
        if !self.cache.started {
            self.cache.started = true;
            if self.plan.starts_cached() {
                self.resume_cache(0);
                self.predecode_from(self.predecode.next);
            }
        }
        if !self.cache.active || self.decode.microcode.is_some() {
            return;
        }
        if self.cache.stall > 0 {
            self.cache.stall -= 1;
            return;
        }
        let p = &self.params.uop_cache;
        let (width, room) = (p.width as usize, self.params.rename.queue as usize);
        if self.idq.len() + width > room {
            return;
        }
        self.source = Source::UopCache;
        if self.plan.streams {
            self.stream_cycle(observer);
            return;
        }
        let mut sent = 0;
        let mut reads = 0;
        let region = self.plan.lines.get(self.cache.line as usize).map(|l| l.region);
        while sent < width {
            let Some(line) = self.plan.lines.get(self.cache.line as usize).cloned() else {
                return;
            };
            reads += 1;
            if reads > p.reads || p.one_region && Some(line.region) != region {
                return;
            }
            while sent < width && self.cache.fused < line.end {
                let fused = self.cache.fused;
                let inst = self.block.fused[fused as usize].inst;
                let (split, end) = {
                    let i = &self.block.insts[usize::from(inst)];
                    (i.fused.end - i.ms, i.fused.end)
                };
                if fused >= split {
                    self.decode.microcode = Some((split, end, self.cache.iteration));
                    self.decode.stall = p.microcode_stall.div_ceil(2);
                    self.cache.fused = end;
                    self.next_line(line.end);
                    return;
                }
                self.idq.push_back(Waiting {
                    fused,
                    iteration: self.cache.iteration,
                    wraps: false,
                });
                observer.on(
                    self.now,
                    Event::Queued {
                        fused,
                        iteration: self.cache.iteration,
                        from: Source::UopCache,
                    },
                );
                self.cache.fused += 1;
                sent += 1;
                if p.wide_ends && self.block.insts[usize::from(inst)].wide {
                    sent = width;
                }
            }
            if self.cache.fused >= line.end && self.next_line(line.end) {
                return;
            }
        }
    }

    /// Deliver one entry of the region that the next copy's instructions lie in.
    fn stream_cycle<O: Observer>(&mut self, observer: &mut O) {
        let p = &self.params.uop_cache;
        let region = self.address(self.predecode.next) / p.region_bytes;
        let mut sent = 0;
        loop {
            let at = self.predecode.next;
            let inst = &self.block.insts[at.inst as usize];
            let uops = inst.fused.end - inst.fused.start;
            let leaves = self.address(at) / p.region_bytes != region && !self.relief.uop_cache;
            if leaves || sent > 0 && sent + uops > p.line_uops.min(p.width) {
                return;
            }
            let split = inst.fused.end - inst.ms;
            for fused in inst.fused.start..split {
                self.idq.push_back(Waiting {
                    fused,
                    iteration: at.iteration,
                    wraps: false,
                });
                observer.on(
                    self.now,
                    Event::Queued {
                        fused,
                        iteration: at.iteration,
                        from: Source::UopCache,
                    },
                );
            }
            sent += uops;
            self.predecode.next = self.after(at);
            if inst.ms > 0 {
                self.decode.microcode = Some((split, inst.fused.end, at.iteration));
                self.decode.stall = p.microcode_stall.div_ceil(2);
                return;
            }
        }
    }

    /// Move on after the end of a line; true if delivery ends for this cycle.
    fn next_line(&mut self, end: u32) -> bool {
        if self.cache.fused < end {
            return false;
        }
        let inst = if end == 0 {
            0
        } else {
            u32::from(self.block.fused[end as usize - 1].inst)
        };
        let mut next = inst + 1;
        while self.block.insts.get(next as usize).is_some_and(|i| i.tail) {
            next += 1;
        }
        let iteration = self.cache.iteration;
        if next as usize >= self.block.insts.len() {
            if !self.plan.starts_cached() {
                self.cache.active = false;
                return true;
            }
            self.resume_cache(iteration + 1);
            self.cache.stall = self.params.taken_branch.cycles.saturating_sub(1) + self.block.target_bubble;
            return !self.params.uop_cache.joins_iterations;
        }
        if self.plan.decoded(next) {
            self.cache.active = false;
            return true;
        }
        self.cache.line += 1;
        self.cache.fused = self.plan.lines.get(self.cache.line as usize).map_or(end, |l| l.start);
        false
    }

    /// After decoded instructions the cache takes over again within an iteration.
    pub fn cache_from(&mut self, at: Position) {
        let start = self.block.insts[at.inst as usize].fused.start;
        if let Some(line) = self.plan.lines.iter().position(|l| l.start == start) {
            self.cache.active = true;
            self.cache.line = line as u32;
            self.cache.fused = start;
            self.cache.iteration = at.iteration;
        }
    }
}
