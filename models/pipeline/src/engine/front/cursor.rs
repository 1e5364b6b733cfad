//! The position of the unit that finds instructions in code.

use crate::block::cache_plan::CachePlan;
use crate::block::position::Position;
use crate::engine::fingerprint::Fingerprint;

/// The next instruction that has to be found, and when.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// Next instruction.
    pub next: Position,
    /// Cycles that the unit still stands still.
    pub stall: u32,
    running: bool,
}

impl Cursor {
    /// At the first instruction that is not cached.
    pub fn new(plan: &CachePlan) -> Cursor {
        let mut cursor = Cursor {
            next: Position::START,
            stall: 0,
            running: true,
        };
        cursor.skip_cached(plan);
        cursor
    }

    /// Go on with the next instruction that is not cached, if there is one.
    pub fn skip_cached(&mut self, plan: &CachePlan) {
        let next = plan.next_decoded(self.next);
        self.running = next.is_some();
        self.next = next.unwrap_or(self.next);
    }

    /// Whether there is anything to find.
    pub fn running(&self) -> bool {
        self.running
    }

    /// Let a cycle of a stall pass; false if there is none.
    pub fn stalled(&mut self) -> bool {
        let stalled = self.stall > 0;
        self.stall = self.stall.saturating_sub(1);
        stalled
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        let at = self.next;
        into.add(u64::from(at.inst) << 24 | into.near(at.iteration) << 8 | u64::from(self.stall));
    }
}
