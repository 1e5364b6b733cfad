//! The loop buffer: a small loop is replayed from the queue in front of rename.

use crate::block::cache_plan::CachePlan;
use crate::block::{Block, Notion};
use crate::core::params::Params;
use crate::engine::events::{Event, Observer};
use crate::engine::flight::{Position, Source, Waiting};
use crate::engine::machine::Machine;

/// State of the loop buffer.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The loop is held.
    pub active: bool,
    /// Copies of the loop that are held.
    pub copies: u32,
    /// Next fused uop (as `inst`) and iteration.
    pub next: Position,
}

impl State {
    /// Decide whether the loop is held, and how often.
    pub fn new(block: &Block, params: &Params, plan: &CachePlan) -> State {
        let uops = block.fused.len() as u32;
        let p = &params.loop_buffer;
        let micro = block.insts.iter().any(|i| i.ms > 0);
        // Unbalanced pushes and pops keep a loop out.
        let active = p.enabled
            && block.notion == Notion::Loop
            && plan.complete()
            && uops <= p.uops
            && uops > 0
            && (uops <= p.crossing_uops || plan.regions() <= 1)
            && !micro
            && block.stack == 0;
        let copies = p
            .unroll
            .iter()
            .find(|r| (r[0]..=r[1]).contains(&uops))
            .map_or(1, |r| r[2].max(1));
        State {
            active,
            copies,
            next: Position { iteration: 0, inst: 0 },
        }
    }
}

impl Machine<'_> {
    /// Hand over uops for a cycle.
    pub fn loop_buffer_cycle<O: Observer>(&mut self, observer: &mut O) {
        self.source = Source::LoopBuffer;
        let end = self.block.fused.len() as u32;
        let room = (self.params.rename.queue as usize).min(4 * self.params.rename.width as usize);
        while self.idq.len() < room {
            let at = self.lsd.next;
            let last = at.inst + 1 == end;
            let wraps = last && (at.iteration + 1) % self.lsd.copies == 0 && !self.relief.loop_buffer;
            self.idq.push_back(Waiting {
                fused: at.inst,
                iteration: at.iteration,
                wraps,
            });
            observer.on(
                self.now,
                Event::Queued {
                    fused: at.inst,
                    iteration: at.iteration,
                    from: Source::LoopBuffer,
                },
            );
            self.lsd.next = if last {
                Position {
                    iteration: at.iteration + 1,
                    inst: 0,
                }
            } else {
                Position {
                    inst: at.inst + 1,
                    ..at
                }
            };
        }
    }
}
