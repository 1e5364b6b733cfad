//! Fetch in aligned blocks, for cores without a predecoder.

use crate::block::cache_plan::CachePlan;
use crate::block::stream::Stream;
use crate::block::Notion;
use crate::core::params::{fetch, Params};
use crate::engine::ablation::Ablation;
use crate::engine::events::{Event, Observer};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Queued;
use crate::engine::front::cursor::Cursor;
use std::collections::VecDeque;

/// The fetch unit.
#[derive(Debug)]
pub struct Fetch<'a> {
    stream: Stream<'a>,
    p: &'a fetch,
    /// Cycles lost by a taken branch.
    bubble: u32,
    /// Code has no blocks.
    seamless: bool,
    /// Taken branches end nothing.
    joins: bool,
    cursor: Cursor,
}

impl<'a> Fetch<'a> {
    /// About to fetch the first instruction that is not cached.
    pub fn new(stream: Stream<'a>, params: &'a Params, ablation: &Ablation, plan: &CachePlan) -> Fetch<'a> {
        Fetch {
            stream,
            p: &params.fetch,
            bubble: params.fetch.taken_bubble + params.taken_branch.cycles - 1 + stream.cut.bubble,
            seamless: ablation.predecode,
            joins: ablation.taken_branch,
            cursor: Cursor::new(plan),
        }
    }

    /// Fetch an aligned block for a cycle.
    pub fn cycle<O: Observer>(&mut self, plan: &CachePlan, now: i32, queue: &mut VecDeque<Queued>, observer: &mut O) {
        if !self.cursor.running() || self.cursor.stalled() {
            return;
        }
        let first = self.stream.start(self.cursor.next);
        while queue.len() < self.p.queue as usize {
            let at = self.cursor.next;
            let inst = self.stream.inst(at);
            if self.stream.start(at) != first && !self.seamless {
                return;
            }
            // An instruction that runs into the next block is complete a cycle later.
            let crosses = self.stream.end(at) != first;
            let (inst_number, iteration) = (at.inst, at.iteration);
            queue.push_back(Queued {
                inst: inst_number,
                iteration,
                ready: now + 1 + i32::from(crosses),
            });
            observer.on(
                now,
                Event::Predecoded {
                    inst: inst_number,
                    iteration,
                },
            );
            let next = self.stream.after(at);
            self.cursor.next = next;
            let ends = inst.tail && next.inst == 0 && self.stream.block.notion == Notion::Loop;
            if inst.branch && !inst.head && (inst.taken || ends) && !self.joins {
                self.cursor.stall = self.bubble;
                self.cursor.skip_cached(plan);
                return;
            }
            if !plan.decoded(next.inst) {
                self.cursor.skip_cached(plan);
                return;
            }
            if crosses && !self.seamless {
                return;
            }
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        if self.cursor.running() {
            self.cursor.fingerprint(into);
        }
    }
}
