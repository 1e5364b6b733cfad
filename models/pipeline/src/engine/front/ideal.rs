//! An ideal front end: the queue in front of rename is always full.

use crate::block::position::Position;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Waiting;
use std::collections::VecDeque;

/// The ideal front end.
#[derive(Clone, Copy, Debug)]
pub struct Ideal {
    /// Fused uops of an iteration.
    uops: usize,
    /// Next fused uop (as `inst`) and iteration.
    next: Position,
}

impl Ideal {
    /// About to hand over the first of so many fused uops.
    pub fn new(uops: usize) -> Ideal {
        Ideal {
            uops,
            next: Position::START,
        }
    }

    /// Fill the queue up to so many places.
    pub fn cycle(&mut self, places: usize, queue: &mut VecDeque<Waiting>) {
        while queue.len() < places {
            queue.push_back(Waiting {
                fused: self.next.inst,
                iteration: self.next.iteration,
                wraps: false,
            });
            self.next = self.next.step(self.uops);
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.next.inst) << 32 | into.near(self.next.iteration));
    }
}
