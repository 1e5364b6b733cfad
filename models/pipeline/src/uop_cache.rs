//! The cache of decoded uops: what of a loop it holds and what it delivers.

use crate::block::{Block, Notion};
use crate::error::Error;
use crate::events::{Event, Observer};
use crate::machine::{Machine, Position, Source, Waiting};
use crate::params::{CacheRule, Params};

/// A line or entry: consecutive fused uops read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First fused uop.
    pub start: u32,
    /// One past the last.
    pub end: u32,
    /// Region of code, counted from the start of the loop.
    pub region: u32,
}

/// What of a block comes from the uop cache.
#[derive(Clone, Debug, Default)]
pub struct CachePlan {
    /// For each instruction whether it is decoded each time.
    decoded: Vec<bool>,
    /// Lines in program order; uops of decoded instructions are in none.
    pub lines: Vec<Line>,
    /// Copies at changing addresses, all cached: lines are found as it runs.
    pub streams: bool,
}

impl CachePlan {
    /// Work out the lines of a block.
    ///
    /// # Errors
    /// The rule is not known.
    pub fn new(block: &Block, params: &Params) -> Result<CachePlan, Error> {
        let rule = params.cache_rule()?;
        if block.notion == Notion::Unrolled && rule == CacheRule::Entry && params.uop_cache.unrolled {
            return Ok(CachePlan { decoded: vec![false; block.insts.len()], lines: Vec::new(), streams: true });
        }
        if rule == CacheRule::None || block.notion == Notion::Unrolled {
            return Ok(CachePlan { decoded: vec![true; block.insts.len()], lines: Vec::new(), streams: false });
        }
        let cached = match rule {
            CacheRule::Region => region_rule(block, params),
            _ => vec![true; block.insts.len()],
        };
        // Decoding goes on until a branch, whatever the cache holds.
        let mut decoded = vec![false; block.insts.len()];
        let mut decoding = !cached.first().copied().unwrap_or(false);
        for (i, inst) in block.insts.iter().enumerate() {
            decoding |= !cached[i] && !inst.tail;
            decoded[i] = decoding;
            let ends_pair = !inst.head;
            if decoding && inst.branch && ends_pair && cached.get(i + 1).copied().unwrap_or(false) {
                decoding = false;
            }
        }
        let mut plan = CachePlan { decoded, lines: Vec::new(), streams: false };
        plan.lines = lines(block, params, &plan.decoded);
        Ok(plan)
    }

    /// Whether an instruction is decoded each time.
    pub fn decoded(&self, inst: u32) -> bool {
        self.decoded.get(inst as usize).copied().unwrap_or(true)
    }

    /// Whether the block starts from the uop cache.
    pub fn starts_cached(&self) -> bool {
        !self.decoded(0)
    }

    /// Whether decoding stops after this instruction.
    pub fn switches_after(&self, inst: u32) -> bool {
        self.decoded(inst) && self.decoded.get(inst as usize + 1) == Some(&false)
    }

    /// Whether all of it is cached.
    pub fn complete(&self) -> bool {
        self.decoded.iter().all(|d| !d)
    }
}

fn region_of(block: &Block, inst: usize, bytes: u32) -> u32 {
    (block.code_offset + block.insts[inst].offset) / bytes
}

/// Places in a line: two for a 64-bit immediate.
fn places(block: &Block, inst: usize) -> u32 {
    let i = &block.insts[inst];
    i.fused.end - i.fused.start + u32::from(i.wide)
}

