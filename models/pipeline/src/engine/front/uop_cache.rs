//! The cache of decoded uops: what it delivers to rename.

use crate::block::cache_plan::{CachePlan, Line};
use crate::block::position::Position;
use crate::block::replay::Replay;
use crate::block::stream::Stream;
use crate::block::{Inst, Notion};
use crate::core::choice::Joins;
use crate::core::params::{uop_cache, Params};
use crate::core::value::UNLIMITED;
use crate::engine::ablation::Ablation;
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Source;
use crate::engine::front::loop_buffer::GROUPS;
use crate::engine::front::microcode::{Microcode, Routine};
use crate::engine::front::sink::Sink;
use crate::engine::front::targets::Targets;

/// The uop cache.
#[derive(Debug)]
pub struct UopCache<'a> {
    stream: Stream<'a>,
    p: &'a uop_cache,
    /// Cycles that a taken branch loses.
    bubble: u32,
    targets: Targets<'a>,
    /// Uops that the loop buffer keeps ready.
    ahead: usize,
    /// It has no regions.
    seamless: bool,
    /// It reads on behind the last branch of the loop.
    repeats: bool,
    active: bool,
    /// Next line, and its next fused uop.
    line: u32,
    fused: u32,
    iteration: u32,
    stall: u32,
    /// The region read last, and whether it is found apart.
    last: Option<(u32, bool)>,
    /// Regions that are found and not read yet, of those that are found apart.
    found: u32,
    /// Next instruction, where copies stream.
    next: Position,
}

/// Slots of the longest loop behind whose last branch a cycle may read on: 8 on Ice Lake, whose lines have
/// six, and on Golden Cove, whose lines have eight.
const SHORT_LOOP: u32 = 8;

/// Regions that are found ahead of being read: more change nothing in a loop that goes on.
const AHEAD: u32 = 4;

/// The second slot of an instruction, where delivery counts it.
fn second_slot(inst: &Inst, p: &uop_cache) -> u32 {
    u32::from(inst.wide && p.line_wide != UNLIMITED)
}

/// Slots in which an instruction is delivered.
fn slots(inst: &Inst, p: &uop_cache) -> u32 {
    inst.fused.end - inst.fused.start + second_slot(inst, p)
}

