//! The loop buffer: a small loop is replayed from the queue in front of rename.

use crate::block::position::Position;
use crate::block::Block;
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Source;
use crate::engine::front::sink::Sink;

/// Groups of rename that it keeps ready.
pub const GROUPS: u32 = 4;

/// A loop buffer that holds a loop.
#[derive(Clone, Copy, Debug)]
pub struct LoopBuffer {
    /// Fused uops of the loop.
    uops: usize,
    /// Copies of the loop that are held.
    copies: u32,
    /// It starts over within a cycle.
    seamless: bool,
    /// Uops that it keeps ready.
    ahead: usize,
    /// Next fused uop (as `inst`) and iteration.
    next: Position,
}

impl LoopBuffer {
    /// A loop buffer that holds a loop, in as many copies as fit.
    pub fn new(block: &Block, params: &Params, ablation: &Ablation) -> LoopBuffer {
        let uops = block.fused.len() as u32;
        let unroll = params.loop_buffer.unroll.iter();
        let row = unroll.into_iter().find(|r| (r[0]..=r[1]).contains(&uops));
        LoopBuffer {
            uops: block.fused.len(),
            copies: row.map_or(1, |r| r[2].max(1)),
            seamless: ablation.loop_buffer,
            ahead: (GROUPS * params.rename.width) as usize,
            next: Position::START,
        }
    }

    /// Hand over uops for a cycle.
    pub fn cycle<O: Observer>(&mut self, sink: &mut Sink<'_, O>) {
        while sink.uops.len() < self.ahead && sink.fits(1) {
            let at = self.next;
            self.next = at.step(self.uops);
            let wraps = self.next.inst == 0 && self.next.iteration % self.copies == 0 && !self.seamless;
            sink.put_last(at.inst, at.iteration, Source::LoopBuffer, wraps);
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.next.inst) << 32 | into.near(self.next.iteration));
        into.add(u64::from(self.next.iteration % self.copies));
    }
}