/// Intel: a region is cached only if its uops fit its lines.
fn region_rule(block: &Block, params: &Params) -> Vec<bool> {
    let p = &params.uop_cache;
    let mut cached = vec![true; block.insts.len()];
    let mut start = 0;
    while start < block.insts.len() {
        let region = region_of(block, start, p.region_bytes);
        let end = (start..block.insts.len())
            .find(|i| region_of(block, *i, p.region_bytes) != region)
            .unwrap_or(block.insts.len());
        let mut lines = 0;
        let mut room = 0;
        let mut erratum = false;
        for i in start..end {
            let inst = &block.insts[i];
            let need = places(block, i);
            if inst.ms > 0 {
                lines += 1;
                room = 0;
            } else if need > room && need > 0 {
                lines += 1;
                room = p.line_uops.saturating_sub(need);
            } else {
                room -= need;
            }
            erratum |= p.branch_erratum && touches_boundary(block, i, p.region_bytes);
        }
        if lines > p.lines || erratum {
            cached[start..end].fill(false);
        }
        start = end;
    }
    if p.pairs {
        let both: Vec<bool> = (0..block.insts.len())
            .map(|i| {
                let pair = region_of(block, i, p.region_bytes * 2);
                (0..block.insts.len()).all(|j| region_of(block, j, p.region_bytes * 2) != pair || cached[j])
            })
            .collect();
        return both;
    }
    cached
}

/// A branch, or the pair that it is fused in, that crosses or ends at a boundary.
fn touches_boundary(block: &Block, i: usize, bytes: u32) -> bool {
    let inst = &block.insts[i];
    if !inst.branch || inst.tail {
        return false;
    }
    let start = block.code_offset + inst.offset;
    let mut end = start + inst.len;
    if let (true, Some(tail)) = (inst.head, block.insts.get(i + 1)) {
        end += tail.len;
    }
    start / bytes != (end - 1) / bytes || end.is_multiple_of(bytes)
}

fn lines(block: &Block, params: &Params, decoded: &[bool]) -> Vec<Line> {
    let p = &params.uop_cache;
    let mut lines: Vec<Line> = Vec::new();
    let mut room = 0;
    let mut open = false;
    for (i, inst) in block.insts.iter().enumerate() {
        if decoded[i] || inst.tail {
            open &= !decoded[i];
            continue;
        }
        let region = region_of(block, i, p.region_bytes);
        let need = places(block, i);
        let same = open && lines.last().is_some_and(|l| l.region == region) && need <= room && inst.ms == 0;
        match lines.last_mut() {
            Some(line) if same => {
                line.end = inst.fused.end;
                room -= need;
            }
            _ => {
                lines.push(Line { start: inst.fused.start, end: inst.fused.end, region });
                room = p.line_uops.saturating_sub(need);
            }
        }
        open = inst.ms == 0;
    }
    lines
}

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
                self.predecode.running = false;
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
        while sent < width {
            let Some(line) = self.plan.lines.get(self.cache.line as usize).cloned() else { return };
            reads += 1;
            if reads > p.reads {
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
                self.idq.push_back(Waiting { fused, iteration: self.cache.iteration, wraps: false });
                observer.on(self.now, Event::Queued { fused, iteration: self.cache.iteration });
                self.cache.fused += 1;
                sent += 1;
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
            if self.address(at) / p.region_bytes != region || sent > 0 && sent + uops > p.line_uops.min(p.width) {
                return;
            }
            let split = inst.fused.end - inst.ms;
            for fused in inst.fused.start..split {
                self.idq.push_back(Waiting { fused, iteration: at.iteration, wraps: false });
                observer.on(self.now, Event::Queued { fused, iteration: at.iteration });
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
        let inst = if end == 0 { 0 } else { u32::from(self.block.fused[end as usize - 1].inst) };
        let mut next = inst + 1;
        while self.block.insts.get(next as usize).is_some_and(|i| i.tail) {
            next += 1;
        }
        let iteration = self.cache.iteration;
        if next as usize >= self.block.insts.len() {
            if !self.plan.starts_cached() {
                self.cache.active = false;
                self.predecode_from(Position { iteration: iteration + 1, inst: 0 });
                return true;
            }
            self.resume_cache(iteration + 1);
            self.cache.stall = self.params.taken_branch.cycles.saturating_sub(1);
            return !self.params.uop_cache.joins_iterations;
        }
        if self.plan.decoded(next) {
            self.cache.active = false;
            self.predecode_from(Position { iteration, inst: next });
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