impl<'a> UopCache<'a> {
    /// About to deliver, if it holds the start of the block.
    pub fn new(stream: Stream<'a>, params: &'a Params, ablation: &Ablation, plan: &CachePlan) -> UopCache<'a> {
        let mut cache = UopCache {
            stream,
            p: &params.uop_cache,
            bubble: params.taken_branch.cycles.saturating_sub(1)
                + if ablation.taken_branch { 0 } else { stream.cut.bubble },
            targets: Targets::new(stream.cut, params, ablation),
            ahead: (GROUPS * params.rename.width) as usize,
            seamless: ablation.uop_cache,
            repeats: params.uop_cache.joins_short_loops
                && stream.block.notion == Notion::Loop
                && stream.block.insts.iter().all(|inst| inst.ms == 0)
                && stream
                    .block
                    .insts
                    .iter()
                    .map(|inst| slots(inst, &params.uop_cache))
                    .sum::<u32>()
                    <= SHORT_LOOP,
            active: false,
            line: 0,
            fused: 0,
            iteration: 0,
            stall: 0,
            last: None,
            found: 0,
            next: Position::START,
        };
        if plan.starts_cached() {
            cache.restart(plan, 0);
        }
        cache
    }

    /// Whether it feeds rename.
    pub fn active(&self) -> bool {
        self.active
    }

    /// Deliver from the start of an iteration.
    fn restart(&mut self, plan: &CachePlan, iteration: u32) {
        self.active = true;
        self.line = 0;
        self.fused = plan.lines.first().map_or(0, |l| l.start);
        self.iteration = iteration;
    }

    /// Take over from the decoders, where a line starts.
    pub fn take_over(&mut self, plan: &CachePlan, at: Position) {
        let start = self.stream.inst(at).fused.start;
        let line = plan.line_at(start);
        if plan.lines.get(line).is_some_and(|l| l.start == start) {
            self.active = true;
            self.line = line as u32;
            self.fused = start;
            self.iteration = at.iteration;
        }
    }

    /// Deliver for a cycle; false if it was not its turn.
    pub fn cycle<O: Observer>(&mut self, plan: &CachePlan, microcode: &mut Microcode, sink: &mut Sink<'_, O>) -> bool {
        let found = self.targets.cycle();
        self.found = (self.found + 1).min(AHEAD);
        if !self.active || microcode.busy() {
            return false;
        }
        if self.stall > 0 {
            self.stall -= 1;
            return false;
        }
        if !found {
            return false;
        }
        if let Some(replay) = plan.replay(self.fused) {
            self.replay(plan, replay, sink);
            return true;
        }
        if !sink.fits(self.p.width) {
            return false;
        }
        if plan.streams {
            self.stream_copies(microcode, sink);
        } else {
            self.read_lines(plan, microcode, sink);
        }
        true
    }

    fn read_lines<O: Observer>(&mut self, plan: &CachePlan, microcode: &mut Microcode, sink: &mut Sink<'_, O>) {
        let block = self.stream.block;
        let mut left = self.p.width;
        let (mut reads, mut parts) = (0, 0);
        // Lines of a cycle, read whole or in part: those that `reads` counts, and one that overlaps.
        let most_parts = if self.p.overlaps { self.p.reads + 1 } else { u32::MAX };
        let mut wide = self.p.reads.saturating_mul(self.p.line_wide);
        // The region of an entry of this cycle that is not the first one of its region.
        let mut later = None;
        let region = plan.lines.get(self.line as usize).map(|l| l.region);
        while left > 0 {
            let Some(line) = plan.lines.get(self.line as usize) else {
                return;
            };
            let repeats = self.repeats && self.line == 0;
            let free = self.p.overlaps && later.is_some_and(|r| r != line.region || repeats);
            later = None;
            let begun = self.fused > line.start && !self.p.line_rest_counts;
            reads += u32::from(!free && !begun);
            parts += 1;
            if reads > self.p.reads
                || parts > most_parts
                || self.p.one_region && Some(line.region) != region
                || !self.enters(line)
            {
                return;
            }
            while left > 0 && self.fused < line.end {
                let (copy, fused) = self.in_copy(self.fused);
                let iteration = self.iteration + copy;
                let inst = &block.insts[usize::from(block.fused[fused as usize].inst)];
                let first = inst.fused.start == fused;
                let needed = 1 + if first { second_slot(inst, self.p) } else { 0 };
                if first && inst.wide {
                    if wide == 0 || needed > left && left < self.p.width {
                        return;
                    }
                    wide -= 1;
                }
                let (split, end) = (inst.fused.end - inst.ms, inst.fused.end);
                if fused >= split {
                    let routine = Routine {
                        next: split,
                        end,
                        iteration,
                    };
                    microcode.start(routine, true);
                    self.fused += end - fused;
                    self.next_line(plan, line.end);
                    return;
                }
                sink.put(fused, iteration, Source::UopCache);
                self.fused += 1;
                left = left.saturating_sub(needed);
                if self.p.wide_ends && inst.wide {
                    left = 0;
                }
            }
            let second = self.line.checked_sub(1).and_then(|n| plan.lines.get(n as usize));
            let falls = |end: u32| !block.insts[self.last_inst(end)].taken;
            if second.is_some_and(|before| before.region == line.region && falls(before.end)) {
                later = Some(line.region);
            }
            if self.fused >= line.end && self.next_line(plan, line.end) {
                let other = plan
                    .lines
                    .get(self.line as usize)
                    .is_some_and(|next| next.region != line.region);
                let joins = self.p.overlaps && later.is_some() || self.p.joins == Joins::Apart;
                if !(joins && other && self.active && self.stall == 0) {
                    return;
                }
            }
        }
    }

    /// Whether a line's region is found, and the one that it begins in, where that takes cycles of their own.
    fn enters(&mut self, line: &Line) -> bool {
        let begins = self.fused == line.start;
        let entry = if begins { line.entry } else { line.region };
        let apart = self
            .last
            .is_some_and(|(region, apart)| region != entry && (apart || line.apart));
        let needs = u32::from(apart) + u32::from(entry != line.region);
        if self.found < needs {
            return false;
        }
        self.found -= needs;
        self.last = Some((line.region, line.apart));
        true
    }

    /// Let the loop buffer replay a loop of a call.
    fn replay<O: Observer>(&mut self, plan: &CachePlan, replay: &Replay, sink: &mut Sink<'_, O>) {
        while sink.uops.len() < self.ahead && sink.fits(1) && self.fused < replay.fused.end {
            let next = self.fused + 1;
            let wraps = (next - replay.fused.start) % replay.uops == 0;
            sink.put_last(self.fused, self.iteration, Source::LoopBuffer, wraps);
            self.fused = next;
        }
        if self.fused < replay.fused.end {
            return;
        }
        let line = plan.line_at(self.fused);
        self.line = line as u32;
        if self.fused as usize == self.stream.block.fused.len() && plan.starts_cached() {
            self.restart(plan, self.iteration + 1);
        } else {
            self.active = plan.lines.get(line).is_some_and(|l| l.start <= self.fused);
        }
    }

    /// Deliver one entry of the region that the next copy's instructions lie in.
    fn stream_copies<O: Observer>(&mut self, microcode: &mut Microcode, sink: &mut Sink<'_, O>) {
        let bytes = self.p.region_bytes;
        let region = self.stream.address(self.next) / bytes;
        let mut sent = 0;
        loop {
            let at = self.next;
            let inst = self.stream.inst(at);
            let uops = inst.fused.end - inst.fused.start;
            let leaves = self.stream.address(at) / bytes != region && !self.seamless;
            if leaves || sent > 0 && sent + uops > self.p.line_uops.min(self.p.width) {
                return;
            }
            let split = inst.fused.end - inst.ms;
            for fused in inst.fused.start..split {
                sink.put(fused, at.iteration, Source::UopCache);
            }
            sent += uops;
            self.next = self.stream.after(at);
            if inst.ms > 0 {
                let routine = Routine {
                    next: split,
                    end: inst.fused.end,
                    iteration: at.iteration,
                };
                microcode.start(routine, true);
                return;
            }
        }
    }

    /// The copy of the block that a fused uop of the lines is in, and its number there.
    fn in_copy(&self, fused: u32) -> (u32, u32) {
        let uops = self.stream.block.fused.len() as u32;
        if fused < uops {
            (0, fused)
        } else {
            (fused / uops, fused % uops)
        }
    }

    /// The instruction of the last fused uop before one.
    fn last_inst(&self, end: u32) -> usize {
        end.checked_sub(1).map_or(0, |last| {
            let (_, fused) = self.in_copy(last);
            usize::from(self.stream.block.fused[fused as usize].inst)
        })
    }

    /// Move on after the end of a line; true if delivery ends for this cycle.
    fn next_line(&mut self, plan: &CachePlan, end: u32) -> bool {
        if self.fused < end {
            return false;
        }
        let block = self.stream.block;
        let last = self.last_inst(end);
        let mut next = last + 1;
        while block.insts.get(next).is_some_and(|i| i.tail) {
            next += 1;
        }
        if next >= block.insts.len() && self.line as usize + 1 >= plan.lines.len() {
            if !plan.starts_cached() {
                self.active = false;
                return true;
            }
            self.restart(plan, self.iteration + plan.copies);
            return self.ends(last, false) && !self.repeats;
        }
        if plan.decoded((next % block.insts.len()) as u32) {
            self.active = false;
            return true;
        }
        let region = |line: u32| plan.lines.get(line as usize).map(|l| l.region);
        let leaves = region(self.line) != region(self.line + 1);
        self.line += 1;
        self.fused = plan.lines.get(self.line as usize).map_or(end, |l| l.start);
        self.ends(last, leaves)
    }

    /// Whether delivery ends for this cycle behind an instruction.
    fn ends(&mut self, inst: usize, leaves_line: bool) -> bool {
        let branch = &self.stream.block.insts[inst];
        let (lost, goes_on) = self.targets.pass(inst, branch);
        self.stall = lost + if branch.taken { self.bubble } else { 0 } + self.targets.wait(branch, leaves_line);
        !goes_on
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, plan: &CachePlan, into: &mut Fingerprint) {
        if plan.streams {
            into.add(u64::from(self.next.inst) << 24 | into.near(self.next.iteration) << 8);
        } else if self.active {
            let place = u64::from(self.fused) << 32 | into.near(self.iteration) << 8;
            into.add(place | u64::from(self.stall));
            if plan.lines.iter().any(|l| l.apart) {
                let (region, apart) = self.last.unwrap_or_default();
                into.add(u64::from(region) << 8 | u64::from(self.found) << 1 | u64::from(apart));
            }
        }
        self.targets.fingerprint(into);
    }
}
