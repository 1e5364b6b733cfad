//! The predecoder: finds instructions in aligned blocks of code.

use crate::block::cache_plan::CachePlan;
use crate::block::position::Position;
use crate::block::stream::Stream;
use crate::block::Notion;
use crate::core::params::{predecode, Params};
use crate::engine::ablation::Ablation;
use crate::engine::events::{Event, Observer};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Queued;
use crate::engine::front::cursor::Cursor;
use std::collections::VecDeque;

/// The predecoder.
#[derive(Debug)]
pub struct Predecode<'a> {
    stream: Stream<'a>,
    p: &'a predecode,
    /// Code has no blocks.
    seamless: bool,
    /// Taken branches end nothing.
    joins: bool,
    cursor: Cursor,
    /// Block of code and iteration whose prefixes were paid for.
    paid: Option<(u32, u32)>,
}

impl<'a> Predecode<'a> {
    /// About to find the first instruction that is not cached.
    pub fn new(stream: Stream<'a>, params: &'a Params, ablation: &Ablation, plan: &CachePlan) -> Predecode<'a> {
        Predecode {
            stream,
            p: &params.predecode,
            seamless: ablation.predecode,
            joins: ablation.taken_branch,
            cursor: Cursor::new(plan),
            paid: None,
        }
    }

    /// Find instructions for a cycle.
    pub fn cycle<O: Observer>(&mut self, plan: &CachePlan, now: i32, queue: &mut VecDeque<Queued>, observer: &mut O) {
        // A stall passes only while there is room, as if it were a group of its own.
        let fits = queue.len() + self.p.width as usize <= self.p.queue as usize;
        if !self.cursor.running() || !fits || self.cursor.stalled() {
            return;
        }
        let first = self.cursor.next;
        let block = self.stream.end(first);
        if self.paid != Some((block, first.iteration)) {
            self.paid = Some((block, first.iteration));
            let prefixes = self.count_prefixes(plan, first, block);
            if prefixes > 0 {
                self.cursor.stall = (prefixes * self.p.lcp_cycles).saturating_sub(1);
                return;
            }
        }
        for _ in 0..self.p.width {
            let at = self.cursor.next;
            if self.stream.end(at) != block && !self.seamless {
                return;
            }
            let (inst, iteration) = (at.inst, at.iteration);
            queue.push_back(Queued {
                inst,
                iteration,
                ready: now + self.p.delay as i32,
            });
            observer.on(now, Event::Predecoded { inst, iteration });
            let found = self.stream.inst(at);
            let jumps = found.taken && !found.head && !self.joins;
            let next = self.stream.after(at);
            self.cursor.next = next;
            let copied = self.stream.block.notion == Notion::Unrolled && next.iteration != iteration;
            // The next copy continues in the same block of code.
            if copied && self.stream.end(next) == block {
                self.paid = Some((block, next.iteration));
            }
            if jumps || !plan.decoded(next.inst) {
                self.cursor.skip_cached(plan);
                if self.cursor.running() {
                    self.paid = None;
                }
                return;
            }
        }
        let next = self.cursor.next;
        if self.stream.end(next) != block && self.stream.opcode(next) == block {
            self.cursor.stall = self.p.cross_cycles;
        }
    }

    fn count_prefixes(&self, plan: &CachePlan, first: Position, block: u32) -> u32 {
        let mut at = first;
        let mut count = 0;
        while self.stream.end(at) == block {
            let inst = self.stream.inst(at);
            count += u32::from(inst.lcp);
            at = self.stream.after(at);
            if inst.taken || !plan.decoded(at.inst) {
                break;
            }
        }
        count
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        if self.cursor.running() {
            self.cursor.fingerprint(into);
            let paid = self
                .paid
                .map_or(0, |b| 1 | u64::from(b.0 & 3) << 32 | into.near(b.1) << 1);
            into.add(paid);
        }
    }
}
